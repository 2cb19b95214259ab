// Package background does work again and again, beside what a server answers.
package background

import (
	"context"
	"sync"
	"time"
)

// Work is what is done again and again.
type Work struct {
	// Do does all that is due.
	Do func(ctx context.Context) error
	// Every is the pause after it was done. After failures in a row pauses double, from FirstPause
	// on, up to LongestPause.
	Every, FirstPause, LongestPause time.Duration
	// Failed is told an error, and when the work is tried again; not if it says what the one before said.
	Failed func(err error, again time.Duration)
	// Passed, if set, is told that the work was done, after a failure.
	Passed func()
}

// Worker does a work until it is stopped.
type Worker struct {
	work Work
	stop context.CancelFunc
	idle sync.WaitGroup

	mu       sync.Mutex
	failures uint64 // guarded by mu
	fault    string // guarded by mu
}

// Start starts a Worker.
func Start(work Work) *Worker {
	ctx, stop := context.WithCancel(context.Background())
	w := &Worker{work: work, stop: stop}
	w.idle.Go(func() { w.run(ctx) })
	return w
}

// Stop ends Workers, and cancels what they do: all of them before it waits for one, since one may
// wait for another. A second time it does nothing.
func Stop(workers ...*Worker) {
	for _, w := range workers {
		w.stop()
	}
	for _, w := range workers {
		w.idle.Wait()
	}
}

// Failures is how often the work has failed; and the error that it ends with now, empty: none.
func (w *Worker) Failures() (count uint64, fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failures, w.fault
}

func (w *Worker) run(ctx context.Context) {
	for pause := w.work.FirstPause; ; {
		err := w.work.Do(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := w.work.Every
		if err != nil {
			wait, pause = pause, min(2*pause, w.work.LongestPause)
		} else {
			pause = w.work.FirstPause
		}
		w.tell(err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// tell notes how the work went, and tells what is new of that.
func (w *Worker) tell(err error, wait time.Duration) {
	var text string
	w.mu.Lock()
	before := w.fault
	if err != nil {
		text = err.Error()
		w.failures++
	}
	w.fault = text
	w.mu.Unlock()
	switch {
	case err != nil && text != before:
		w.work.Failed(err, wait)
	case err == nil && before != "" && w.work.Passed != nil:
		w.work.Passed()
	}
}
