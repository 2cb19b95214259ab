package fair_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestClientsTakeTurns: what waits is given out to clients in turn, a client's own in
// order; a client that may not have any is passed over, and what is taken out is gone.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	q := fair.Queue[int]{Most: 100, Share: 2}
	for i := range 4 {
		q.Add("greedy", i)
	}
	q.Add("modest", 10)
	q.Add("gone", 20)
	q.Add("modest", 11)
	if !q.Remove("gone", func(n int) bool { return n == 20 }) || q.Remove("gone", func(int) bool { return true }) {
		t.Error("what was taken out is still there, or never was")
	}
	var order []int
	for q.Len() > 0 {
		_, one, ok := q.Next(func(client string) bool { return client != "greedy" || len(order) > 2 })
		if !ok {
			_, one, _ = q.Next(nil)
		}
		order = append(order, one)
	}
	if want := []int{10, 11, 0, 1, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if _, _, ok := q.Next(nil); ok {
		t.Error("an empty queue has one")
	}
}

// TestRequestsAreBounded: a client, and all together, have so many requests under way, and one that ends makes room.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	p := fair.NewPoolOf(1, 1)
	var leaves []func()
	enter := func(client string) error {
		leave, err := p.Enter(client)
		if err == nil {
			leaves = append(leaves, leave)
		}
		return err
	}
	for i := range fair.MaxRequests {
		if err := enter(fmt.Sprint("client ", i/fair.MaxRequestsEach)); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if i == fair.MaxRequestsEach-1 {
			if err := enter("client 0"); !errors.Is(err, fair.ErrBusy) {
				t.Errorf("more than a client may have: %v", err)
			}
		}
	}
	if err := enter("late"); !errors.Is(err, fair.ErrBusy) {
		t.Errorf("more than all may have: %v", err)
	}
	leaves[0]()
	if err := enter("late"); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	for _, leave := range leaves[1:] {
		leave()
	}
	if p.Requests() != 0 {
		t.Errorf("%d are under way after all have ended", p.Requests())
	}
}

// TestMemoryIsBounded: all leases together, and those of each client, are bounded; small
// requests get in until a bound of their own; ended leases return what they had.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	p := fair.NewPoolOf(1, 1)
	var all []*fair.Lease
	take := func(client string, weight int64) error {
		l := p.Lease(client)
		all = append(all, l)
		return l.Grow(weight)
	}
	for i, c := range []struct {
		client string
		weight int64
		want   error
	}{
		{"a", fair.MaxWeight, nil}, {"a", 1 << 20, fair.ErrBusy},
		{"b", fair.MaxTotal - fair.MaxWeight, nil}, {"c", 1 << 20, fair.ErrBusy}, {"a", 1 << 10, nil},
	} {
		if err := take(c.client, c.weight); !errors.Is(err, c.want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	small := 0
	for take(fmt.Sprint("client ", small%100), 64<<10) == nil {
		small++
	}
	if most := p.Memory(); most > fair.MaxTotal+32<<20 || small < 500 {
		t.Errorf("%d small requests, %d bytes in all", small, most)
	}
	for _, l := range all {
		l.End()
		l.End() // a second time changes nothing
	}
	if p.Memory() != 0 {
		t.Errorf("%d bytes are taken after all has ended", p.Memory())
	}
	var none *fair.Lease
	if none.End(); none.Grow(1<<30) != nil {
		t.Error("without a lease there is a bound")
	}
}

// TestPlacesAreOfTwoKinds: work that takes long holds up only work that takes long, and
// work that stops waiting, with its request, leaves no place behind.
func TestPlacesAreOfTwoKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fair.NewPoolOf(1, 1)
		long := ledgertest.Must(p.Long(t.Context(), "a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := p.Long(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("a client that has gone: %v after %v", err, time.Since(begun))
		}
		short, err := p.Short(t.Context(), "b")
		ledgertest.OK(t, err)
		short.End()
		long.End()
		if long, err = p.Long(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		long.End()
	})
}

// TestLogIsBudgeted: a client that adds much to the log in a second, or in a day, waits;
// others do not, and it has its budget back after a while.
func TestLogIsBudgeted(t *testing.T) {
	t.Parallel()
	var b fair.Budget
	now := time.Unix(1_700_000_000, 0)
	b.Spend("greedy", fair.LogAtOnce, now)
	b.Spend("greedy", fair.LogPerSecond, now)
	beyond, other, later := b.May("greedy", now), b.May("modest", now), b.May("greedy", now.Add(2*time.Second))
	if !errors.Is(beyond, fair.ErrBudget) || other != nil || later != nil {
		t.Errorf("beyond its budget: %v; another client: %v; two seconds later: %v", beyond, other, later)
	}
	spent := 0
	for ; b.May("steady", now) == nil && spent <= fair.LogPerDay; now = now.Add(time.Second) {
		b.Spend("steady", fair.LogPerSecond, now)
		spent += fair.LogPerSecond
	}
	if spent > fair.LogPerDay+fair.LogPerDay/8 || spent < fair.LogPerDay/2 {
		t.Errorf("%d bytes were added before the day's budget was spent", spent)
	}
}

