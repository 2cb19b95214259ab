package writer

import (
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// finish takes the flights in order and answers their calls. After a failed
// append it only collects flights, until the loop has seen the failure.
func (w *Writer) finish() {
	var failed []*inflightCommit
	for f := range w.flights {
		if f.barrier != nil {
			f.barrier <- failed
			failed = nil
			continue
		}
		var err error
		var appended time.Time
		if f.commit != nil {
			w.owes(&f.sent)
			err = <-f.appended
			appended = time.Now()
			w.appendTook.Store(int64(appended.Sub(f.sent)))
			if err != nil {
				w.signalAppendFailed() // before the loop may send another commit (see takeTurn)
			}
			w.acked <- struct{}{}
		}
		if err == nil && len(failed) == 0 {
			if err = w.land(f); err == nil && f.commit == nil {
				err = w.certain()
			}
		}
		if err != nil || len(failed) > 0 {
			if len(failed) == 0 {
				w.opts.Logger.Warn("a commit was not appended; reading the log to its end and deciding again", "error", err)
			}
			failed = append(failed, f)
			w.signalAppendFailed()
			continue
		}
		w.observe(f, appended)
		for _, c := range f.calls {
			w.tell(c)
			w.answer(c)
		}
	}
	// These calls are not decided again.
	for _, f := range failed {
		w.giveUp(f.calls, commands.ErrStopped)
	}
}

// certain returns once it is certain that no other server led when the calls of a
// flight were decided. Only calls without a record need that: if the log took a
// commit of the flight, that is proof enough.
func (w *Writer) certain() error {
	if w.opts.Leadership == nil {
		return nil
	}
	return w.opts.Leadership.Await(w.quit)
}

// land folds a durable commit, so that it can be read.
func (w *Writer) land(f *inflightCommit) error {
	if f.commit == nil {
		return nil
	}
	w.callers.folding.Store(true)
	err := w.models.Fold(f.commit, f.changes)
	w.callers.folding.Store(false)
	if err != nil {
		return err
	}
	if w.opts.Landed != nil {
		w.opts.Landed(f.encoded)
	}
	w.took()
	if f.fork != nil {
		w.opts.Snapshots.Save(f.fork)
	}
	return nil
}

// tell reports a rejection that has become final.
func (w *Writer) tell(c *pendingCommand) {
	if w.opts.Rejected != nil && c.decided > 0 && c.outcome.Rejection != nil {
		w.opts.Rejected(
			commands.Rejected{Submission: c.Submission, Time: c.decided, Place: c.place, Rejection: c.outcome.Rejection},
		)
	}
}

// answer answers a call, and the calls that wait for the same command.
func (w *Writer) answer(c *pendingCommand) {
	w.mu.Lock()
	if w.pending[c.ID] == c {
		delete(w.pending, c.ID)
	}
	followers := c.followers
	c.followers = nil
	w.callers.calls.remove(c)
	for _, f := range followers {
		w.callers.calls.remove(f)
	}
	w.mu.Unlock()
	for _, f := range followers {
		if f.told.Load() {
			continue
		}
		f.outcome, f.err = c.outcome, c.err
		if c.err == nil && f.fingerprint != c.fingerprint {
			f.outcome = repeatedOutcome(f, ledger.CommandResult{Address: c.outcome.Address, Fingerprint: c.fingerprint})
		} else if c.err == nil && c.outcome.Rejection == nil {
			f.outcome.Repeated = true
		}
		w.observeAnswer(f, f.outcome, f.err)
		f.done(f.outcome, f.err)
	}
	if !c.told.Load() {
		w.observeAnswer(c, c.outcome, c.err)
		c.done(c.outcome, c.err)
	}
}

func (w *Writer) giveUp(calls []*pendingCommand, err error) {
	for _, c := range calls {
		c.outcome, c.err = commands.Outcome{}, err
		w.answer(c)
	}
}
