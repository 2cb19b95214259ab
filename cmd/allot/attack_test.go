package main_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// resident is what the process has in memory.
func (s *server) resident() int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}

// attack is what strangers do, again and again until they are told to stop.
type attack struct {
	name string
	do   func(t *testing.T, g *guarded, stop <-chan struct{})
}

// until calls a function until it is to stop.
func until(stop <-chan struct{}, do func()) {
	for {
		select {
		case <-stop:
			return
		default:
			do()
		}
	}
}

// unread asks for much and reads nothing.
func unread(t *testing.T, g *guarded, stop <-chan struct{}) {
	for range 20 {
		conn, err := net.Dial("tcp", g.nats)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }() // the server may have closed it
		_, _ = fmt.Fprintf(conn, "CONNECT {\"user\":\"eve\",\"pass\":\"correct horse\"}\r\nSUB _INBOX.x 1\r\n")
		for range 100 {
			if _, err := conn.Write([]byte("PUB allot.query.Commits _INBOX.x 10\r\n{\"from\":1}\r\n")); err != nil {
				break // it was cut off
			}
		}
	}
	<-stop
}

// guesses tries wrong passwords, a hundred at a time.
func guesses(_ *testing.T, g *guarded, stop <-chan struct{}) {
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			until(stop, func() {
				if nc, err := nats.Connect("nats://"+g.nats, nats.UserInfo("eve", "wrong"), quiet, nats.Timeout(startLimit)); err == nil {
					nc.Close()
				}
			})
		})
	}
	all.Wait()
}

// waits asks for what can never be read.
func waits(t *testing.T, g *guarded, stop <-chan struct{}) {
	nc := g.connect("nova")
	inbox := nats.NewInbox()
	if _, err := nc.Subscribe(inbox, func(*nats.Msg) {}); err != nil {
		t.Error(err)
	}
	for range 5100 {
		_ = nc.PublishRequest("allot.query.Usages", inbox, []byte(`{"project":"p","min_sequence":1000000}`)) // it may be refused
	}
	<-stop
}

// typical is how long the requests of a well-behaved client take.
func typical(t *testing.T, nc *nats.Conn) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 100 {
		begun := time.Now()
		if _, err := nc.Request("allot.query.Usages", []byte(`{"project":"p"}`), startLimit); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestAttacksAreBounded: whatever a client sends, and whatever it does not
// read, the server's memory grows by a bounded amount, and it answers another
// client all the while.
func TestAttacksAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: only Linux tells what a process has in memory")
	}
	t.Setenv("GOGC", "50") // garbage is not what is measured
	g := launchGuarded(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.5000s", g.logs)
		}
	})
	g.populate(g.connect("root"))
	honest := g.connect("root")
	for _, a := range []attack{
		{"unread answers", unread}, {"wrong passwords", guesses}, {"waiting queries", waits},
	} {
		typical(t, honest)
		before, quiet := g.resident(), typical(t, honest)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			a.do(t, g, stop)
		}()
		time.Sleep(100 * time.Millisecond)
		worst, attacked := 0, time.Duration(0)
		for range 3 {
			attacked = max(attacked, typical(t, honest))
			worst = max(worst, g.resident()-before)
		}
		close(stop)
		<-stopped
		t.Logf("%-16s %4d MB more, %4.1f times as long (%v)", a.name, worst>>20, float64(attacked)/float64(quiet), quiet)
		if worst > mostAttackGrowth {
			t.Errorf("%s: %d MB more", a.name, worst>>20)
		}
	}
}

// mostAttackGrowth is above what is kept for clients that do not read (32 MiB),
// what is on its way to them, and garbage; without bounds it was gigabytes.
const mostAttackGrowth = 256 << 20
