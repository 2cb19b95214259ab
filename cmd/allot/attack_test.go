package main_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
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
	conn, err := net.DialTimeout("tcp", g.nats, attackTime)
	if err != nil {
		return nil // it is turned away for a while, or the other client finds out whether the server is there
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
			if conn, err := net.DialTimeout("tcp", g.nats, attackTime); err == nil {
				conns = append(conns, conn)
			}
		}
		for _, conn := range conns {
			_ = conn.Close() // the server may have closed it
		}
	})
}

// costly is a request that takes long to find nothing for.
func costly() string {
	var groups []string
	for i := range costlyChildren + 1 {
		groups = append(groups, fmt.Sprintf(`{"suffix":"_%d","resources":{"VCPU":1}}`, i+1))
	}
	return `{"isolate":true,"groups":[` + strings.Join(groups, ",") + `]}`
}

// claims claims such things, a hundred at a time from each of twenty connections.
func claims(_ *testing.T, g *guarded, stop <-chan struct{}) {
	const claim = `{"for":[{"consumer":%q,"project":"p","user":"u"}],"requests":[%s]}`
	var all sync.WaitGroup
	for range 20 {
		nc := g.connect("tenant")
		for range 100 {
			all.Go(func() {
				until(stop, func() {
					msg := nats.NewMsg(wire.CommandPrefix + ".Claim")
					msg.Header.Set(wire.HeaderCommandID, commands.NewID().String())
					msg.Data = fmt.Appendf(nil, claim, commands.NewID(), costly())
					_, _ = nc.RequestMsg(msg, attackTime) // it may wait for longer
				})
			})
		}
	}
	all.Wait()
}

// searches asks for what takes long to find, from twenty connections.
func searches(_ *testing.T, g *guarded, stop <-chan struct{}) {
	query := []byte(costly())
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

// burns takes processor time, and does nothing to the server: what another client
// loses beside it is the machine's doing.
func burns(t *testing.T, _ *guarded, stop <-chan struct{}) {
	share, err := strconv.ParseFloat(os.Getenv(shareEnv), 64)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			// What one processor is to take, in pieces of a scheduler's size.
			part := min(share/float64(runtime.NumCPU()), 1)
			until(stop, func() {
				begun := time.Now()
				for sum := []byte("a"); time.Since(begun) < burnPiece; {
					next := sha256.Sum256(sum)
					sum = next[:]
				}
				if part < 1 {
					time.Sleep(time.Duration(float64(burnPiece) / max(part, 0.01) * (1 - part)))
				}
			})
		})
	}
	all.Wait()
}

const burnPiece = 2 * time.Millisecond

// taken are how long requests of a well-behaved client took, in order.
type taken []time.Duration

func (l taken) half() time.Duration { return l[len(l)/2] }
func (l taken) most() time.Duration { return l[len(l)*99/100] }

// mean shows a few that take for ever, which are no one of a hundred because so few others
// were sent meanwhile.
func (l taken) mean() (d time.Duration) {
	for _, one := range l {
		d += one
	}
	return d / time.Duration(len(l))
}

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
	{name: "unread answers", do: unread},
	{name: "wrong passwords", do: guesses},
	{name: "waiting queries", do: waits},
	{name: "heavy bodies", do: heavies},
	{name: "costly searches", do: searches},
	{name: "costly claims", do: claims},
	{name: "endless queries", do: endless("eve", "PUB allot.query.Commits _INBOX.x 10\r\n{\"from\":1}\r\n")},
	{name: "endless commands", do: endless("nova", "PUB allot.command.ReleaseConsumer _INBOX.x 51\r\n"+
		"{\"consumer\":\"22222222-2222-4222-8222-222222222222\"}\r\n")},
	{name: "endless pings", do: endless("eve", "PUB $SRV.PING.allot _INBOX.x 0\r\n\r\n")},
	{name: "endless discovery", do: endless("eve", "PUB $SRV.INFO.allot _INBOX.x 0\r\n\r\n")},
	{name: "endless large messages", do: endless("eve", largest), loses: true},
	{name: "messages that do not end", do: begins},
	{name: "connections with such", do: beginsAgain},
	{name: "connections without a name", do: staysUnknown},
}

// TestAttacksAreBounded: whatever a client sends or does not read, the server's
// memory grows by a bounded amount, and the server answers another client all the
// while.
func TestAttacksAreBounded(t *testing.T) { areBounded(t, attacks, attack.measure) }

// areBounded plays attacks, each again if more was lost than may be: other programs
// on the machine can make a server look worse, and never better, than it is.
func areBounded(t *testing.T, attacks []attack, measure func(attack, *testing.T) (lost []string)) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("skipped: only Linux tells what a process has in memory")
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			for try := 1; ; try++ {
				lost := measure(a, t)
				if len(lost) == 0 {
					return
				}
				t.Log(strings.Join(lost, "; "))
				if try == 3 {
					t.Fatal("each of three times")
				}
			}
		})
	}
}

// measure attacks a new server, beside a well-behaved client.
func (a attack) measure(t *testing.T) (lost []string) {
	t.Helper()
	g := launchGuarded(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.5000s", g.logs)
		}
	})
	honest := g.connect("root")
	g.populate(honest)
	g.makeWideTree(map[string]string{"X-Auth-Token": "admin"}, costlyChildren)
	defer honest.Close()
	defer g.kill()
	return a.compare(t, g.server, g.nats, func(n int, attacked bool) taken {
		return behaves(t, honest, n, a.loses && attacked)
	})
}

