package writer

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
)

// How long a caller waits while the log is silent:
//
// Waiting calls stand in one list, the oldest first. Once the log has been silent
// for Options.AnswerWithin, each call that has waited that long is answered with
// ErrLogUnavailable. If its commit was sent it may still become durable; if the
// call was not decided yet it is dropped. From then on the log counts as stuck:
// one call at a time may try the log, for a shorter time, and all others are
// refused at once. The first append that succeeds ends this.

const (
	// answerTicks and stuckTicks are how long a call may wait, in ticks of the
	// watch: normally, and while the log is stuck.
	answerTicks = 20
	stuckTicks  = 4
	// outage is how long the log may be out of reach for certain before all
	// waiting calls are answered.
	outage = 500 * time.Millisecond
)

// callers is the Writer's knowledge of its waiting callers.
type callers struct {
	calls     callList                  // guarded by the Writer's mu
	some      chan struct{}             // has room for one: a call waits
	tick      uint32                    // ticks of the watch; guarded by the Writer's mu
	silent    atomic.Pointer[time.Time] // since when the log owes an answer; nil: it owes none
	logSilent atomic.Bool               // the log was silent for too long, and has taken no commit since
	folding   atomic.Bool               // it has taken the commit, and the read models have not yet
	refused   atomic.Int64              // calls answered with ErrLogUnavailable
}

// Refused returns how many calls were told that the log cannot be written.
func (w *Writer) Refused() int64 { return w.callers.refused.Load() }

// Stuck returns ErrLogSilent if the log was silent for too long and has taken no
// commit since, ErrReadModelsSilent if it has and the read models have not, or nil.
func (w *Writer) Stuck() error {
	if !w.callers.logSilent.Load() {
		return nil
	}
	return w.silence()
}

// refusal returns why the log must not be written now, or nil.
func (w *Writer) refusal() error {
	if w.opts.Refuse == nil {
		return nil
	}
	if err := w.opts.Refuse(); err != nil {
		return fmt.Errorf("%w: %w", commands.ErrLogUnavailable, err)
	}
	return nil
}

// writes reports whether a call is to write a record.
func (c *pendingCommand) writes() bool { return !c.forking && !c.DryRun }

// pays reports whether what a call adds to the log is counted. Commands of this process
// have no client.
func (c *pendingCommand) pays() bool { return c.writes() && !c.Bulk && c.Client != "" }

// admit decides whether a call may wait. The caller holds mu.
func (w *Writer) admit(c *pendingCommand) error {
	var err error
	if c.writes() {
		err = w.refusal()
	}
	if err == nil && c.pays() {
		if err = w.budget.May(c.Client, w.opts.Now()); err != nil {
			return err
		}
	}
	if err == nil && w.callers.logSilent.Load() && w.callers.calls.first != nil {
		err = w.silence()
	}
	if err != nil {
		w.callers.refused.Add(1)
	}
	return err
}

// Reasons for which a Writer answers nothing now. They are commands.ErrLogUnavailable.
var (
	// ErrLogSilent means that the log has not answered for long.
	ErrLogSilent = fmt.Errorf("%w: the log does not answer", commands.ErrLogUnavailable)
	// ErrReadModelsSilent means that the log takes commits, and the read models have
	// not taken one for long.
	ErrReadModelsSilent = fmt.Errorf("%w: the read models do not take its commits", commands.ErrLogUnavailable)
)

// silence returns who is silent: the log or, if it has answered, the read models.
func (w *Writer) silence() error {
	if w.callers.folding.Load() {
		return ErrReadModelsSilent
	}
	return ErrLogSilent
}

// drop answers a call that must not be decided, because its caller was already
// answered or the log must not be written. It returns false for all other calls.
func (l *loop) drop(c *pendingCommand) bool {
	if c.told.Load() {
		l.giveUp([]*pendingCommand{c}, l.silence())
		return true
	}
	if l.opts.Refuse == nil || !c.writes() {
		return false
	}
	if err := l.refusal(); err != nil {
		l.callers.refused.Add(1)
		l.giveUp([]*pendingCommand{c}, err)
		return true
	}
	return false
}

// owes notes that the log owes an answer from now on. An earlier debt stands
// until the log takes a commit.
func (w *Writer) owes(since *time.Time) { w.callers.silent.CompareAndSwap(nil, since) }

// watch answers waiting callers when the log is silent for too long. It rests while none waits.
func (w *Writer) watch() {
	for {
		select {
		case <-w.callers.some:
		case <-w.done:
			return
		}
		for some := true; some; some = w.expire() {
			select {
			case <-time.After(w.opts.AnswerWithin / answerTicks):
			case <-w.done:
				return
			}
		}
	}
}

// expire answers the calls that have waited for too long, and reports whether others wait.
func (w *Writer) expire() (some bool) {
	silent := w.callers.silent.Load()
	patience := w.opts.AnswerWithin
	ticks := uint32(answerTicks)
	if w.callers.logSilent.Load() || w.refusal() != nil {
		patience, ticks = patience*stuckTicks/answerTicks, stuckTicks
	}
	w.mu.Lock()
	w.callers.tick++
	oldest := w.callers.tick - ticks
	w.mu.Unlock()
	if silent != nil && time.Since(*silent) >= patience {
		w.tellWaiting(w.silence(), func(c *pendingCommand) bool { return int32(oldest-c.born) >= 0 })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.callers.calls.first != nil
}

// tellWaiting answers the oldest calls, as long as they are late: as far as the
// writer knows, their commands were not carried out.
func (w *Writer) tellWaiting(err error, late func(*pendingCommand) bool) {
	w.mu.Lock()
	var told []*pendingCommand
	for c := w.callers.calls.first; c != nil && late(c); c = w.callers.calls.first {
		w.callers.calls.remove(c)
		c.told.Store(true)
		told = append(told, c)
	}
	w.mu.Unlock()
	if len(told) == 0 {
		return
	}
	w.callers.refused.Add(int64(len(told)))
	if !w.callers.logSilent.Swap(true) {
		w.opts.Logger.Error("no commits are taken; commands are refused until they are", "error", err)
	}
	for _, c := range told {
		w.observeAnswer(c, commands.Outcome{}, err)
		c.done(commands.Outcome{}, err)
	}
}

func everyone(*pendingCommand) bool { return true }

// took notes that the log and the read models have taken a commit.
func (w *Writer) took() {
	w.callers.silent.Store(nil)
	if w.callers.logSilent.Load() && w.callers.logSilent.Swap(false) {
		w.opts.Logger.Info("commits are taken again")
	}
}

// callList is a list of calls in the order in which they came. A call is in one
// list at most.
type callList struct{ first, last *pendingCommand }

func (l *callList) add(c *pendingCommand) {
	c.before, c.listed = l.last, true
	if l.last == nil {
		l.first = c
	} else {
		l.last.after = c
	}
	l.last = c
}

func (l *callList) remove(c *pendingCommand) {
	if !c.listed {
		return
	}
	if c.before == nil {
		l.first = c.after
	} else {
		c.before.after = c.after
	}
	if c.after == nil {
		l.last = c.before
	} else {
		c.after.before = c.before
	}
	c.before, c.after, c.listed = nil, nil, false
}
