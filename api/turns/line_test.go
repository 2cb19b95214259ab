package turns_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/api/turns"
)

var (
	here  = netip.MustParsePrefix("10.0.0.1/32")
	there = netip.MustParsePrefix("10.0.0.2/32")
)

// mostAtOnce has many requests of a client work for a millisecond each, again and
// again for a while, and returns how many did at a time.
func mostAtOnce(t *testing.T, l *turns.Lines, from netip.Prefix, many int, lasts time.Duration) int {
	t.Helper()
	var now, most atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range many {
		all.Go(func() {
			turn := l.For(from)
			defer turn.End()
			for time.Since(begun) < lasts {
				if err := turn.Take(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if n := now.Add(1); n > most.Load() && time.Since(begun) > lasts/2 { // what others do is known by then
					most.Store(n)
				}
				time.Sleep(time.Millisecond) // in a bubble of synctest, this is what work takes
				now.Add(-1)
				turn.GiveUp()
			}
		})
	}
	all.Wait()
	return int(most.Load())
}

// TestProcessorsAreLeft: a client has all processors while it is alone, and leaves
// some to others that are there.
func TestProcessorsAreLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		beside bool
		want   int
	}{{"alone", false, 16}, {"beside another", true, 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := turns.NewLines(8)
				var other sync.WaitGroup
				if c.beside {
					other.Go(func() { mostAtOnce(t, l, there, 1, time.Second) })
				}
				if got := mostAtOnce(t, l, here, 100, time.Second); got != c.want {
					t.Errorf("%d worked at a time, want %d", got, c.want)
				}
				other.Wait()
				if c.beside { // it has gone
					if got := mostAtOnce(t, l, here, 100, time.Second); got != 16 {
						t.Errorf("%d worked at a time once the other has gone, want 16", got)
					}
				}
			})
		})
	}
}

// TestNobodyIsItsOwnNeighbour: a client that opens a connection for each request is
// alone, although each of them has a line of its own.
func TestNobodyIsItsOwnNeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		for range 2 {
			time.Sleep(100 * time.Millisecond)
			if l.Others(here) {
				t.Error("a client that is alone has others beside it")
			}
			turns := []*turns.Turn{l.For(here), l.For(here)} // alone, it has two places
			begun := time.Now()
			for _, turn := range turns {
				if err := turn.Take(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("a client that is alone waited for %v", took)
			}
			for _, turn := range turns {
				turn.GiveUp()
				turn.End()
			}
		}
		if !l.Others(there) {
			t.Error("who has just gone is not there for others")
		}
		time.Sleep(time.Second)
		if l.Others(there) || (*turns.Lines)(nil).Others(there) {
			t.Error("who has gone for long is there")
		}
	})
}

// TestOthersDoNotWait: whatever a client does with its turns, another one's takes none
// of that time.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		for range 1000 {
			go func() { _ = l.For(here).Take(t.Context()) }() // and keeps it, until the test ends
		}
		synctest.Wait()
		begun := time.Now()
		if err := l.For(there).Take(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("another client waited for %v", took)
		}
		time.Sleep(10 * time.Second) // all have had their turn
	})
}

// TestTurnsEnd: who keeps a place does not keep it for long.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		keeps := []*turns.Turn{l.For(here), l.For(here)} // alone, it has two places
		for _, turn := range keeps {
			if err := turn.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		next := l.For(here)
		if err := next.Take(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took == 0 || took > 10*time.Millisecond {
			t.Errorf("the next one waited for %v", took)
		}
		if keeps[0].GiveUp() {
			t.Error("a turn that was over still had its place")
		}
		if !next.GiveUp() {
			t.Error("the next one had no place")
		}
	})
}

// TestWhoWaitsHasNoPlace: while something is waited for, others work. A context
// without a turn is one of a program without lines.
func TestWhoWaitsHasNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		waits := []*turns.Turn{l.For(here), l.For(here)}
		for _, turn := range waits {
			if err := turn.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		other := l.For(here)
		turns.Aside(waits[0].Carry(t.Context()), func() {
			begun := time.Now()
			if err := other.Take(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 0 {
				t.Errorf("another request waited for %v", took)
			}
			other.GiveUp()
		})
		if !waits[0].GiveUp() {
			t.Error("the place did not come back")
		}
		turns.Leave(waits[1].Carry(t.Context()))
		if waits[1].GiveUp() {
			t.Error("a turn that has left has a place")
		}
		called := 0
		for _, none := range []*turns.Turn{nil, (*turns.Lines)(nil).For(here), (*turns.Turn)(nil).Beside()} {
			turns.Aside(none.Carry(t.Context()), func() { called++ })
			none.Begins()
			none.Yield()
			none.End()
		}
		turns.Aside(t.Context(), func() { called++ })
		if called != 4 {
			t.Errorf("%d of 4 functions were called", called)
		}
	})
}

// TestBegunGoesFirst: while requests wait that have begun, their client begins no
// others.
func TestBegunGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		holds := []*turns.Turn{l.For(here), l.For(here)}
		for _, turn := range holds {
			if err := turn.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var order []string
		waits := func(name string, turn *turns.Turn) {
			go func() {
				if err := turn.Take(t.Context()); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				turn.GiveUp()
			}()
			synctest.Wait()
		}
		connection := l.For(here)
		connection.Begins()
		waits("begins", connection)
		waits("begun", connection.Beside())
		holds[0].GiveUp()
		synctest.Wait()
		if len(order) != 2 || order[0] != "begun" {
			t.Errorf("the order was %q", order)
		}
	})
}

// TestWhoGoesIsForgotten: a request without a client leaves the line, and another
// goroutine with the same turn does not wait for ever.
func TestWhoGoesIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := turns.NewLines(1)
		holds := []*turns.Turn{l.For(here), l.For(here)}
		for _, turn := range holds {
			if err := turn.Take(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		turn := l.For(here)
		var all sync.WaitGroup
		all.Go(func() {
			if err := turn.Take(gone); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the client has gone", err)
			}
		})
		synctest.Wait()
		all.Go(func() { // as net/http reads beside a handler
			if err := turn.Take(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
		if turn.GiveUp() {
			t.Error("who has gone has a place")
		}
	})
}

// TestLinesUnderLoad: whatever turns do at once, all get their places in the end.
func TestLinesUnderLoad(t *testing.T) {
	t.Parallel()
	l := turns.NewLines(2)
	var all sync.WaitGroup
	for n := range 64 {
		all.Go(func() {
			turn := l.For([]netip.Prefix{here, there}[n%2])
			defer turn.End()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range 300 {
				mine := turn
				if i%3 == 0 {
					mine = turn.Beside()
				}
				if i%7 == 0 {
					short, end := context.WithTimeout(ctx, time.Microsecond)
					_ = mine.Take(short) // or not
					end()
				}
				if err := mine.Take(ctx); err != nil {
					t.Error(err)
				}
				mine.Yield()
				if i%5 == 0 {
					turns.Aside(mine.Carry(ctx), func() { time.Sleep(time.Microsecond) })
				}
				if i%11 != 0 { // else somebody must end it
					mine.GiveUp()
				}
			}
		})
	}
	all.Wait()
}