// mostTimes is how many times as long half of another client's requests, and one in the
// mean, may take beside an attack as beside a program that takes as much processor time and leaves
// the server alone. docs/security.md has what was measured, which is less; other
// programs on the machine make it vary.
const mostTimes = 8

// mostTailTimes is the same for 99 of 100 of the requests. Before there were turns and
// paces it was up to 1,000 times.
const mostTailTimes = 16

// compare has a well-behaved client send requests in quiet, beside the attack, and
// beside the control: a program that takes as much processor time as the attacker
// did, and leaves the server alone. What the client loses there is the machine's.
// It returns what is lost beyond what may be.
func (a attack) compare(
	t *testing.T, s *server, address string, requests func(n int, attacked bool) taken,
) (lost []string) {
	t.Helper()
	requests(1000, false) // the server gets its usual size
	quiet, before := requests(1000, false), s.resident()
	beside := func(one attack, share float64) (list taken, took float64) {
		stop := one.launch(t, address, share)
		for begun := time.Now(); time.Since(begun) < attackTime; {
			list = append(list, requests(10, one.name == a.name)...)
		}
		slices.Sort(list)
		return list, stop()
	}
	attacked, share := beside(a, 0)
	worst := s.peakRSS() - before
	requests(500, true) // what the attack has left behind is done meanwhile
	control, taken := beside(burner, share)
	times := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	t.Logf("%4d MB more than %d; the attacker took %.1f processors, the control %.1f", worst>>20, before>>20, share, taken)
	t.Logf("half of another's %d requests: quiet %v, control x %.1f, attacked x %.1f: %.1f of the control", len(attacked),
		quiet.half(), times(control.half(), quiet.half()), times(attacked.half(), quiet.half()),
		times(attacked.half(), control.half()))
	t.Logf("99 of 100 of them: quiet %v, control x %.1f, attacked x %.1f: %.1f of the control",
		quiet.most(), times(control.most(), quiet.most()), times(attacked.most(), quiet.most()),
		times(attacked.most(), control.most()))
	t.Logf("the mean of them: quiet %v, control x %.1f, attacked x %.1f: %.1f of the control; the longest took %v",
		quiet.mean(), times(control.mean(), quiet.mean()), times(attacked.mean(), quiet.mean()),
		times(attacked.mean(), control.mean()), attacked[len(attacked)-1])
	if worst > mostAttackGrowth {
		lost = append(lost, fmt.Sprintf("%d MB more", worst>>20))
	}
	if most := mostTimes * max(control.half(), quiet.half()); attacked.half() > most {
		lost = append(lost, fmt.Sprintf("half of another's requests take more than %v beside the attack, which may be %v",
			attacked.half(), most))
	}
	if most := mostTimes * max(control.mean(), quiet.mean()); attacked.mean() > most {
		lost = append(lost, fmt.Sprintf("another's requests take %v in the mean beside the attack, which may be %v",
			attacked.mean(), most))
	}
	if most := mostTailTimes * max(control.most(), quiet.most()); attacked.most() > most {
		lost = append(lost, fmt.Sprintf("99 of 100 of another's requests take up to %v beside the attack, which may be %v",
			attacked.most(), most))
	}
	return lost
}

// burner takes as much processor time as it is told to, and does nothing to the
// server.
var burner = attack{name: "nothing but processor time", do: burns}

// attackerEnv names the attack of a process that attacks, and attackedEnv the
// address that it attacks.
const (
	attackerEnv = "ALLOT_TEST_ATTACK"
	attackedEnv = "ALLOT_TEST_ATTACKED"
	shareEnv    = "ALLOT_TEST_SHARE"
)

// launch has a process of its own attack a server, until the returned function is
// called, which returns how many processors the attacker took. Attacker, server and
// well-behaved client share those of one machine, with equal priority.
func (a attack) launch(t *testing.T, address string, share float64) (stop func() float64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestAttacker$", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), attackerEnv+"="+a.name, attackedEnv+"="+address, shareEnv+"="+fmt.Sprint(share))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() float64 {
		took := time.Since(begun)
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("the attacker: %v\n%s", err, &out)
		}
		return float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(took)
	}
}

// TestAttacker is the process that attacks, until its input ends.
func TestAttacker(t *testing.T) {
	name := os.Getenv(attackerEnv)
	if name == "" {
		t.Skip("skipped: it is a part of TestAttacksAreBounded")
	}
	all := slices.Concat(attacks, streamAttacks, webAttacks, []attack{burner})
	i := slices.IndexFunc(all, func(a attack) bool { return a.name == name })
	if i < 0 {
		t.Fatalf("there is no attack %q", name)
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the other process says so, or is no more
	}()
	all[i].do(t, &guarded{server: &server{t: t}, nats: os.Getenv(attackedEnv)}, stop)
}

// attackTime is how long an attack lasts.
const attackTime = 1500 * time.Millisecond

// mostAttackGrowth is how much of the server's memory one attacker may take.
const mostAttackGrowth = 64 << 20
