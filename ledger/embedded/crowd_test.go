package embedded

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// aDoor is a door of which only numbers are known.
type aDoor struct {
	unseen atomic.Int64
	seen   map[uint64]int
}

func (d *aDoor) Unseen() int            { return int(d.unseen.Load()) }
func (d *aDoor) Came() int              { return d.Unseen() }
func (d *aDoor) CountSenders()          {}
func (d *aDoor) Forget(string)          {}
func (d *aDoor) SeenOf() map[uint64]int { return d.seen }

// Caught is never: these are only numbers.
func (d *aDoor) Caught(int) <-chan struct{} { return nil }

// TestTooMuch: whoever has more than its share in the line to the door is cut off;
// nobody else is, however much it has sent and the door has seen, unless the line
// is full.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	const share, kib = shareMessages, 1 << 10
	door := &aDoor{seen: map[uint64]int{1: 50_000, 3: 100_000}}
	before := map[uint64]volume{1: {1000, 1 << 40}, 3: {1, 1}}
	// Of a so many messages were not seen, on two connections, and of b; all have so many bytes.
	sent := func(ofA, ofB, bytes int) []*server.ConnInfo {
		info := func(id uint64, account string, messages int) *server.ConnInfo {
			b := before[id]
			messages += door.seen[id]
			return &server.ConnInfo{
				Cid: id, Account: account, InMsgs: int64(b.messages + messages), InBytes: int64(b.bytes + messages*bytes),
			}
		}
		return []*server.ConnInfo{
			info(1, "a", ofA/2), info(2, "a", ofA-ofA/2), info(3, "b", ofB), info(4, "", 9*share), info(5, ownAccount, 9*share),
		}
	}
	for name, c := range map[string]struct {
		ofA, ofB, bytes int
		line            line
		want            []string
	}{
		"all seen":                      {0, 0, 100 * kib, line{unseen: fullUnseen, bytes: fullBytes}, nil},
		"small ones":                    {share + 1, share, 100, line{}, []string{"a"}},
		"small ones of two":             {share + 1, share + 1, 100, line{}, []string{"a", "b"}},
		"each within its share":         {share, share, 100, line{unseen: fullUnseen, bytes: fullBytes}, nil},
		"full of messages":              {share - 1, share, 100, line{unseen: fullUnseen + 1}, []string{"b"}},
		"large ones":                    {1, 81, 100 * kib, line{}, nil},
		"too many large ones":           {1, 82, 100 * kib, line{}, []string{"b"}},
		"full of large ones":            {81, 1, 100 * kib, line{bytes: fullBytes + 1}, []string{"a"}},
		"full of others' who have gone": {40, 1, 100 * kib, line{unseen: fullUnseen + 1, bytes: brimBytes}, nil},
		"full to the brim":              {2, 1, 100 * kib, line{bytes: brimBytes + 1}, []string{"a"}},
		"to the brim of who has gone":   {6, 5, 10 * kib, line{bytes: brimBytes + 1}, nil},
		"seen after they count":         {-5, -5, 100, line{unseen: fullUnseen + 1, bytes: fullBytes + 1}, nil},
	} {
		watched := crowd{door: door, before: before}
		if got := slices.Sorted(maps.Keys(watched.tooMuch(sent(c.ofA, c.ofB, c.bytes), c.line))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are cut off, not %v", name, got, c.want)
		}
	}
}

