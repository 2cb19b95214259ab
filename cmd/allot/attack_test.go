package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/embedded"
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
	// loses: the door's connection may be lost, with what is under way on it.
	loses bool
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
func unread(_ *testing.T, g *guarded, stop <-chan struct{}) {
	for range 20 {
		conn := signsIn(g, "eve")
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }() // the server may have closed it
		for range 100 {
			if _, err := conn.Write([]byte("PUB allot.query.Commits _INBOX.x 10\r\n{\"from\":1}\r\n")); err != nil {
				break // it was cut off
			}
		}
	}
	<-stop
}

// signsIn opens a connection of a user; nil: there is none.
func signsIn(g *guarded, user string) net.Conn {
	conn, err := net.Dial("tcp", g.nats)
	if err != nil {
		return nil // the other client finds out whether the server is there
	}
	// It may be refused, which the next write finds out.
	_, _ = fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":\"correct horse\"}\r\nSUB _INBOX.x 1\r\n", user)
	return conn
}

// endless returns an attack by twenty connections of a user that send one request
// again and again, as fast as they can, read nothing, and come back when they are cut off.
func endless(user, request string) func(t *testing.T, g *guarded, stop <-chan struct{}) {
	some := []byte(strings.Repeat(request, 1+16<<10/len(request)))
	return func(_ *testing.T, g *guarded, stop <-chan struct{}) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { until(stop, func() { pours(g, user, some, stop) }) })
		}
		all.Wait()
	}
}

// pours sends the same again and again on one connection, until it is cut off.
func pours(g *guarded, user string, some []byte, stop <-chan struct{}) {
	conn := signsIn(g, user)
	if conn == nil {
		return
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
		case <-done:
		}
		_ = conn.Close() // which ends a write, too
	}()
	for {
		if _, err := conn.Write(some); err != nil {
			return
		}
	}
}

// largest is a message with as many bytes as a client may send.
var largest = fmt.Sprintf("PUB allot.query.Usages _INBOX.x %d\r\n%s\r\n", embedded.DefaultPayload,
	strings.Repeat("x", embedded.DefaultPayload))

// begins sends nearly all of a message on as many connections as a user may have, and
// more, and waits.
func begins(_ *testing.T, g *guarded, stop <-chan struct{}) {
	for range 2 * embedded.DefaultUserConnections {
		if conn := signsIn(g, "eve"); conn != nil {
			defer func() { _ = conn.Close() }() // nothing is expected of it
			_, _ = conn.Write([]byte(largest)[:len(largest)-3])
		}
	}
	<-stop
}

// beginsAgain does that, and goes, again and again.
func beginsAgain(_ *testing.T, g *guarded, stop <-chan struct{}) {
	var all sync.WaitGroup
	for range embedded.DefaultUserConnections / 2 {
		all.Go(func() {
			until(stop, func() {
				if conn := signsIn(g, "eve"); conn != nil {
					_, _ = conn.Write([]byte(largest)[:len(largest)-3])
					_ = conn.Close() // nothing is expected of it
				}
			})
		})
	}
	all.Wait()
}

// staysUnknown connects and does not say who it is.
func staysUnknown(_ *testing.T, g *guarded, stop <-chan struct{}) {
	until(stop, func() {
		var conns []net.Conn
		for range 2000 {
			if conn, err := net.Dial("tcp", g.nats); err == nil {
				conns = append(conns, conn)
			}
		}
		for _, conn := range conns {
			_ = conn.Close() // the server may have closed it
		}
	})
}

// searches asks for what takes long to find, from twenty connections.
func searches(_ *testing.T, g *guarded, stop <-chan struct{}) {
	var groups []string
	for i := range costlyChildren + 1 {
		groups = append(groups, fmt.Sprintf(`{"suffix":"_%d","resources":{"VCPU":1}}`, i+1))
	}
	query := []byte(`{"isolate":true,"groups":[` + strings.Join(groups, ",") + `]}`)
	var all sync.WaitGroup
	for range 20 {
		nc := g.connect("eve")
		all.Go(func() {
			until(stop, func() {
				_, _ = nc.Request("allot.query.Candidates", query, attackTime) // it may wait for longer
			})
		})
	}
	all.Wait()
}

// costlyChildren is how many providers such a search tries all orders of.
const costlyChildren = 12

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

// heavies sends bodies that are as large as may be from 24 connections, again and again.
func heavies(_ *testing.T, g *guarded, stop <-chan struct{}) {
	const most = embedded.DefaultPayload - 256 // with headers
	command := []byte(
		`{"allocations":[` + strings.Repeat(`{"consumer":"22222222-2222-4222-8222-222222222222"},`, most/52-1) + `{}]}`,
	)
	query := []byte(`{"project":"` + strings.Repeat("p", most-20) + `"}`)
	var all sync.WaitGroup
	var conns []*nats.Conn
	users := []string{"nova", "tenant", "eve", "eve"}
	for n := range 24 {
		conns = append(conns, g.connect(users[n%4]))
	}
	for n, nc := range conns {
		user := users[n%4]
		subject, body := "allot.command.AllocateForConsumers", command
		if user == "eve" { // an auditor
			subject, body = "allot.query.Usages", query
		}
		all.Go(func() {
			until(stop, func() { _, _ = nc.Request(subject, body, attackTime) }) // it is refused, or cut off
		})
	}
	all.Wait()
}

