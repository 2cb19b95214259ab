package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/api/turns"
)

// endless is a body that comes as fast as it is read.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// unhurried is an answer whose request has no deadline.
type unhurried struct{ *httptest.ResponseRecorder }

func (unhurried) SetReadDeadline(time.Time) error { return nil }

// readsInTurn has clients of two addresses send large bodies, sixteen of one and one
// of the other, and returns how many pieces of each were read. Each piece takes a
// millisecond.
func readsInTurn(t *testing.T, places *turns.Pool) (greedy, modest int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all sync.WaitGroup
	l := newConnections(nil, connectionFlags{}, nil)
	client := func(address string, count *int) {
		c := &connection{of: l, from: netip.MustParsePrefix(address)}
		r := httptest.NewRequest(http.MethodPost, "/", endless{})
		r.ContentLength = smallBody + 1
		r = r.WithContext(context.WithValue(ctx, connectionKey{}, c))
		paced(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for piece := make([]byte, 1); ; {
				if _, err := r.Body.Read(piece); err != nil || ctx.Err() != nil {
					return
				}
				time.Sleep(time.Millisecond) // in a bubble of synctest, this is what work takes
				mu.Lock()
				*count++
				mu.Unlock()
			}
		}), places).ServeHTTP(unhurried{httptest.NewRecorder()}, r)
	}
	for range 16 {
		all.Go(func() { client("192.0.2.1/32", &greedy) })
	}
	all.Go(func() { client("192.0.2.2/32", &modest) })
	time.Sleep(400 * time.Millisecond)
	stop()
	all.Wait()
	return greedy, modest
}

// TestLargeBodiesAreReadInTurn: an address that sends sixteen large bodies gets no
// more of the places than one that sends one.
func TestLargeBodiesAreReadInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		greedy, modest := readsInTurn(t, turns.New(1))
		if modest < 130 || greedy > 2*modest {
			t.Errorf("%d pieces of sixteen bodies, %d of one", greedy, modest)
		}
		if greedy, _ := readsInTurn(t, nil); greedy < 16*300 {
			t.Errorf("the control: without places only %d pieces of sixteen bodies", greedy)
		}
	})
}

// TestPlacesOfConnections: who leaves for whom, connection by connection.
func TestPlacesOfConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
		l := newConnections(nil, connectionFlags{Most: 4, Each: 3}, quietLogger())
		admit := func(from netip.Prefix) *connection {
			time.Sleep(time.Millisecond)
			near, _ := net.Pipe()
			return l.admit(near, from)
		}
		isIn := func(c *connection) bool { _, ok := l.all[c]; return ok }
		first, second, third := admit(a), admit(a), admit(a)
		first.begins()
		fourth := admit(a)
		if !isIn(first) || isIn(second) || !isIn(third) || !isIn(fourth) {
			t.Error("not the one that had no request for longest left")
		}
		third.begins()
		fourth.begins()
		if admit(a) != nil {
			t.Error("an address has more than it may")
		}
		if l.count() != 3 || l.cut.Load() != 1 || l.refused.Load() != 1 {
			t.Errorf("%d connections, %d were cut off and %d refused", l.count(), l.cut.Load(), l.refused.Load())
		}
		others := []*connection{admit(b), admit(b), admit(b)}
		if isIn(first) || !isIn(third) || !isIn(fourth) || isIn(others[0]) || !isIn(others[1]) || !isIn(others[2]) {
			t.Error("the address with most gave up too many, or too few")
		}
		if err := others[1].Close(); err != nil {
			t.Error(err)
		}
		l.cutAll()
		if len(l.all) != 0 || len(l.by) != 0 {
			t.Errorf("%d connections of %d addresses are left", len(l.all), len(l.by))
		}
	})
}

// TestUntakenAnswers: beyond the bound the connection that left most, of the address
// that left most, is cut off once it takes nothing, and one that takes is not.
func TestUntakenAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, connectionFlags{}, quietLogger())
		var loads []bool
		l.heavy = func(heavy bool) { loads = append(loads, heavy) }
		of := func(from string) *connection {
			near, _ := net.Pipe()
			return l.admit(near, netip.MustParsePrefix(from))
		}
		isIn := func(c *connection) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			_, ok := l.all[c]
			return ok
		}
		lazy, lazier, busy := of("192.0.2.1/32"), of("192.0.2.1/32"), of("192.0.2.2/32")
		lazy.leaves(5 << 20)
		lazier.leaves(6 << 20)
		busy.leaves(10 << 20)
		for range 10 {
			time.Sleep(stalls / 2)
			busy.takes(1 << 10)
		}
		if !isIn(lazy) || isIn(lazier) || !isIn(busy) {
			t.Errorf("lazy %t, lazier %t, busy %t", isIn(lazy), isIn(lazier), isIn(busy))
		}
		busy.leaves(brimUntaken)
		if isIn(busy) {
			t.Error("too much is held, however busy who holds it")
		}
		lazy.takes(5 << 20)
		if l.untaken != 0 || !slices.Equal(loads, []bool{true, false}) {
			t.Errorf("%d bytes are left, loads %v", l.untaken, loads)
		}
	})
}

// TestWhoLeftWaitsForNoTurn: an answer for a connection that is cut off is no longer
// counted, so nobody stands in line with it, however long the line is.
func TestWhoLeftWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, connectionFlags{}, quietLogger())
		l.lines = turns.NewLines(1)
		from := netip.MustParsePrefix("192.0.2.1/32")
		near, far := net.Pipe()
		c := l.admit(near, from)
		c.begins()
		if err := c.turn.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		var others sync.WaitGroup
		defer others.Wait()
		for range 100 {
			others.Go(func() {
				other := l.lines.For(from)
				defer other.End()
				if err := other.Take(context.Background()); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // its turn is over before that
			})
		}
		synctest.Wait()
		var done atomic.Bool
		go func() {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			done.Store(true)
		}()
		if _, err := far.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // no time passes
		if done.Load() {
			t.Fatal("it has not stood in line")
		}
		l.mu.Lock()
		l.cutOff(c)
		l.mu.Unlock()
		if synctest.Wait(); !done.Load() {
			t.Error("who writes to a connection that is cut off waits for its turn")
		}
	})
}

// TestUnfinishedRequests: who has sent most of requests without an end is cut off, and
// nobody who reads waits for that.
func TestUnfinishedRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newConnections(nil, connectionFlags{}, quietLogger())
		comes := func() (*connection, net.Conn) {
			near, far := net.Pipe()
			return l.admit(near, netip.MustParsePrefix("192.0.2.1/32")), far
		}
		reads := func(c *connection, far net.Conn, n int) {
			go func() { _, _ = far.Write(make([]byte, n)) }() // it may be cut off
			if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
				t.Error(err)
			}
		}
		sends := func(n int) *connection {
			c, far := comes()
			reads(c, far, n)
			return c
		}
		served := sends(maxUnfinished - 1) // and it has its handler
		served.begins()
		few, far := comes()
		most := sends(maxUnfinished - 10)
		l.mu.Lock() // as of somebody who cuts off others
		reads(few, far, 20)
		l.mu.Unlock()
		synctest.Wait()
		for c, want := range map[*connection]bool{served: true, most: false, few: true} {
			if _, ok := l.all[c]; ok != want {
				t.Errorf("one with %d bytes: %t", c.unfinished.Load(), ok)
			}
		}
	})
}

func quietLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
