package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"
)

// TestUnreadIsBounded: clients that never read cannot fill the server's memory.
// Those that leave most unread are cut off, and a client that reads is served all
// the while.
func TestUnreadIsBounded(t *testing.T) {
	s, err := Start(
		t.Context(), Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, Services: []string{"svc"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	door, err := s.ConnectDoor()
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	large := make([]byte, 1<<20)
	if _, err := door.Subscribe("svc", func(m *nats.Msg) { _ = m.Respond(large) }); err != nil { // the other may have gone
		t.Fatal(err)
	}
	address := s.ns.Addr().String()
	for range 8 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // the server may have closed it
		text := "CONNECT {}\r\nSUB _INBOX.x 1\r\n" + strings.Repeat("PUB svc _INBOX.x 0\r\n\r\n", 40)
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	worst := 0
	for range 50 {
		if _, err := reader.Request("svc", nil, time.Minute); err != nil {
			t.Fatal(err)
		}
		list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
		if err != nil {
			t.Fatal(err)
		}
		_, total := greediest(list.Conns, nil)
		worst = max(worst, total)
	}
	const promised = 24 << 20 // and as much again until somebody looks
	if worst > 2*promised {
		t.Errorf("%d bytes were left unread at a time", worst)
	}
}

// TestGreediest: the client that has left most unread is cut off with all its
// connections that left much, and no other unless that is not enough.
func TestGreediest(t *testing.T) {
	t.Parallel()
	const all = maxUnread
	conn := func(id uint64, account string, pending int) *server.ConnInfo {
		return &server.ConnInfo{Cid: id, Account: account, Pending: pending}
	}
	for name, c := range map[string]struct {
		conns  []*server.ConnInfo
		before []gone
		want   []uint64
	}{
		"room":               {conns: []*server.ConnInfo{conn(1, "a", all/2), conn(2, "b", all/2)}},
		"own":                {conns: []*server.ConnInfo{conn(1, "", 2*all), conn(3, ownAccount, 2*all), conn(2, "b", all)}},
		"one":                {conns: []*server.ConnInfo{conn(1, "a", all), conn(2, "b", all/2)}, want: []uint64{1}},
		"many of one":        {conns: []*server.ConnInfo{conn(1, "a", all/2), conn(2, "b", all/2), conn(3, "a", all/4), conn(4, "a", 1)}, want: []uint64{1, 3}},
		"two":                {conns: []*server.ConnInfo{conn(1, "a", 2*all), conn(2, "b", 3*all), conn(3, "c", all/2)}, want: []uint64{2, 1}},
		"before":             {conns: []*server.ConnInfo{conn(1, "a", all/4), conn(2, "b", all/2)}, before: []gone{{account: "a", bytes: all}}, want: []uint64{1}},
		"others before":      {conns: []*server.ConnInfo{conn(2, "b", all/2)}, before: []gone{{account: "a", bytes: all}}},
		"before, and little": {conns: []*server.ConnInfo{conn(1, "a", littleUnread), conn(2, "b", all/2)}, before: []gone{{account: "a", bytes: all}}},
	} {
		worst, _ := greediest(c.conns, c.before)
		var got []uint64
		for _, one := range worst {
			got = append(got, one.Cid)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are cut off, not %v", name, got, c.want)
		}
	}
}

// TestOwnIsNotUnread: this process's own connections are not cut off for what
// waits for them, whatever the server calls their account.
func TestOwnIsNotUnread(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Config{
		StoreDir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, Services: []string{"svc"}, Streams: []string{"news"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	for _, connect := range []func() (*nats.Conn, error){
		s.Connect, s.ConnectDoor, s.ConnectNotices, s.ConnectReplica,
		func() (*nats.Conn, error) { return nats.Connect(s.ClientURL()) },
	} {
		nc, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
	if err != nil || len(list.Conns) != 5 {
		t.Fatalf("%d connections, %v", len(list.Conns), err)
	}
	for _, c := range list.Conns {
		c.Pending = maxUnread + 1
	}
	worst, total := greediest(list.Conns, nil)
	if len(worst) != 1 || worst[0].IP == "" || total != maxUnread+1 {
		t.Errorf("%d are cut off, for %d bytes: %+v", len(worst), total, worst)
	}
}

// TestUnknownIsBounded: who connects and does not say who it is cannot take the
// places of clients, or of this process's own connections; users come in all the while.
func TestUnknownIsBounded(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Config{
		StoreDir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true,
		Users: []User{{Name: "nova", PasswordHash: quickHash(t, "secret"), Account: "nova"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	own, err := s.ConnectDoor()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for n := range 3 * maxUnknown {
		conn, err := net.Dial("tcp", s.ns.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // the server may have closed it
		if n%100 != 0 {
			continue
		}
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("nova", "secret"), nats.Timeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	// Well before the server gives them up by itself.
	for deadline := time.Now().Add(authTimeout / 2); s.ns.GlobalAccount().NumLocalConnections() > maxUnknown+1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections", s.ns.GlobalAccount().NumLocalConnections())
		}
		time.Sleep(lookEvery)
	}
	if err := own.Flush(); err != nil || own.Reconnects > 0 {
		t.Errorf("the process's own connection: %v, %d reconnects", err, own.Reconnects)
	}
	if n := s.logins.accounts.ns.NumClients(); n < maxUnknown {
		t.Errorf("%d connections are left", n)
	}
}

// TestTooManyUnknown: the oldest connections of a place with too many are closed.
func TestTooManyUnknown(t *testing.T) {
	t.Parallel()
	var conns []*server.ConnInfo
	for n := range 2*maxUnknown + 3 {
		conns = append(conns, &server.ConnInfo{Cid: uint64(5000 - n), IP: []string{"192.0.2.1", "192.0.2.2"}[n%2]})
	}
	conns = append(conns, &server.ConnInfo{Cid: 1})
	got := tooManyUnknown(conns)
	var closed []uint64
	for _, c := range got["192.0.2.1"] {
		closed = append(closed, c.Cid)
	}
	if want := []uint64{5000 - 2*maxUnknown - 2, 5000 - 2*maxUnknown}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	if len(got["192.0.2.2"]) != 1 || len(got) != 2 {
		t.Errorf("%d places", len(got))
	}
}

// startedGate returns a gate that is stopped when the test ends.
func startedGate(t *testing.T) *gate {
	t.Helper()
	g, err := newGate()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

// TestNobodysPassword: an unknown name costs a comparison of the full length, and no
// password is right.
func TestNobodysPassword(t *testing.T) {
	t.Parallel()
	for range 20 { // the text is random
		g := startedGate(t)
		if cost, err := bcrypt.Cost(g.nobody); err != nil || cost != bcrypt.DefaultCost {
			t.Fatalf("%s: cost %d, %v", g.nobody, cost, err)
		}
	}
	g := startedGate(t)
	for _, password := range []string{"", "secret", string(g.key[:]), string(g.nobody)[:longestPassword/2]} {
		if err := g.hash(g.nobody, []byte(password)); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("%q: %v", password, err)
		}
		if g.right("", password) {
			t.Errorf("%q is right", password)
		}
	}
}

// TestGate: whoever guesses passwords has one compared at a time, and does not
// hold up logins with a password that was right before, or from another place.
func TestGate(t *testing.T) {
	t.Parallel()
	g := startedGate(t)
	var at, most, compared atomic.Int64
	g.hash = func(hash, password []byte) error {
		n := at.Add(1)
		defer at.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		compared.Add(1)
		if string(hash) != string(password) {
			return fmt.Errorf("wrong")
		}
		return nil
	}
	if !g.pass("home", "nova", "secret", "secret") {
		t.Fatal("the right password is wrong")
	}
	before := compared.Load()
	var guessing sync.WaitGroup
	for i := range 100 {
		guessing.Go(func() {
			if g.pass("elsewhere", "nova", "secret", fmt.Sprint("guess", i)) ||
				g.pass("elsewhere", fmt.Sprint("user", i), "", "secret") {
				t.Error("a wrong password is right")
			}
		})
	}
	if !g.pass("elsewhere", "nova", "secret", "secret") || !g.pass("home", "eve", "other", "other") {
		t.Error("a right password is wrong meanwhile")
	}
	g.stop() // those that wait give up
	guessing.Wait()
	if most.Load() != 1 {
		t.Errorf("%d passwords were compared at a time", most.Load())
	}
	if n := compared.Load() - before; n > 150 {
		t.Errorf("%d passwords were compared", n)
	}
	if g.pass("home", "nova", "secret", strings.Repeat("x", longestPassword+1)) ||
		g.pass("home", "nova", "changed", "secret") {
		t.Error("a wrong password is right")
	}
}

// TestGuessesWait: who has guessed wrong waits before the next password is compared,
// each time longer, and another place does not.
func TestGuessesWait(t *testing.T) {
	t.Parallel()
	g := startedGate(t)
	var compared atomic.Int64
	g.hash = func([]byte, []byte) error {
		compared.Add(1)
		return fmt.Errorf("wrong")
	}
	if g.pass("elsewhere", "nova", "secret", "guess") {
		t.Fatal("a wrong password is right")
	}
	q, last := g.places["elsewhere nova"], time.Duration(0)
	for range 5 {
		wait := g.penalty(q)
		if wait <= last {
			t.Errorf("after %d wrong guesses the next one waits %v, and waited %v before", q.wrong, wait, last)
		}
		last = wait
		g.learn(q, "nova", "secret", "guess", false)
	}
	g.mu.Lock()
	q.blocked = time.Now().Add(time.Hour)
	g.mu.Unlock()
	answered := make(chan bool)
	go func() { answered <- g.pass("elsewhere", "nova", "secret", "guess") }()
	if g.pass("home", "nova", "secret", "guess") || compared.Load() != 2 {
		t.Errorf("%d passwords were compared, want the first and that from another place", compared.Load())
	}
	select {
	case <-answered:
		t.Error("the next guess did not wait")
	case <-time.After(100 * time.Millisecond):
		g.stop()
		<-answered
	}
	if compared.Load() != 2 {
		t.Errorf("%d passwords were compared, want 2", compared.Load())
	}
}

// TestOwnRoles: none of the process's connections can do what another one is for.
func TestOwnRoles(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Config{
		StoreDir: t.TempDir(), LazySync: true, Services: []string{"svc.>"}, Streams: []string{"news.>"},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	may := map[string]map[string]bool{
		"log":     {"allot.log": true, "allot.rejected": true, "$JS.API.INFO": true},
		"door":    {"_R_.x": true},
		"notices": {"news.x": true},
	}
	for name, connect := range map[string]func() (*nats.Conn, error){"log": s.Connect, "door": s.ConnectDoor, "notices": s.ConnectNotices} {
		for _, subject := range []string{"allot.log", "allot.rejected", "$JS.API.INFO", "_R_.x", "news.x", "svc.x", "_INBOX.x", "$SYS.REQ.SERVER.PING", "x"} {
			nc, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := nc.LastError() == nil; got != may[name][subject] {
				t.Errorf("%s publishes on %s: %v", name, subject, nc.LastError())
			}
			nc.Close()
		}
	}
}