// taken are how long requests of a well-behaved client took, in order.
type taken []time.Duration

func (l taken) half() time.Duration { return l[len(l)/2] }
func (l taken) most() time.Duration { return l[len(l)*99/100] }

// behaves sends n requests as a well-behaved client does, each when the one before is answered, and
// again if some may be lost.
func behaves(t *testing.T, nc *nats.Conn, n int, loses bool) (list taken) {
	t.Helper()
	limit := startLimit
	if loses {
		limit = attackTime
	}
	for range n {
		begun := time.Now()
		_, err := nc.Request("allot.query.Usages", []byte(`{"project":"p"}`), limit)
		for ; err != nil && loses && time.Since(begun) < startLimit; time.Sleep(10 * time.Millisecond) {
			t.Logf("after %v: %v", time.Since(begun), err)
			_, err = nc.Request("allot.query.Usages", []byte(`{"project":"p"}`), limit)
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, time.Since(begun))
	}
	slices.Sort(list)
	return list
}

// attacks are the attacks of one client.
var attacks = []attack{
	{name: "unread answers", most: mostAttackGrowth, do: unread},
	{name: "wrong passwords", most: mostAttackGrowth, do: guesses},
	{name: "waiting queries", most: mostAttackGrowth, do: waits},
	{name: "heavy bodies", most: mostAttackGrowth, do: heavies},
	{name: "costly searches", most: mostAttackGrowth, do: searches},
	{name: "endless queries", most: mostFloodGrowth, do: endless("eve", "PUB allot.query.Commits _INBOX.x 10\r\n{\"from\":1}\r\n")},
	{name: "endless commands", most: mostFloodGrowth, do: endless("nova", "PUB allot.command.ReleaseConsumer _INBOX.x 51\r\n"+
		"{\"consumer\":\"22222222-2222-4222-8222-222222222222\"}\r\n")},
	{name: "endless pings", most: mostFloodGrowth, do: endless("eve", "PUB $SRV.PING.allot _INBOX.x 0\r\n\r\n")},
	{name: "endless discovery", most: mostFloodGrowth, do: endless("eve", "PUB $SRV.INFO.allot _INBOX.x 0\r\n\r\n")},
	{name: "endless large messages", most: mostFloodGrowth, do: endless("eve", largest), loses: true},
	{name: "messages that do not end", most: 2 * mostAttackGrowth, do: begins}, // the collector takes as much as they
	{name: "connections with such", most: mostFloodGrowth, do: beginsAgain},
	{name: "connections without a name", most: mostFloodGrowth, do: staysUnknown},
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
	g.makeWideTree(map[string]string{"X-Auth-Token": "admin"}, costlyChildren)
	behaves(t, honest, 2000, false) // the server gets its usual size
	quiet, before := behaves(t, honest, 2000, false), g.resident()
	stop := a.launch(t, g)
	var beside taken
	for begun := time.Now(); time.Since(begun) < attackTime; {
		beside = append(beside, behaves(t, honest, 10, a.loses)...)
	}
	slices.Sort(beside)
	stop()
	worst := g.peakRSS() - before
	t.Logf(
		"%4d MB more than %d; half of another's %d requests take %.1f times as long as %v, 99 of 100 %.1f times as long as %v",
		worst>>20, before>>20, len(beside), float64(beside.half())/float64(quiet.half()), quiet.half(),
		float64(beside.most())/float64(quiet.most()), quiet.most(),
	)
	if worst > a.most {
		t.Errorf("%d MB more", worst>>20)
	}
}

// attackerEnv names the attack of a process that attacks, and attackedEnv the
// address of the server's NATS port.
const (
	attackerEnv = "ALLOT_TEST_ATTACK"
	attackedEnv = "ALLOT_TEST_ATTACKED"
)

// launch has a process of its own attack a server, until the returned function is
// called. Attacker, server and well-behaved client share the processors of one
// machine, so the attacker's process has the lowest priority: what is measured is
// how the server divides its time, and not how the machine does.
func (a attack) launch(t *testing.T, g *guarded) (stop func()) {
	t.Helper()
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestAttacker$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), attackerEnv+"="+a.name, attackedEnv+"="+g.nats)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("the attacker: %v\n%s", err, &out)
		}
	}
}

// TestAttacker is the process that attacks, until its input ends.
func TestAttacker(t *testing.T) {
	name := os.Getenv(attackerEnv)
	if name == "" {
		t.Skip("skipped: it is a part of TestAttacksAreBounded")
	}
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == name })
	if i < 0 {
		t.Fatalf("there is no attack %q", name)
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the other process says so, or is no more
	}()
	attacks[i].do(t, &guarded{server: &server{t: t}, nats: os.Getenv(attackedEnv)}, stop)
}

// attackTime is how long an attack lasts.
const attackTime = 4 * time.Second

// mostAttackGrowth is how much of the server's memory one attacker may take.
const mostAttackGrowth = 64 << 20

// mostFloodGrowth is what floods from the server's own machine may take: how much
// comes until who sends it is found out depends on the machine, and on what else
// runs there. docs/security.md has what was measured.
const mostFloodGrowth = 768 << 20
