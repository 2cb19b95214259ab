package logtest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// StartNATS starts an embedded NATS server and connects to it, until the test
// ends.
func StartNATS(t testing.TB, cfg embedded.Config) (*embedded.Server, *nats.Conn) {
	t.Helper()
	ns, err := embedded.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Shutdown)
	nc, err := ns.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return ns, nc
}

// OpenLog opens the log in JetStream over a connection.
func OpenLog(t testing.TB, nc *nats.Conn, cfg jetstream.Config) *jetstream.Log {
	t.Helper()
	log, err := jetstream.Open(context.Background(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
