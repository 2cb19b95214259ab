package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
)

// TestDropNew: a listener takes no connection from a network that is dropped, and all
// others; what was connected before goes on.
func TestDropNew(t *testing.T) {
	many := make([]netip.Prefix, 0, 2*mostTurnedAway)
	for i := range mostTurnedAway {
		many = append(many,
			netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/32", i)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:0:%x::/64", i)),
		)
	}
	const v4, other4, v6 = "127.0.0.1", "127.0.0.2", "::1"
	everybody := []string{v4, other4, v6}
	for _, c := range []struct {
		name    string
		dropped []netip.Prefix
		come    []string
	}{
		{"nobody", nil, everybody},
		{"one", []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, []string{v4, v6}},
		{"a network", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, []string{v6}},
		{"half of a byte", []netip.Prefix{netip.MustParsePrefix("127.0.0.2/31")}, []string{v4, v6}},
		{"an address of version 6", []netip.Prefix{netip.MustParsePrefix("::1/128")}, []string{v4, other4}},
		{"a network of version 6", []netip.Prefix{netip.MustParsePrefix("::/64")}, []string{v4, other4}},
		{"a neighbour of version 6", []netip.Prefix{netip.MustParsePrefix("::2/128")}, everybody},
		{"this machine", networksOf(thisMachine), nil},
		{"as many others as may be", many, everybody},
		{"and one", append(slices.Clone(many), netip.MustParsePrefix("127.0.0.1/32")), []string{other4, v6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", ":0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			port := l.Addr().(*net.TCPAddr).Port
			before := make(map[string]net.Conn)
			for _, from := range everybody {
				if before[from] = call(t, from, port); before[from] == nil {
					t.Skipf("skipped: this machine cannot connect from %s", from)
				}
			}
			if err := dropNew(l.Addr(), c.dropped); err != nil {
				t.Fatal(err)
			}
			var come []string
			for _, from := range everybody {
				if call(t, from, port) != nil {
					come = append(come, from)
				}
			}
			if diff := cmp.Diff(c.come, come); diff != "" {
				t.Errorf("who may connect (-want +got):\n%s", diff)
			}
			for range everybody { // in the order in which they came
				accepted, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				from, _, _ := net.SplitHostPort(accepted.RemoteAddr().String())
				echoes(t, before[from], accepted)
			}
			if err := dropNew(l.Addr(), nil); err != nil {
				t.Fatal(err)
			}
			for _, from := range everybody {
				if call(t, from, port) == nil {
					t.Errorf("%s stays away", from)
				}
			}
		})
	}
}

// TestDropNewWhereNobodyListens: what is no listener of this process gets no filter.
func TestDropNewWhereNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []net.Addr{at, nil, &net.UnixAddr{Name: "x"}} {
		if err := dropNew(at, networksOf(thisMachine)); err == nil {
			t.Errorf("%v has a filter", at)
		}
	}
}

