package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// outside starts an external NATS server.
func outside(t *testing.T, store string, port int, syncAlways bool) *natsserver.Server {
	t.Helper()
	ns, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: port, HTTPHost: "127.0.0.1", HTTPPort: natsserver.RANDOM_PORT,
		JetStream: true, StoreDir: store, SyncAlways: syncAlways, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	if !ns.ReadyForConnections(hang) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(ns.Shutdown)
	return ns
}

// TestNATSRestart stops the external server and starts it again. The writer must
// go on by itself, and nothing may be there twice.
func TestNATSRestart(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	ns := outside(t, store, natsserver.RANDOM_PORT, true)
	port := ns.Addr().String()
	s := launch(t, t.TempDir(), "--nats-url", ns.ClientURL())
	s.makeProvider(10)
	ns.Shutdown()
	ns.WaitForShutdown()
	id := uuid.NewString()
	consumer := uuid.NewString()
	answered := make(chan int, 1)
	go func() {
		for {
			status, _, err := s.call("PUT", "/allocations/"+consumer, id, allocation())
			if err != nil || status != http.StatusServiceUnavailable {
				answered <- status
				return
			}
		}
	}()
	ledgertest.WaitFor(t, "a server that is not ready", func() bool {
		status, _ := s.standing("/readyz")
		return status == http.StatusServiceUnavailable
	})
	number := 0
	for _, digit := range port[strings.LastIndex(port, ":")+1:] {
		number = number*10 + int(digit-'0')
	}
	outside(t, store, number, true)
	select {
	case status := <-answered:
		if status != http.StatusNoContent {
			t.Errorf("answered %d\n%s", status, s.logs)
		}
	case <-time.After(hang):
		t.Fatalf("no answer after the restart\n%s", s.logs)
	}
	if n := s.commandIDs()[id]; n != 1 {
		t.Errorf("the command is in the log %d times", n)
	}
}
