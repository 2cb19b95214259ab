package writer

import (
	"errors"

	"github.com/allot-project/allot/commands"
)

// run is the loop. It ends when Close was called and no work is left, or when
// going on could break an invariant.
func (w *Writer) run() {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		w.finish()
	}()
	err := w.decideAll()
	close(w.flights)
	<-finished
	if err == nil || errors.Is(err, commands.ErrNotLeading) || errors.Is(err, commands.ErrStopped) {
		// Everything that is not known to be durable has been taken back.
		w.finalState = w.state
	}
	w.stop(err)
	close(w.done)
}

func (w *Writer) decideAll() error {
	for {
		select {
		case <-w.appendFailed:
			if err := w.recover(); err != nil {
				return err
			}
			continue
		case <-w.lost:
			return w.depose()
		default:
		}
		next, more := w.nextWaiting()
		if !more {
			return w.drain()
		}
		if next != nil {
			w.retry = append(w.retry, next)
		}
		if len(w.retry) == 0 {
			continue // woken by a failed append
		}
		if !w.takeTurn() {
			continue
		}
		f, err := w.buildCommit()
		if err == nil {
			err = w.send(f)
		}
		if err != nil {
			w.retry = append(f.calls, w.retry...) // stop answers its calls
			return err
		}
	}
}

// drain waits for the commits under way after the last call. If one fails there
// is work again.
func (w *Writer) drain() error {
	failed := w.sync()
	if len(failed) == 0 {
		return nil
	}
	if err := w.recoverFrom(failed); err != nil {
		return err
	}
	return w.decideAll()
}

// takeTurn waits until another commit may be under way. It returns false if an
// append has failed meanwhile.
//
// Where other servers could write, no commit is sent before the one before it is
// durable. An append names a sequence and not the commit before it: one that is late
// would still be taken if another server's commit stood in that place by then, and
// its link to a commit that never came would break the log's chain for ever. A
// server that writes alone sends its appends in order, so an earlier one that fails
// takes the later ones with it.
func (w *Writer) takeTurn() bool {
	others := 0
	if w.full && w.opts.Leadership == nil {
		others = maxAhead - 1
	}
	for w.underWay > others {
		select {
		case <-w.acked:
			w.underWay--
		case <-w.appendFailed:
			w.signalAppendFailed()
			return false
		}
	}
	select {
	case <-w.appendFailed: // what has ended was not appended
		w.signalAppendFailed()
		return false
	default:
		return true
	}
}

// nextWaiting waits for a call, unless some calls must be decided again. It
// returns false when Close was called and the queue is empty.
func (w *Writer) nextWaiting() (*pendingCommand, bool) {
	if len(w.retry) > 0 {
		return nil, true
	}
	select {
	case c := <-w.queue:
		return c, true
	default:
	}
	select {
	case c := <-w.queue:
		return c, true
	case <-w.appendFailed:
		w.signalAppendFailed()
		return nil, true
	case <-w.lookAgain():
		w.signalAppendFailed()
		return nil, true
	case <-w.lost:
		return nil, true
	case <-w.quit:
		select {
		case c := <-w.queue:
			return c, true
		default:
			return nil, false
		}
	}
}

// stop answers all calls that are still waiting.
func (w *Writer) stop(err error) {
	w.mu.Lock()
	w.closed = true
	w.failure = err
	w.mu.Unlock()
	reason := commands.ErrStopped
	if errors.Is(err, commands.ErrNotLeading) {
		reason = commands.ErrNotLeading
	} else if err != nil {
		w.opts.Logger.Error("the writer has stopped", "error", err)
	}
	w.giveUp(w.retry, reason)
	w.mu.Lock()
	var left []*pendingCommand
	for _, c := range w.pending {
		left = append(left, c)
	}
	w.mu.Unlock()
	w.giveUp(left, reason)
	for {
		select {
		case c := <-w.queue:
			w.giveUp([]*pendingCommand{c}, reason)
		default:
			return
		}
	}
}
