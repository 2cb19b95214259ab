package commands

import (
	"fmt"
	"sync/atomic"
	"time"
)

// How long a caller waits while the log says nothing:
//
// Calls that wait stand in one list, the oldest first. Once the log has been
// silent for Options.AnswerWithin those in it are told ErrLogUnavailable as
// they get that old. What was sent may still become durable; what was not
// decided yet is dropped. From then on the log counts as stuck: one call at a
// time is let in to try it, and has less time, and all others are refused at
// once. The first append that succeeds ends this.

const (
	// answerTicks and stuckTicks are how long a call may wait, in ticks of
	// the watch; the second counts while the log is stuck.
	answerTicks = 20
	stuckTicks  = 4
	// outage is how long the log may be out of reach, once that is certain,
	// before all who wait are told.
	outage = 500 * time.Millisecond
)

// waiting is what the Processor knows of those who wait for it.
type waiting struct {
	calls   callList     // guarded by the Processor's mu
	tick    uint32       // of the watch; guarded by the Processor's mu
	silent  atomic.Int64 // since when the log owes an answer, in Unix nanoseconds; 0: it does not
	stuck   atomic.Bool  // the log has been silent for too long, and has taken nothing since
	refused atomic.Int64 // calls that were told so
}

// Refused is how many calls were told that the log cannot be written.
func (p *Processor) Refused() int64 { return p.wait.refused.Load() }

// Stuck reports whether the log has not answered for too long, and has taken
// no commit since.
func (p *Processor) Stuck() bool { return p.wait.stuck.Load() }

// refusal says why the log must not be written now.
func (p *Processor) refusal() error {
	if p.opts.Refuse == nil {
		return nil
	}
	if err := p.opts.Refuse(); err != nil {
		return fmt.Errorf("%w: %w", ErrLogUnavailable, err)
	}
	return nil
}

// writes reports whether a call wants something written.
func (c *call) writes() bool { return !c.forking && !c.DryRun }

// admit decides whether a call may wait. The caller holds mu.
func (p *Processor) admit(c *call) error {
	var err error
	if c.writes() {
		err = p.refusal()
	}
	if err == nil && p.wait.stuck.Load() && p.wait.calls.first != nil {
		err = errSilent
	}
	if err != nil {
		p.wait.refused.Add(1)
	}
	return err
}

var errSilent = fmt.Errorf("%w: it does not answer", ErrLogUnavailable)

// drop answers a call that must not be decided: its caller has been told, or
// the log must not be written. It returns false for all others.
func (p *Processor) drop(c *call) bool {
	if c.told.Load() {
		p.giveUp([]*call{c}, errSilent)
		return true
	}
	if p.opts.Refuse == nil || !c.writes() {
		return false
	}
	if err := p.refusal(); err != nil {
		p.wait.refused.Add(1)
		p.giveUp([]*call{c}, err)
		return true
	}
	return false
}

// owes notes since when the log owes an answer; what it owed before counts
// until it takes a commit.
func (p *Processor) owes(since time.Time) { p.wait.silent.CompareAndSwap(0, since.UnixNano()) }

// watch tells callers when the log is silent for too long.
func (p *Processor) watch() {
	ticker := time.NewTicker(p.opts.AnswerWithin / answerTicks)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.expire()
		case <-p.done:
			return
		}
	}
}

// expire tells those that have waited for too long.
func (p *Processor) expire() {
	silent := p.wait.silent.Load()
	patience := p.opts.AnswerWithin
	ticks := uint32(answerTicks)
	if p.wait.stuck.Load() || p.refusal() != nil {
		patience, ticks = patience*stuckTicks/answerTicks, stuckTicks
	}
	p.mu.Lock()
	p.wait.tick++
	oldest := p.wait.tick - ticks
	p.mu.Unlock()
	if silent > 0 && time.Since(time.Unix(0, silent)) >= patience {
		p.tellWaiting(errSilent, func(c *call) bool { return int32(oldest-c.born) >= 0 })
	}
}

// tellWaiting tells the oldest calls, as long as they are late, that their
// command was not carried out, as far as is known.
func (p *Processor) tellWaiting(err error, late func(*call) bool) {
	p.mu.Lock()
	var told []*call
	for c := p.wait.calls.first; c != nil && late(c); c = p.wait.calls.first {
		p.wait.calls.remove(c)
		c.told.Store(true)
		told = append(told, c)
	}
	p.mu.Unlock()
	if len(told) == 0 {
		return
	}
	p.wait.refused.Add(int64(len(told)))
	if !p.wait.stuck.Swap(true) {
		p.opts.Logger.Error("the log does not take commits; commands are refused until it does", "error", err)
	}
	for _, c := range told {
		c.done(Outcome{}, err)
	}
}

func everyone(*call) bool { return true }

// took notes that the log has taken a commit, and the read models, too.
func (p *Processor) took() {
	p.wait.silent.Store(0)
	if p.wait.stuck.Load() && p.wait.stuck.Swap(false) {
		p.opts.Logger.Info("the log takes commits again")
	}
}

// callList is a list of calls in the order in which they came. A call is in
// one list at most.
type callList struct{ first, last *call }

func (l *callList) add(c *call) {
	c.before, c.listed = l.last, true
	if l.last == nil {
		l.first = c
	} else {
		l.last.after = c
	}
	l.last = c
}

// remove takes a call out, if it is there.
func (l *callList) remove(c *call) {
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