// TestFloodIsCutOff: a user that sends faster than the door reads is cut off with
// all its connections, and comes back after a while; another one stays, and is
// answered.
func TestFloodIsCutOff(t *testing.T) {
	t.Parallel()
	users := []User{}
	for _, name := range []string{"flood", "calm"} {
		users = append(users, User{
			Name: name, PasswordHash: quickHash(t, "secret"), Account: name, Publish: []string{"svc"}, Subscribe: []string{"_INBOX.>"},
		})
	}
	s, err := Start(t.Context(), Config{
		StoreDir: t.TempDir(), Listen: "127.0.0.1:0", LazySync: true, Services: []string{"svc"}, Users: users,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	door, err := s.ConnectDoor()
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	if _, err := door.Subscribe("svc", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil { // the other may have gone
		t.Fatal(err)
	}
	connect := func(name string) *nats.Conn {
		// The server's first PING can come before the PONG that nats.go waits for, on a
		// slow machine. Then nats.go gives up.
		var nc *nats.Conn
		var err error
		for tries := 0; tries == 0 || err != nil && tries < 5; tries++ {
			nc, err = nats.Connect(s.ClientURL(), nats.UserInfo(name, "secret"), nats.Timeout(time.Minute),
				nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	calm, idle, flood := connect("calm"), connect("flood"), connect("flood")
	var away []chan struct{}
	for _, nc := range []*nats.Conn{idle, flood} {
		gone := make(chan struct{}, 1000)
		nc.SetDisconnectErrHandler(func(*nats.Conn, error) { gone <- struct{}{} })
		away = append(away, gone)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	busy := new(aDoor)
	busy.unseen.Store(watchUnseen + 1)
	s.WatchDoor(busy)
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = flood.Publish("svc", []byte("x")) // it is cut off
			}
		}
	}()
	for i, gone := range away {
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatal(fmt.Sprint("connection ", i, " stays"))
		}
	}
	if _, err := calm.Request("svc", nil, time.Minute); err != nil {
		t.Errorf("another user: %v", err)
	}
	close(stop)
	<-done
	s.WatchDoor(nil)
	if _, err := connect("flood").Request("svc", nil, time.Minute); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := calm.Reconnects + door.Reconnects; n > 0 {
		t.Errorf("others were cut off %d times", n)
	}
}

// TestKept: who was cut off, or signs in again and again, waits, for longer when
// that happens again; others do not.
func TestKept(t *testing.T) {
	t.Parallel()
	k := newKept(DefaultUserConnections)
	k.out("a")
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if !k.wait("a") {
			t.Error("who was cut off once is refused")
		}
	}()
	for range k.atOnce {
		k.wait("b")
	}
	select {
	case <-waited:
		t.Error("it did not wait")
	default:
	}
	more := make(chan struct{})
	go func() {
		for range 5 * k.atOnce {
			k.wait("b")
		}
		close(more)
	}()
	<-waited
	select {
	case <-more:
		t.Error("five times as many more came in as fast as they could")
	default:
	}
	close(k.quit)
	<-more
}

// TestWaitingLoginsAreBounded: so many logins of a user wait, each for its second, and
// no more; and the next second is for others.
func TestWaitingLoginsAreBounded(t *testing.T) {
	t.Parallel()
	k, now := newKept(20), time.Now()
	for n := range k.atOnce + k.mostWaiting {
		if wait, ok := k.place("a", now); !ok || wait != time.Duration(n/k.atOnce)*time.Second {
			t.Fatalf("login %d: waits for %v, %t", n, wait, ok)
		}
	}
	if _, ok := k.place("a", now); ok {
		t.Error("one more waits")
	}
	if wait, ok := k.place("b", now); wait > 0 || !ok {
		t.Errorf("another user: waits for %v, %t", wait, ok)
	}
	for range k.mostWaiting {
		k.leave("a")
	}
	if wait, ok := k.place("a", now.Add(3*time.Second)); wait > 0 || !ok {
		t.Errorf("later: waits for %v, %t", wait, ok)
	}
}

// TestKeptOutForLonger: each further time within a while takes twice as long, up to
// a bound. Several connections that are found out at once are one time.
func TestKeptOutForLonger(t *testing.T) {
	t.Parallel()
	k := newKept(DefaultUserConnections)
	lasts := func() time.Duration {
		k.out("a")
		return k.strikes["a"].out
	}
	ago := func(d time.Duration) { k.strikes["a"] = strike{time.Now().Add(-d), k.strikes["a"].out} }
	for n, want := range []time.Duration{keptOut, 2 * keptOut, 4 * keptOut, 8 * keptOut, 16 * keptOut, 16 * keptOut} {
		if got, again := lasts(), lasts(); got != want || again != want {
			t.Errorf("time %d: %v, then %v; want %v", n+1, got, again, want)
		}
		ago(want + time.Second)
	}
	ago(forgetAfter + time.Second)
	if got := lasts(); got != keptOut {
		t.Errorf("later: %v", got)
	}
}
