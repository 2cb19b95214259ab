package main_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
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
	s.stopsEarly(t, "while NATS says nothing")

	away := start(t, t.TempDir(), "--nats-url", "nats://"+freeAddress(t))
	away.ends("by itself, since NATS is away")
	if away.exit == nil || !strings.Contains(away.logs.String(), "connect to") {
		t.Errorf("%v\n%s", away.exit, away.logs)
	}
}

// stopsEarly sends SIGTERM to a server that may still be starting.
func (s *server) stopsEarly(t *testing.T, when string) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !strings.Contains(err.Error(), "finished") {
		t.Fatal(err)
	}
	s.ends(when)
	state := s.cmd.ProcessState
	byDefault := state.Sys().(syscall.WaitStatus).Signaled() // before it had begun
	text := s.logs.String()
	t.Logf("%s: %v %.200q", when, state, text)
	switch {
	case strings.Contains(text, "panic") || strings.Contains(text, "goroutine "):
		t.Errorf("%s: %s", when, text)
	case !byDefault && s.exit != nil && !strings.Contains(text, "told to stop"):
		t.Errorf("%s: %v, and it does not say that it was told to stop:\n%s", when, s.exit, text)
	}
}
