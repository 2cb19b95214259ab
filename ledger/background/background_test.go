package background_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/ledger/background"
)

// TestPauses: what fails is tried again after pauses that double, and told once.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, full := errors.New("away"), errors.New("full")
		ends := []error{nil, away, away, away, full, nil, away, nil}
		begun := time.Now()
		var tries, told []string
		w := background.Start(background.Work{
			Do: func(context.Context) error {
				tries = append(tries, fmt.Sprint(time.Since(begun)))
				return ends[len(tries)-1]
			},
			Every: 10 * time.Second, FirstPause: time.Second, LongestPause: 4 * time.Second,
			Failed: func(err error, again time.Duration) { told = append(told, fmt.Sprint(err, " ", again)) },
			Passed: func() { told = append(told, "passed") },
		})
		time.Sleep(20 * time.Second)
		if count, fault := w.Failures(); count != 4 || fault != "full" {
			t.Errorf("%d failures, now %q", count, fault)
		}
		time.Sleep(13 * time.Second)
		background.Stop(w)
		want := []string{"0s", "10s", "11s", "13s", "17s", "21s", "31s", "32s"}
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"away 1s", "full 4s", "passed", "away 1s", "passed"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if count, fault := w.Failures(); count != 5 || fault != "" {
			t.Errorf("%d failures, now %q", count, fault)
		}
	})
}

// TestStop: what is done when Workers are stopped is cancelled, and is no failure. One that waits for another one, and
// is not told to stop by that, ends with it.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		start := func(do func(context.Context) error) *background.Worker {
			return background.Start(background.Work{
				Do: do, Every: time.Hour, Failed: func(err error, _ time.Duration) { t.Errorf("told: %v", err) },
			})
		}
		waits := start(func(context.Context) error { <-held; return nil })
		holds := start(func(ctx context.Context) error { <-ctx.Done(); close(held); return ctx.Err() })
		synctest.Wait()
		background.Stop(waits, holds)
		background.Stop(waits, holds)
		if count, _ := holds.Failures(); count != 0 {
			t.Errorf("%d failures", count)
		}
	})
}
