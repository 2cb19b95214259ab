package embedded

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Stored is how much JetStream stores.
type Stored struct {
	// Bytes and Messages are those of all streams: the log and, if they are kept,
	// rejected commands.
	Bytes, Messages uint64
	// Connections is the number of connections, including the process's own.
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