// call connects from an address, or returns nil.
func call(t *testing.T, from string, port int) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 300 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	to := "127.0.0.1"
	if net.ParseIP(from).To4() == nil {
		to = "::1"
	}
	c, err := d.Dial("tcp", net.JoinHostPort(to, fmt.Sprint(port)))
	if err != nil {
		return nil
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echoes sends something over a connection and back.
func echoes(t *testing.T, client, accepted net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{client, accepted}, {accepted, client}} {
		if err := way[1].SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := way[0].Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := way[1].Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArrivals: who comes at its pace is let in, who comes faster waits, and longest
// who came fastest.
func TestArrivals(t *testing.T) {
	const calm, fast, faster = "192.0.2.1", "2001:db8::1", "::ffff:198.51.100.7"
	var id uint64
	come := func(n int, from string) (conns []*server.ConnInfo) {
		for range n {
			id++
			conns = append(conns, &server.ConnInfo{Cid: id, IP: from})
		}
		return conns
	}
	a, now := newArrivals(), time.Now()
	first := slices.Concat(come(arrivalsAtOnce, calm), come(arrivalsAtOnce+arrivalsPerSecond, fast), come(50, ""))
	a.count(uint64(len(first)-50), first, now)
	fastest := slices.Concat(come(10, calm), come(90, faster)) // which stand for ten times as many
	now = now.Add(100 * time.Millisecond)
	a.count(uint64(10*len(fastest)), append(first, fastest...), now)
	names := func() (all []string) {
		for _, network := range a.turnedAway() {
			all = append(all, network.String())
		}
		return all
	}
	for _, c := range []struct {
		after time.Duration
		want  []string
	}{
		{0, []string{"198.51.100.7/32", "2001:db8::/64", "192.0.2.1/32"}},
		{500 * time.Millisecond, []string{"198.51.100.7/32", "2001:db8::/64"}},
		{time.Second, []string{"198.51.100.7/32"}},
		{4 * time.Second, nil},
	} {
		a.forget(now.Add(c.after))
		if diff := cmp.Diff(c.want, names()); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", c.after, diff)
		}
	}
	if a.forget(now.Add(time.Minute)); len(a.paces)+len(a.until) > 0 {
		t.Errorf("remembered: %v, %v", a.paces, a.until)
	}
}

// TestKernelIsToldAgain: what the kernel could not be told is tried again, above all that
// nobody is kept off any more; what it knows it is not told twice.
func TestKernelIsToldAgain(t *testing.T) {
	a, now := newArrivals(), time.Now()
	var told []int
	tell := func(fault error) {
		t.Helper()
		err := a.tell(func(networks []netip.Prefix) error {
			told = append(told, len(networks))
			return fault
		})
		if err != nil && !errors.Is(err, fault) {
			t.Error(err)
		}
	}
	fault := errors.New("no filter")
	tell(nil) // there is nobody
	a.turnAway("192.0.2.1", 2*arrivalsAtOnce, now)
	tell(fault)
	tell(nil)
	a.turnAway("192.0.2.1", 1, now) // for longer
	tell(nil)
	a.forget(now.Add(time.Minute))
	tell(fault)
	tell(fault)
	tell(nil)
	tell(nil)
	if diff := cmp.Diff([]int{1, 1, 0, 0, 0}, told); diff != "" {
		t.Errorf("networks that the kernel is told (-want +got):\n%s", diff)
	}
}

// TestDropAtOneAddress: another listener at the same port has no filter.
func TestDropAtOneAddress(t *testing.T) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }()
	port := one.Addr().(*net.TCPAddr).Port
	for _, other := range []string{"127.0.0.2", "::1"} {
		two, err := net.Listen("tcp", net.JoinHostPort(other, fmt.Sprint(port)))
		if err != nil {
			t.Skipf("skipped: %v", err)
		}
		defer func() { _ = two.Close() }()
		for filtered, free := range map[net.Listener]net.Listener{one: two, two: one} {
			if err := dropNew(filtered.Addr(), networksOf(thisMachine)); err != nil {
				t.Fatal(err)
			}
			for l, want := range map[net.Listener]bool{filtered: false, free: true} {
				c, err := net.DialTimeout("tcp", l.Addr().String(), 300*time.Millisecond)
				if err == nil {
					_ = c.Close() // nothing is expected of it
				}
				if (err == nil) != want {
					t.Errorf("%v is filtered, and at %v: %v", filtered.Addr(), l.Addr(), err)
				}
			}
			if err := dropNew(filtered.Addr(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMostTurnedAway: the kernel looks through a bounded number of networks, of who
// came fastest.
func TestMostTurnedAway(t *testing.T) {
	a, now := newArrivals(), time.Now()
	for i := range 2 * mostTurnedAway {
		a.turnAway(fmt.Sprintf("2001:db8:0:%x::/64", i), 2*arrivalsAtOnce+i, now)
	}
	networks := a.turnedAway()
	if len(networks) != mostTurnedAway || networks[0] != netip.MustParsePrefix("2001:db8:0:7f::/64") {
		t.Errorf("%d: %v", len(networks), networks)
	}
}

// TestFloodWaits: who makes connections without a pause is turned away for a while, on
// its own address; connections that are there go on, and so do other addresses.
func TestFloodWaits(t *testing.T) {
	s, err := Start(t.Context(), Config{StoreDir: t.TempDir(), Listen: "0.0.0.0:0", LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	port := s.ns.Addr().(*net.TCPAddr).Port
	other := networkAddress(t)
	before := greeted(t, "127.0.0.1", port)
	// How long it waits depends on how much too fast it was: on a busy machine it may be
	// over before the others have come in, and then it floods once more.
	deadline := time.Now().Add(time.Minute)
	for meanwhile := false; !meanwhile; meanwhile = call(t, "127.0.0.1", port) == nil {
		if time.Now().After(deadline) {
			t.Fatal("it is let in while it must wait")
		}
		flood(t, "127.0.0.1", port)
		// Another address comes in, and what was there is answered, while the first waits.
		for _, conn := range []net.Conn{before, greeted(t, other, port)} {
			if _, err := conn.Write([]byte("PING\r\n")); err != nil {
				t.Fatal(err)
			}
			reads(t, conn, "PONG")
		}
	}
	deadline = time.Now().Add(time.Minute)
	for call(t, "127.0.0.1", port) == nil {
		if time.Now().After(deadline) {
			t.Fatal("it is never let in again")
		}
	}
}

// flood connects from an address until it is turned away.
func flood(t *testing.T, from string, port int) {
	t.Helper()
	var turnedAway atomic.Bool
	var all sync.WaitGroup
	for range 4 { // so that they are many on a busy machine, too
		all.Go(func() {
			for range 10 * arrivalsAtOnce {
				if turnedAway.Load() {
					return
				}
				c := call(t, from, port)
				if c == nil {
					turnedAway.Store(true)
					return
				}
				_ = c.Close() // nothing is expected of it
			}
		})
	}
	all.Wait()
	if !turnedAway.Load() {
		t.Fatal("it is never turned away")
	}
}

// networkAddress returns an address of this machine that others could reach.
func networkAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if ip := one.(*net.IPNet).IP; ip.To4() != nil && !ip.IsLoopback() {
			return ip.String()
		}
	}
	t.Skip("skipped: this machine has no address but its own")
	return ""
}

// greeted connects from an address, reads who the server is, and introduces itself.
func greeted(t *testing.T, from string, port int) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", net.JoinHostPort(from, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	reads(t, c, "INFO ")
	if _, err := c.Write([]byte("CONNECT {\"verbose\":false}\r\n")); err != nil {
		t.Fatal(err)
	}
	return c
}

// reads reads until a line that begins with something, past the server's own questions
// and news.
func reads(t *testing.T, c net.Conn, begin string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		line := ""
		for one := make([]byte, 1); !strings.HasSuffix(line, "\n"); line += string(one) {
			if _, err := c.Read(one); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case strings.HasPrefix(line, begin):
			return
		case !strings.HasPrefix(line, "PING") && !strings.HasPrefix(line, "INFO "):
			t.Fatalf("read %q, not %s", line, begin)
		}
	}
}
