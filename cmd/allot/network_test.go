package main_test

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/logtest"
)

// TestFaultyNetwork makes faults between the server and its NATS while clients
// send commands. While nothing comes through, commands are answered 503, and
// everything that does not need the log can be read. When the network is back, so
// is the server. No answered command is lost, and nothing is done twice.
func TestFaultyNetwork(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]logtest.Faults{"silent": logtest.Silence, "reset, then refused": {Refuse: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := outside(t)
			proxy := logtest.StartProxy(t, strings.TrimPrefix(ns.ClientURL(), "nats://"))
			flags := []string{"--nats-url", "nats://" + proxy.Address(), "--pace-answer-within", "1s"}
			data := t.TempDir()
			s := launch(t, data, flags...)
			s.makeProvider(1_000_000)
			n := newTally()
			for range times(1, 2) {
				s.until(n, http.StatusNoContent)
				proxy.Set(faults)
				if faults.Refuse {
					proxy.Reset()
				}
				s.until(n, http.StatusServiceUnavailable)
				stale := map[string]string{"X-Auth-Token": "admin", "Allot-Consistency": "stale"} // another server might lead by now
				if status, text := s.send("GET", provider+"/usages", "", stale); status != http.StatusOK {
					t.Errorf("a read that may be old: %d %s", status, text)
				}
				proxy.Heal()
				healed := time.Now()
				s.until(n, http.StatusNoContent)
				t.Logf("a command was accepted %v after the network was back", time.Since(healed))
			}
			n.check(s)
			s.Kill()
			n.check(launch(t, data, flags...))
			tell(t, "network to an external NATS: "+name, times(1, 2), n.outcome())
		})
	}
}

// outside starts an external NATS server.
func outside(t *testing.T) *natsserver.Server {
	t.Helper()
	return serveNATS(t, &natsserver.Options{JetStream: true, SyncAlways: true})
}

// serveNATS starts a NATS server with options, at free ports of this machine.
func serveNATS(t *testing.T, opts *natsserver.Options) *natsserver.Server {
	t.Helper()
	opts.Host, opts.Port, opts.HTTPHost, opts.HTTPPort = "127.0.0.1", natsserver.RANDOM_PORT, "127.0.0.1", natsserver.RANDOM_PORT
	opts.StoreDir, opts.NoSigs, opts.NoLog = t.TempDir(), true, true
	ns, err := natsserver.NewServer(opts)
	must(t, err)
	go ns.Start()
	if !ns.ReadyForConnections(hang) {
		t.Fatal("the NATS server does not start")
	}
	t.Cleanup(ns.Shutdown)
	return ns
}

// TestStopWhileWaiting stops a start that waits for a NATS server that does not
// say anything.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = silent.Close() }() // nothing was sent
	s := start(t, t.TempDir(), "--nats-url", "nats://"+silent.Addr().String())
	if _, err := silent.Accept(); err != nil { // it waits then
		t.Fatal(err)
	}
	must(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	exit := s.Wait()
	if !strings.Contains(s.Logs.String(), "told to stop") || strings.Contains(s.Logs.String(), "goroutine ") {
		t.Errorf("%v, and it does not say that it was told to stop:\n%s", exit, s.Logs)
	}
}
