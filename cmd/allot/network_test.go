package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/logtest"
)

// distant starts a NATS server and a proxy in front of it that makes faults. It
// returns the flags for serving behind the proxy.
func distant(t *testing.T) (proxy *logtest.Proxy, flags []string) {
	t.Helper()
	ns := outside(t, t.TempDir(), natsserver.RANDOM_PORT, false)
	proxy = logtest.StartProxy(t, strings.TrimPrefix(ns.ClientURL(), "nats://"))
	return proxy, []string{
		"--nats-url", "nats://" + proxy.Address(), "--pace-answer-within", "1s",
	}
}

// TestFaultyNetwork makes faults between the server and its NATS while clients
// send commands. While nothing comes through, commands are answered 503, and
// everything that does not need the log can be read. When the network is back, so
// is the server. No answered command is lost, and nothing is done twice.
func TestFaultyNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		faults logtest.Faults
		reset  bool
		cutOff bool // nothing comes through
		lasts  time.Duration
	}{
		"silent":                    {logtest.Silence, false, true, 0},
		"silent for long":           {logtest.Silence, false, true, 6 * time.Second}, // the connection is given up
		"half open, answers lost":   {logtest.Faults{SilentIn: true}, false, true, 0},
		"half open, requests lost":  {logtest.Faults{SilentOut: true}, false, true, 0},
		"reset, and then refused":   {logtest.Faults{Refuse: true}, true, true, 0},
		"reset":                     {logtest.Faults{}, true, false, 0},
		"slow, in pieces":           {logtest.Faults{DelayIn: 2 * time.Millisecond, DelayOut: 2 * time.Millisecond, Piece: 1000}, false, false, 0},
		"late acknowledgements":     {logtest.Faults{DelayIn: 100 * time.Millisecond}, false, false, 0},
		"cut in the middle":         {logtest.Faults{CutOut: 9_000}, false, false, 0},
		"answers cut in the middle": {logtest.Faults{CutIn: 6_000}, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, flags := distant(t)
			data := t.TempDir()
			s := launch(t, data, flags...)
			s.makeProvider(1_000_000)
			n := newTally()
			for range times(1, 2) {
				s.until(n, http.StatusNoContent)
				proxy.Set(c.faults)
				if c.reset {
					proxy.Reset()
				}
				if c.cutOff {
					s.until(n, http.StatusServiceUnavailable)
					s.mustStale(provider + "/usages") // another server might lead by now
				} else {
					for range 25 {
						s.until(n, http.StatusNoContent)
					}
				}
				time.Sleep(c.lasts)
				proxy.Heal()
				healed := time.Now()
				s.until(n, http.StatusNoContent)
				t.Logf("a command was accepted %v after the network was back", time.Since(healed))
			}
			n.check(s)
			s.kill()
			n.check(launch(t, data, flags...))
			tell(
				t, "network to an external NATS: "+name, times(1, 2),
				fmt.Sprintf("%d answered commands, none lost, none twice", len(n.answered)),
			)
		})
	}
}

// TestStartAndStopInSilence: neither hangs when the network is silent.
func TestStartAndStopInSilence(t *testing.T) {
	t.Parallel()
	proxy, flags := distant(t)
	data := t.TempDir()
	s := launch(t, data, flags...)
	s.makeProvider(10)
	proxy.Set(logtest.Silence)
	s.until(newTally(), http.StatusServiceUnavailable)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends("after SIGTERM")
	again := start(t, data, flags...)
	again.ends("at its start")
	if again.exit == nil || !strings.Contains(again.logs.String(), "connect to") {
		t.Errorf("%v\n%s", again.exit, again.logs)
	}
	// The connection is made, and then nothing more comes. Even then the server
	// doubts nothing in the data folder.
	proxy.Heal()
	proxy.Set(logtest.Faults{CutIn: 2_500})
	again = start(t, data, flags...)
	if again.waitServing() {
		t.Error("the network was not cut")
	}
	again.ends("at its start, cut off")
	text := again.logs.String()
	if strings.Contains(text, "gap") || strings.Contains(text, "move the folders") ||
		!strings.Contains(text, "out of reach") ||
		!strings.Contains(text, "nothing was changed") {
		t.Errorf("silence is taken for damage:\n%s", text)
	}
	proxy.Heal()
	launch(t, data, flags...).must(http.StatusOK, "GET", provider, "")
}

// ends checks that the process ends by itself.
func (s *server) ends(when string) {
	s.t.Helper()
	begun := time.Now()
	select {
	case <-s.exited:
		s.t.Logf("ended %s within %v", when, time.Since(begun))
	case <-time.After(hangLimit):
		s.t.Fatalf("the server does not end %s\n%s", when, s.logs)
	}
}
