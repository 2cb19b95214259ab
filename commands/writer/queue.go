package writer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// QueueLength is the number of calls that may wait. Further calls are refused
// with commands.ErrBusy.
const QueueLength = 8192

// maxPatience is the longest time that a commit waits for more calls.
const maxPatience = 2 * time.Millisecond

// pendingCommand is one submission and its progress.
type pendingCommand struct {
	commands.Submission
	fingerprint ledger.Fingerprint
	consumers   []ledger.UUID // the consumers that it names, or was seen to change
	tries       int
	forking     bool           // the call asks for a fork of the State, and has no command
	place       ledger.Address // where it was decided
	decided     int64          // when it was rejected, in Unix nanoseconds; otherwise unused
	outcome     commands.Outcome
	forked      *ledger.State // the answer, if forking
	err         error
	done        commands.Done
	submitted   time.Time         // zero: it is not measured
	times       *Times            // nil: the command is not traced
	followers   []*pendingCommand // later calls with the same submission

	told          atomic.Bool // done was called before the outcome was known
	listed        bool        // the call is in the list of waiting calls, between:
	before, after *pendingCommand
	born          uint32 // the watch's tick at which it began to wait
}

// enqueue takes a call, or returns the reason why not. Under mu it decides in one
// step whether the writer is closed and whether the call may wait, and puts the
// call into the queue and into the list of waiting calls. So Close and the watch
// see either all of this or nothing.
func (w *Writer) enqueue(c *pendingCommand) error {
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
		select {
		case w.callers.some <- struct{}{}:
		default: // the watch looks already
		}
		return nil
	default:
		return commands.ErrBusy
	}
}

// nextCall returns a call that was put back, or else one from the queue.
func (l *loop) nextCall(waiting *[]*pendingCommand) *pendingCommand {
	if len(*waiting) > 0 {
		c := (*waiting)[0]
		*waiting = (*waiting)[1:]
		return c
	}
	select {
	case c := <-l.queue:
		return c
	default:
		return nil
	}
}

// waitForMoreCalls waits for another call while the commit is smaller than the commits
// before it. It waits at most as long as an append takes, because the call would
// otherwise wait for one.
func (l *loop) waitForMoreCalls(have int) *pendingCommand {
	if have >= (l.lastCalls[0]+l.lastCalls[1])/2 || len(l.retry) > 0 {
		return nil
	}
	if !l.impatient {
		l.impatient = true
		l.patience.Reset(min(maxPatience, time.Duration(l.appendTook.Load())))
	}
	select {
	case c := <-l.queue:
		return c
	case <-l.patience.C:
	case <-l.appendFailed:
		l.signalAppendFailed()
	case <-l.quit:
	}
	return nil
}
