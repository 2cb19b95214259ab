package writer

import (
	"fmt"
	"slices"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Limits of a commit.
const (
	// maxAhead is how many commits may be on their way to the log at once. All
	// but the last are full.
	maxAhead = 2
	// groupRecords and groupBytes are the limits at which a commit ends. Without
	// them a flood of commands, even of rejected ones, would keep the first
	// caller of the commit waiting for ever.
	groupRecords = 2048
	groupBytes   = 1 << 20
)

// inflightCommit is a commit on its way to the log. Without a commit, it carries answers
// that must wait for the commits before them.
type inflightCommit struct {
	commit   *ledger.Commit   // nil: nothing to append
	encoded  []byte           // the encoded commit
	undo     ledger.UndoPoint // takes the commit back, with changes
	changes  ledger.Changes
	calls    []*pendingCommand
	appended chan error // the append's result; capacity 1
	opened   time.Time  // zero: it is not measured
	sent     time.Time
	fork     *ledger.State          // to be saved as a snapshot once durable
	barrier  chan []*inflightCommit // see Writer.sync
}

// buildCommit decides the waiting calls.
func (w *Writer) buildCommit() (*inflightCommit, error) {
	f := &inflightCommit{appended: make(chan error, 1), undo: w.state.Begin()}
	if w.opts.Observer != nil {
		f.opened = time.Now()
	}
	w.builder.BeginAt(w.state.Next(), w.state.Head().Digest)
	waiting, err := w.retry, error(nil)
	w.retry = nil
	changed := make(map[ledger.UUID]bool)
	w.full, w.impatient = false, false
	for err == nil && !w.full {
		c := w.nextCall(&waiting)
		if c == nil {
			c = w.waitForMoreCalls(len(f.calls))
		}
		if c == nil {
			break
		}
		if w.full, err = w.decide(c, f, changed); w.full || err != nil {
			w.retry = append(w.retry, c)
		}
		w.full = w.full || len(f.calls)+len(w.retry) >= groupRecords
	}
	w.retry = append(w.retry, waiting...)
	return f, err
}

// decide decides one call, applies its events and adds its record. It reports
// full if the record must go into the next commit.
func (w *Writer) decide(c *pendingCommand, f *inflightCommit, changed map[ledger.UUID]bool) (full bool, err error) {
	if w.drop(c) {
		return false, nil
	}
	c.taken()
	if c.forking {
		return w.fork(c, f), nil
	}
	if anyOf(changed, c.consumers) {
		// A commit changes a consumer once at most: this call waits for the next
		// commit, and later calls on the same consumers wait behind it.
		markAll(changed, c.consumers)
		w.retry = append(w.retry, c)
		return false, nil
	}
	if c.DryRun {
		w.rehearse(c, f)
		return false, nil
	}
	c.place = ledger.Address{Sequence: w.builder.Sequence(), Index: w.builder.Len()}
	known, err := w.known(c, f)
	if err != nil || known {
		return false, err
	}
	events, rejection := commands.DecideChecked(c.Submission, w.state)
	if rejection != nil || len(events) == 0 {
		w.reject(c, f, rejection)
		return false, nil
	}
	if rejection := w.notYet(events); rejection != nil {
		w.reject(c, f, rejection)
		return false, nil
	}
	touched := ledger.ConsumersChanged(events)
	if anyOf(changed, touched) {
		// The command turned out to change a consumer that it does not name. Put
		// it first in the next commit, so that nothing overtakes it.
		c.consumers = slices.Concat(c.consumers, touched)
		w.forget(c)
		return true, nil
	}
	return w.add(c, f, changed, touched, events)
}

// notYet rejects a command whose events a replica of an older release could not
// read.
func (w *Writer) notYet(events []ledger.Event) *demand.Rejection {
	level := ledger.LevelOf(events)
	if _, begins := termIn(events); begins || w.state.Reaches(level) {
		return nil
	}
	return &demand.Rejection{
		Code: demand.CodeNotYet,
		Message: fmt.Sprintf("this needs level %d of features, but some replica has level %d only: upgrade all replicas",
			level, w.state.Term().Level),
	}
}

// termIn returns the term that events begin, if they do, which may raise the level.
func termIn(events []ledger.Event) (began ledger.TermBegan, begins bool) {
	began, begins = events[0].(ledger.TermBegan)
	return began, begins
}

// add applies the decided events and adds their record to the open commit. It
// does neither if the record is too large.
func (w *Writer) add(
	c *pendingCommand, f *inflightCommit, changed map[ledger.UUID]bool, touched []ledger.UUID, events []ledger.Event,
) (full bool, err error) {
	record := ledger.Record{
		CommandID: c.ID, Fingerprint: c.fingerprint, Command: c.Command.CommandName(),
		Time: w.now(), Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause, Events: events,
	}
	limit := w.log.MaxCommitBytes()
	if w.builder.Len() > 0 {
		limit = min(limit, groupBytes)
	}
	before := w.builder.Size()
	size, fits, err := w.builder.Add(record, limit)
	if err != nil {
		return false, err
	}
	if !fits && w.builder.Len() > 0 {
		w.forget(c)
		return true, nil
	}
	if !fits {
		w.reject(c, f, tooLarge(size, limit))
		return false, nil
	}
	if err := w.state.Apply(w.builder.Sequence(), &record); err != nil {
		return false, err
	}
	if c.pays() {
		w.budget.Spend(c.Client, size-before, w.opts.Now())
	}
	markAll(changed, touched)
	c.outcome = commands.Outcome{Address: c.place}
	if commands.Claims(c.Command) != nil {
		c.outcome.Events = events // they say what was chosen
	}
	f.calls = append(f.calls, c)
	return false, nil
}

// reject answers a command that has no record: with its rejection, or, if that is
// nil, that nothing had to change.
func (w *Writer) reject(c *pendingCommand, f *inflightCommit, rejection *demand.Rejection) {
	c.outcome = commands.Outcome{Rejection: rejection}
	if rejection != nil && rejection.Code != demand.CodeClaimOutdated {
		c.decided = w.now()
	}
	f.calls = append(f.calls, c)
}

// fork answers with a copy of the State, which must be between two commits: if
// the open commit has records, the fork waits for the next commit.
func (w *Writer) fork(c *pendingCommand, f *inflightCommit) (full bool) {
	if w.builder.Len() > 0 {
		return true
	}
	c.forked = w.state.Fork()
	f.calls = append(f.calls, c)
	return false
}

// rehearse decides a dry run. Like a rejection, its answer waits for the commits
// that it was decided after, so that everything it rests on has come true.
func (w *Writer) rehearse(c *pendingCommand, f *inflightCommit) {
	events, rejection := commands.DecideChecked(c.Submission, w.state)
	c.outcome = commands.Outcome{Rejection: rejection, Events: events}
	f.calls = append(f.calls, c)
}

func anyOf(set map[ledger.UUID]bool, ids []ledger.UUID) bool {
	for _, id := range ids {
		if set[id] {
			return true
		}
	}
	return false
}

func markAll(set map[ledger.UUID]bool, ids []ledger.UUID) {
	for _, id := range ids {
		set[id] = true
	}
}

func tooLarge(size, limit int) *demand.Rejection {
	return &demand.Rejection{
		Code:    demand.CodeTooLarge,
		Message: fmt.Sprintf("the record would take %d bytes, but the log takes at most %d", size, limit),
		Facts:   demand.Facts{SizeBytes: size, LimitBytes: limit},
	}
}

// now returns the writer's clock, which never goes back in the log. What is decided again
// is decided at a later time, even after the clock was set back: no two appends have the
// same bytes, and ledger.Chain tells a late one from damage by that.
func (w *Writer) now() int64 {
	w.latest = max(w.opts.Now().UnixNano(), w.state.LastTime(), w.floor)
	return w.latest
}

// send seals the open commit and starts its append.
func (w *Writer) send(f *inflightCommit) error {
	w.lastCalls[0], w.lastCalls[1] = len(f.calls), w.lastCalls[0]
	if w.builder.Len() == 0 {
		if len(f.calls) > 0 {
			w.flights <- f // rejections wait for the commits before them
		}
		return nil
	}
	commit, encoded, err := w.builder.Seal()
	if err != nil {
		return err
	}
	w.state.Advance(commit.Head())
	f.commit, f.encoded, f.changes = commit, encoded, w.state.Changes()
	f.fork = w.forkIfDue(commit)
	w.underWay++
	f.sent = time.Now()
	w.log.Append(commit.Sequence, encoded, func(err error) { f.appended <- err })
	w.flights <- f
	return nil
}

// forkIfDue returns a copy of the State when a snapshot is due, otherwise nil.
func (w *Writer) forkIfDue(commit *ledger.Commit) *ledger.State {
	w.opts.Snapshots.Folded(commit)
	if !w.opts.Snapshots.Due() {
		return nil
	}
	return w.state.Fork()
}
