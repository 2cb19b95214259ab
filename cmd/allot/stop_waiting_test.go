package main_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

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
