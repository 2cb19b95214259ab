package embedded

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestTooMuch: whoever has sent most is cut off if the line to the door is long,
// and it sent enough for that; nobody else, and nobody while the line is short.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	conns := []*server.ConnInfo{
		{Cid: 1, Account: "a"}, {Cid: 2, Account: "a"}, {Cid: 3, Account: "b"}, {Cid: 4}, {Cid: 5, Account: ownAccount},
	}
	before := crowd{1: {1000, 1 << 30}, 3: {1, 1}}
	for name, c := range map[string]struct {
		now  crowd
		line line
		want []string
	}{
		"short":                  {crowd{1: {9000, 2 << 30}}, line{bytes: longBytes, unseen: longUnseen}, nil},
		"messages in the server": {crowd{1: {1300, 1 << 30}, 2: {300, 0}, 3: {400, 0}}, line{bytes: longBytes + 1}, []string{"a"}},
		"messages at the door":   {crowd{1: {1300, 1 << 30}, 3: {900, 0}}, line{unseen: longUnseen + 1}, []string{"b"}},
		"too few":                {crowd{1: {1499, 1 << 30}}, line{unseen: longUnseen + 1}, nil},
		"large ones":             {crowd{1: {1001, 1<<30 + 1<<19}, 2: {1, 1 << 19}, 3: {2, 1 << 18}}, line{bytes: maxPoured + 1}, []string{"a"}},
		"poured":                 {crowd{1: {1000, 1 << 30}, 3: {3, 2 << 20}}, line{bytes: maxPoured / 2, poured: maxPoured/2 + 1}, []string{"b"}},
		"not large enough":       {crowd{1: {1000, 1 << 30}, 3: {3, 1<<20 - 1}}, line{poured: maxPoured + 1}, nil},
		"both":                   {crowd{1: {2000, 1 << 30}, 3: {3, 2 << 20}}, line{bytes: maxPoured + 1}, []string{"a", "b"}},
		"own":                    {crowd{1: {1000, 1 << 30}, 4: {9000, 9 << 30}, 5: {9000, 9 << 30}}, line{bytes: maxPoured + 1}, nil},
	} {
		got := slices.Sorted(maps.Keys(tooMuch(conns, before, c.now, c.line)))
		if !slices.Equal(got, c.want) {
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
	s.WatchDoor(func() int { return longUnseen + 1 }) // as if the door were busy
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
	s.WatchDoor(func() int { return 0 })
	if _, err := connect("flood").Request("svc", nil, time.Minute); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if n := calm.Reconnects + door.Reconnects; n > 0 {
		t.Errorf("others were cut off %d times", n)
	}
}

// TestKept: who was cut off, or signs in again and again, waits, but no longer than
// a login may take; others do not.
func TestKept(t *testing.T) {
	t.Parallel()
	k := newKept()
	k.out("a")
	waited := make(chan struct{})
	go func() {
		k.wait("a", 1)
		close(waited)
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
