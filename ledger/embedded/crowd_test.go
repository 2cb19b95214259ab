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
func (d *aDoor) CountSenders(bool)      {}
func (d *aDoor) SeenOf() map[uint64]int { return d.seen }

// TestTooMuch: whoever has more than its share in the line to the door is cut off
// while the line is long; nobody else is, unless the line is full, and nobody
// while it is short.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	const share, bytes = mostUnseenOfOne, mostPouredByOne
	door := &aDoor{seen: map[uint64]int{1: 100, 3: 100_000}}
	before := map[uint64]volume{1: {1000, 1 << 30}, 3: {1, 1}}
	// a has sent x messages that were not seen on one connection, and y bytes; b z messages.
	sent := func(x, y, z int) []*server.ConnInfo {
		info := func(id uint64, account string, messages, bytes int) *server.ConnInfo {
			b := before[id]
			return &server.ConnInfo{
				Cid: id, Account: account, InMsgs: int64(b.messages + door.seen[id] + messages), InBytes: int64(b.bytes + bytes),
			}
		}
		return []*server.ConnInfo{
			info(1, "a", x, y/2), info(2, "a", 0, y-y/2), info(3, "b", z, 1<<20),
			info(4, "", 9*share, 9*bytes), info(5, ownAccount, 9*share, 9*bytes),
		}
	}
	long := line{unseen: longUnseen + 1}
	for name, c := range map[string]struct {
		x, y, z int
		line    line
		want    []string
	}{
		"short":                      {9 * share, 9 * bytes, 0, line{bytes: longBytes, unseen: longUnseen}, nil},
		"messages in the server":     {share + 1, 0, share, line{bytes: longBytes + 1}, []string{"a"}},
		"messages at the door":       {share, 0, share + 1, long, []string{"b"}},
		"of two":                     {share + 1, 0, share + 1, long, []string{"a", "b"}},
		"each within its share":      {share, 9 * bytes, share, line{unseen: fullUnseen}, nil},
		"full of messages":           {share - 1, 0, share, line{unseen: fullUnseen + 1}, []string{"b"}},
		"large ones":                 {1, bytes + 1, 0, line{bytes: maxPoured + 1}, []string{"a"}},
		"poured":                     {1, bytes + 1, 0, line{bytes: maxPoured / 2, poured: maxPoured/2 + 1}, []string{"a"}},
		"large ones within a share":  {1, bytes, 0, line{poured: maxPoured + 1}, nil},
		"full of large ones":         {1, bytes, 0, line{bytes: fullBytes + 1}, []string{"a"}},
		"large ones, not the reason": {1, 9 * bytes, 0, line{bytes: maxPoured}, nil},
	} {
		watched := crowd{door: door, before: before}
		if got := slices.Sorted(maps.Keys(watched.tooMuch(sent(c.x, c.y, c.z), c.line, 0))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are cut off, not %v", name, got, c.want)
		}
	}
	watched := crowd{door: door, before: before}
	poured := line{poured: maxPoured + 1}
	if got := watched.tooMuch(sent(1, bytes+drainPerSecond, 0), poured, time.Second); len(got) > 0 {
		t.Errorf("who sends as fast as it may is cut off: %v", got)
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
		nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(name, "secret"), nats.Timeout(time.Minute),
			nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
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
	busy.unseen.Store(longUnseen + 1)
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
	k := newKept()
	k.out("a")
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		if !k.wait("a", 1) {
			t.Error("who was cut off once is refused")
		}
	}()
	for range 5 {
		k.wait("b", 5)
	}
	select {
	case <-waited:
		t.Error("it did not wait")
	default:
	}
	more := make(chan struct{})
	go func() {
		for range 100 {
			k.wait("b", 5)
		}
		close(more)
	}()
	<-waited
	select {
	case <-more:
		t.Error("a hundred more came in as fast as they could")
	default:
	}
	close(k.quit)
	<-more
}

// TestKeptOutForLonger: each further time within a while takes twice as long, up to
// a bound. Several connections that are found out at once are one time.
func TestKeptOutForLonger(t *testing.T) {
	t.Parallel()
	k := newKept()
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
