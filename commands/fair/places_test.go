package fair_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/commands/fair"
)

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

// TestBusyClientGetsNoLargerShare: a client with one piece of work gets as much done as one with
// sixteen.
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

// TestBounds: a client with too much waiting work is refused; short work does not
// wait; work that takes too long ends; a client that gives up leaves the line; and no
// place is lost.
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

// TestAside: work that waits for its client holds no place, and the waiting time
// does not count.
func TestAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fair.NewPoolOf(1, 1)
		slow := p.Begin("slow")
		time.Sleep(2 * fair.Free)
		if err := slow.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := slow.Aside(t.Context(), func() {
			if err := works(t.Context(), p, "other", 100, func() {}); err != nil {
				t.Errorf("while another waits for its client: %v", err)
			}
			time.Sleep(2 * fair.Limit)
		})
		if err != nil {
			t.Error(err)
		}
		if err := slow.Pause(t.Context()); err != nil {
			t.Errorf("after waiting for the client: %v", err)
		}
		slow.End()
	})
}
