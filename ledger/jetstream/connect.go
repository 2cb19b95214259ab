package jetstream

import (
	"time"

	"github.com/nats-io/nats.go"
)

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
