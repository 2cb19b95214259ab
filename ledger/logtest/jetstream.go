package logtest

import (
	"cmp"
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// StartNATS starts an embedded NATS server and connects to it, until the test
// ends.
func StartNATS(t testing.TB, cfg embedded.Config) (*embedded.Server, *nats.Conn) {
	t.Helper()
	ns := ledgertest.Must(embedded.Start(context.Background(), cfg))
	t.Cleanup(ns.Shutdown)
	nc := ledgertest.Must(ns.Connect())
	t.Cleanup(nc.Close)
	return ns, nc
}

// OpenLog opens the log in JetStream over a connection. A machine that does much else is no silent log.
func OpenLog(t testing.TB, nc *nats.Conn, cfg jetstream.Config) *jetstream.Log {
	t.Helper()
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, ledgertest.Hang)
	return ledgertest.Must(jetstream.Open(context.Background(), nc, cfg))
}
