package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/semver"

	"github.com/allot-project/allot/commands/fair"
)

// OldestServer is the oldest release of nats-server that keeps a log: the one that
// Allot's tests run with. Earlier ones have known faults.
const OldestServer = "2.15.3"

// ErrOldServer means that a NATS server is older than OldestServer.
var ErrOldServer = errors.New("jetstream: the NATS server is too old")

// CheckServer refuses the server of a connection if it is too old.
func CheckServer(nc *nats.Conn) error {
	if version := nc.ConnectedServerVersion(); semver.Compare("v"+version, "v"+OldestServer) < 0 {
		return fmt.Errorf("%w: %s is nats-server %s, of which faults are known that lose or hide commits: run %s or newer",
			ErrOldServer, nc.ConnectedUrlRedacted(), version, OldestServer)
	}
	return nil
}

// Limits of a connection over a network. A silent connection is given up after at
// most (maxPings + 1) * pingEvery.
const (
	dialTimeout   = 2 * time.Second
	writeTimeout  = 2 * time.Second
	pingEvery     = time.Second
	maxPings      = 2
	reconnectWait = 250 * time.Millisecond
)

// LogConnection returns the options of a connection that carries commits over a
// network. It notices silence within seconds, and tries for ever to connect
// again. Without a connection a publish fails at once, because it would otherwise
// be sent at a time that its sender does not know.
func LogConnection() []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(maxPings),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
	}
}

// LogRefusals logs what goes wrong on a connection without being an answer. What a client sends can do that, so it
// says few lines.
func LogRefusals(log *slog.Logger, connection string) nats.Option {
	few := fair.NewFewLines()
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if leftOut, may := few.Next(); may {
			log.Warn("NATS refuses something", "connection", connection, "error", err, "left_out", leftOut)
		}
	})
}
