package shadow

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: while the lead is to change, a write waits until the follower has finished two
// others, and not for the whole queue.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{QueueBytes: 1 << 20, SwitchWithin: time.Hour})
		for range 10 * mostBehind {
			s.queue.add(&entry{write: true})
		}
		s.pacing.Store(true)
		passed := 0
		for range 3 {
			go func() { s.pace(t.Context()); passed++ }()
			synctest.Wait()
		}
		for finished := range 3 * finishedEach {
			if passed != finished/finishedEach {
				t.Errorf("%d writes passed while the follower has finished %d", passed, finished)
			}
			s.queue.next(t.Context())
			s.queue.done()
			synctest.Wait()
		}
		if passed != 3 {
			t.Errorf("%d writes passed, and %d wait for a queue", passed, 3-passed)
		}
	})
}
