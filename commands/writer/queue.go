package writer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// QueueLength is how many calls may wait; more are refused with
// commands.ErrBusy.
const QueueLength = 8192

// maxPatience is how long a commit waits for more calls at most.
const maxPatience = 2 * time.Millisecond

// call is one submission on its way.
type call struct {
	commands.Submission
	fingerprint ledger.Fingerprint
	consumers   []ledger.UUID // that it names, or was seen to change
	tries       int
	forking     bool           // it asks for a fork of the State, and has no command
	place       ledger.Address // where it was decided
	decided     int64          // when, if it was rejected; Unix nanoseconds
	outcome     commands.Outcome
	forked      *ledger.State // the answer to forking
	err         error
	done        func(commands.Outcome, error)
	submitted   time.Time // zero: nobody wants to know
	followers   []*call   // the same submission again, while this one is pending

	told          atomic.Bool // done was called before the outcome was known
	listed        bool        // in the list of those who wait, between:
	before, after *call
	born          uint32 // when it began to wait, in ticks
}

// enqueue takes a call, or says why not. Whether the writer is closed, whether
// the call may wait, and its place in the queue and in the list of those who
// wait are one step under mu: Close and the watch see either all of it or none.
func (w *Writer) enqueue(c *call) error {
	w.begun(c)
	if err := w.models.Ready(); err != nil {
		return fmt.Errorf("%w: %w", commands.ErrUnreadable, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return commands.ErrStopped
	}
	if err := w.admit(c); err != nil {
		return err
	}
	select {
	case w.queue <- c:
		c.born = w.callers.tick
		w.callers.calls.add(c)
		return nil
	default:
		return commands.ErrBusy
	}
}

// nextCall takes from the calls that were put back, then from the queue.
func (w *Writer) nextCall(waiting *[]*call) *call {
	if len(*waiting) > 0 {
		c := (*waiting)[0]
		*waiting = (*waiting)[1:]
		return c
	}
	select {
	case c := <-w.queue:
		return c
	default:
		return nil
	}
}

// straggler waits for another call while the commit is smaller than those
// before it: for as long as it would have to wait for another append.
func (w *Writer) straggler(have int) *call {
	if have >= (w.lastCalls[0]+w.lastCalls[1])/2 || len(w.again) > 0 {
		return nil
	}
	if !w.impatient {
		w.impatient = true
		w.patience.Reset(min(maxPatience, time.Duration(w.appendTook.Load())))
	}
	select {
	case c := <-w.queue:
		return c
	case <-w.patience.C:
	case <-w.trouble:
		w.signalTrouble()
	case <-w.quit:
	}
	return nil
}
