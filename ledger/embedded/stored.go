package embedded

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Stored is what JetStream keeps on the disk.
type Stored struct {
	// Bytes and Messages are those of all streams: the log, and, where they are
	// kept, rejected commands.
	Bytes, Messages uint64
	// Connections are those of clients, the server's own among them.
	Connections int
}

// Stored asks the NATS server.
func (s *Server) Stored() (Stored, error) {
	found, err := s.ns.Jsz(&server.JSzOptions{})
	if err != nil {
		return Stored{}, fmt.Errorf("embedded: JetStream does not say what it keeps: %w", err)
	}
	return Stored{Bytes: found.Store, Messages: found.Messages, Connections: s.ns.NumClients()}, nil
}
