package main_test

import (
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// outside starts an external NATS server.
func outside(t *testing.T, store string, port int, syncAlways bool) *natsserver.Server {
	t.Helper()
	ns, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, HTTPHost: "127.0.0.1", HTTPPort: natsserver.RANDOM_PORT,
		JetStream: true, StoreDir: store, SyncAlways: syncAlways, NoSigs: true, NoLog: true,
	})
	must(t, err)
	go ns.Start()
	if !ns.ReadyForConnections(hang) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(ns.Shutdown)
	return ns
}