// TestRingIsShared: a client alone fills a ring and pushes out its own; it does not push
// out what others have, and others get their share of what it had.
func TestRingIsShared(t *testing.T) {
	t.Parallel()
	r := fair.Ring{Size: 100}
	kept := func(client string, many int) (n int) {
		for range many {
			if r.Add(client, 10) {
				n++
			}
		}
		return n
	}
	alone, other, beside := kept("greedy", 50), kept("modest", 5), kept("greedy", 50)
	if alone != 50 || other != 5 || beside > 5 {
		t.Errorf("a client keeps %d alone, another one %d then, and it %d beside that", alone, other, beside)
	}
}

// works runs for a while, in pieces of a millisecond, and counts them.
func works(ctx context.Context, p *fair.Pool, client string, pieces int, did func()) error {
	w := p.Begin(client)
	defer w.End()
	for range pieces {
		time.Sleep(time.Millisecond) // in a bubble of synctest, this is what work takes
		did()
		if err := w.Pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestBusyClientGetsNoLargerShare: a client with one piece of work gets as much done as one with sixteen.
func TestBusyClientGetsNoLargerShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fair.NewPoolOf(1, 1)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		counts := map[string]int{}
		var all sync.WaitGroup
		run := func(client string, many int) {
			for range many {
				all.Go(func() {
					_ = works(ctx, p, client, 1_000, func() { mu.Lock(); counts[client]++; mu.Unlock() }) // it is stopped
				})
			}
		}
		run("greedy", 16)
		run("modest", 1)
		time.Sleep(400 * time.Millisecond)
		stop()
		all.Wait()
		if greedy, modest := counts["greedy"], counts["modest"]; modest < 150 || greedy > modest*3/2 {
			t.Errorf("greedy did %d pieces, modest %d", greedy, modest)
		}
	})
}

// TestBounds: a client with too much waiting work is refused; short work does not wait; work that takes too long
// ends; a client that gives up leaves the line; and no place is lost.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fair.NewPoolOf(1, 1)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		// refused starts so much work, and returns how much of it is refused.
		refused := func(client string, many int) (busy int) {
			errs := make(chan error, many)
			for range many {
				all.Go(func() { errs <- works(ctx, p, client, 100_000, func() {}) })
			}
			time.Sleep(100 * time.Millisecond)
			for len(errs) > 0 {
				if err := <-errs; errors.Is(err, fair.ErrBusy) {
					busy++
				}
			}
			return busy
		}
		if busy := refused("greedy", 2100); busy != 2100-2049 { // one has the place, and 2048 wait
			t.Errorf("%d were refused", busy)
		}
		if busy := refused("late", 20); busy != 4 && busy != 3 { // 16 wait, and one may have its turn
			t.Errorf("%d of a client were refused that came late", busy)
		}
		begun := time.Now()
		if err := works(ctx, p, "brief", 1, func() {}); err != nil || time.Since(begun) > time.Millisecond {
			t.Errorf("a short one took %v, %v", time.Since(begun), err)
		}
		if err := works(ctx, p, "modest", 10, func() {}); err != nil {
			t.Errorf("another client: %v", err)
		}
		if err := works(ctx, p, "endless", 1_000_000, func() {}); !errors.Is(err, fair.ErrTooLong) {
			t.Errorf("endless work: %v", err)
		}
		stop()
		all.Wait()
		begun = time.Now()
		if err := works(t.Context(), p, "after", 100, func() {}); err != nil || time.Since(begun) > 100*time.Millisecond {
			t.Errorf("afterwards: %v, %v", time.Since(begun), err)
		}
	})
}

// TestAside: work that waits for its client holds no place, and the waiting time does not count.
func TestAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fair.NewPoolOf(1, 1)
		slow := p.Begin("slow")
		time.Sleep(2 * fair.Free)
		ledgertest.OK(t, slow.Pause(t.Context()))
		err := slow.Aside(t.Context(), func() {
			if err := works(t.Context(), p, "other", 100, func() {}); err != nil {
				t.Errorf("while another waits for its client: %v", err)
			}
			time.Sleep(2 * fair.Limit)
		})
		ledgertest.OK(t, err)
		if err := slow.Pause(t.Context()); err != nil {
			t.Errorf("after waiting for the client: %v", err)
		}
		slow.End()
	})
}
