package main_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// resident returns the resident memory of the process. From now on peakRSS counts
// anew.
func (s *server) resident() int64 {
	s.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil {
		s.t.Skipf("skipped: the system does not count peaks anew: %v", err)
	}
	return s.peakRSS()
}

// attack is something that strangers do again and again, until they are told to
// stop.
type attack struct {
	name string
	most int64 // bound of the server's growth, in bytes
	do   func(t *testing.T, g *guarded, stop <-chan struct{})
}

// until calls a function again and again, until it is to stop.
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

// waits asks for sequences that can never be read.
func waits(t *testing.T, g *guarded, stop <-chan struct{}) {
	nc := g.connect("nova")
	inbox := nats.NewInbox()
	if _, err := nc.Subscribe(inbox, func(*nats.Msg) {}); err != nil {
		t.Error(err)
	}
	for range 5100 {
		_ = nc.PublishRequest(
			"allot.query.Usages", inbox, []byte(`{"project":"p","min_sequence":1000000}`),
		) // it may be refused
	}
	<-stop
}

// heavies sends bodies of 7 MB from four connections, again and again.
func heavies(_ *testing.T, g *guarded, stop <-chan struct{}) {
	command := []byte(
		`{"allocations":[` + strings.Repeat(`{"consumer":"22222222-2222-4222-8222-222222222222"},`, 7<<20/52) + `{}]}`,
	)
	query := []byte(`{"project":"` + strings.Repeat("p", 7<<20) + `"}`)
	var all sync.WaitGroup
	for user, nc := range map[string]*nats.Conn{"nova": g.connect("nova"), "tenant": g.connect("tenant"), "eve": g.connect("eve"), "eve again": g.connect("eve")} {
		subject, body := "allot.command.AllocateForConsumers", command
		if strings.HasPrefix(user, "eve") { // an auditor
			subject, body = "allot.query.Usages", query
		}
		all.Go(func() {
			until(stop, func() { _, _ = nc.Request(subject, body, time.Minute) }) // it is refused
		})
	}
	all.Wait()
}

// typical returns how long the requests of a well-behaved client take.
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

// attacks are the attacks of one client.
var attacks = []attack{
	{
		"unread answers", mostAttackGrowth, unread,
	}, {"wrong passwords", mostAttackGrowth, guesses}, {"waiting queries", mostAttackGrowth, waits},
	{"heavy bodies", mostHeavyGrowth, heavies},
}

// TestAttacksAreBounded: whatever a client sends or does not read, the server's
// memory grows by a bounded amount, and the server answers another client all the
// while.
func TestAttacksAreBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: only Linux tells what a process has in memory")
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.measure(t) })
	}
}

// measure attacks a new server, beside a well-behaved client.
func (a attack) measure(t *testing.T) {
	g := launchGuarded(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.5000s", g.logs)
		}
	})
	honest := g.connect("root")
	g.populate(honest)
	for range 20 {
		typical(t, honest) // the server gets its usual size
	}
	quiet, before := typical(t, honest), g.resident()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		a.do(t, g, stop)
	}()
	beside := time.Duration(0)
	for begun := time.Now(); time.Since(begun) < attackTime; {
		beside = max(beside, typical(t, honest))
	}
	close(stop)
	<-stopped
	worst := g.peakRSS() - before
	t.Logf(
		"%4d MB more than %d; half of another's requests take %.1f times as long as %v", worst>>20, before>>20,
		float64(beside)/float64(quiet), quiet,
	)
	if worst > a.most {
		t.Errorf("%d MB more", worst>>20)
	}
}

// attackTime is how long an attack lasts.
const attackTime = 4 * time.Second

// mostAttackGrowth is how much of the server's memory one attacker may take.
const mostAttackGrowth = 64 << 20

// mostHeavyGrowth is how much messages of 7 MB may take on their way through the
// NATS server; docs/security.md explains it. 66 to 169 MB were measured.
const mostHeavyGrowth = 224 << 20
