package main_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStopWhileWaiting stops a start that waits for a NATS server that does not
// say anything. It waits for none that is away.
func TestStopWhileWaiting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }() // nothing was sent
	s := start(t, t.TempDir(), "--nats-url", "nats://"+silent.Addr().String())
	if _, err := silent.Accept(); err != nil { // it waits then
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends("while NATS says nothing")
	if !strings.Contains(s.logs.String(), "told to stop") || strings.Contains(s.logs.String(), "goroutine ") {
		t.Errorf("%v, and it does not say that it was told to stop:\n%s", s.exit, s.logs)
	}

	away := start(t, t.TempDir(), "--nats-url", "nats://"+freeAddress(t))
	away.ends("by itself, since NATS is away")
	if away.exit == nil || !strings.Contains(away.logs.String(), "connect to") {
		t.Errorf("%v\n%s", away.exit, away.logs)
	}
}

// ends checks that the process ends by itself.
func (s *server) ends(when string) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(hang):
		s.t.Fatalf("the server does not end %s\n%s", when, s.logs)
	}
}
