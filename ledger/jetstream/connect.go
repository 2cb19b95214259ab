package jetstream

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Limits of a connection that goes over a network. One that has gone silent
// is given up after at most (maxPings + 1) * pingEvery.
const (
	dialTimeout   = 2 * time.Second
	writeTimeout  = 2 * time.Second
	pingEvery     = time.Second
	maxPings      = 2
	reconnectWait = 250 * time.Millisecond
)

// LogConnection are the options of a connection that carries commits over a
// network: silence is noticed within seconds, and a new connection is tried
// for ever. What is published while there is none fails at once, instead of
// waiting for an hour that its sender does not know.
func LogConnection() []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout), nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(maxPings),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.ReconnectBufSize(-1),
	}
}
