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
	barrier  chan []*inflightCommit // see loop.sync
}

func (l *loop) buildCommit() (*inflightCommit, error) {
	f := &inflightCommit{appended: make(chan error, 1), undo: l.state.Begin()}
	if l.opts.Observer != nil {
		f.opened = time.Now()
	}
	l.builder.BeginAt(l.state.Next(), l.state.Head().Digest)
	waiting, err := l.retry, error(nil)
	l.retry = nil
	changed := make(map[ledger.UUID]bool)
	l.full, l.impatient = false, false
	for err == nil && !l.full {
		c := l.nextCall(&waiting)
		if c == nil {
			c = l.waitForMoreCalls(len(f.calls))
		}
		if c == nil {
			break
		}
		if l.full, err = l.decide(c, f, changed); l.full || err != nil {
			l.retry = append(l.retry, c)
		}
		l.full = l.full || len(f.calls)+len(l.retry) >= groupRecords
	}
	l.retry = append(l.retry, waiting...)
	return f, err
}

// decide decides one call, applies its events and adds its record. It reports
// full if the record must go into the next commit.
func (l *loop) decide(c *pendingCommand, f *inflightCommit, changed map[ledger.UUID]bool) (full bool, err error) {
	if l.drop(c) {
		return false, nil
	}
	c.taken()
	if c.forking {
		return l.fork(c, f), nil
	}
	if anyOf(changed, c.consumers) {
		// A commit changes a consumer once at most: this call waits for the next
		// commit, and later calls on the same consumers wait behind it.
		markAll(changed, c.consumers)
		l.retry = append(l.retry, c)
		return false, nil
	}
	if c.DryRun {
		l.rehearse(c, f)
		return false, nil
	}
	c.place = ledger.Address{Sequence: l.builder.Sequence(), Index: l.builder.Len()}
	known, err := l.known(c, f)
	if err != nil || known {
		return false, err
	}
	events, rejection := commands.DecideChecked(c.Submission, l.state)
	if rejection != nil || len(events) == 0 {
		l.reject(c, f, rejection)
		return false, nil
	}
	if rejection := l.notYet(events); rejection != nil {
		l.reject(c, f, rejection)
		return false, nil
	}
	touched := ledger.ConsumersChanged(events)
	if anyOf(changed, touched) {
		// The command turned out to change a consumer that it does not name. Put
		// it first in the next commit, so that nothing overtakes it.
		c.consumers = slices.Concat(c.consumers, touched)
		l.forget(c)
		return true, nil
	}
	return l.add(c, f, changed, touched, events)
}

// notYet rejects a command whose events a replica of an older release could not
// read.
func (l *loop) notYet(events []ledger.Event) *demand.Rejection {
	level := ledger.LevelOf(events)
	if _, begins := events[0].(ledger.TermBegan); begins || l.state.Reaches(level) {
		return nil // the beginning of a term may raise the level
	}
	return demand.Refuse(demand.CodeNotYet, demand.Facts{},
		"this needs level %d of features, but some replica has level %d only: upgrade all replicas",
		level, l.state.Term().Level)
}

// add applies the decided events and adds their record to the open commit. It
// does neither if the record is too large.
func (l *loop) add(
	c *pendingCommand, f *inflightCommit, changed map[ledger.UUID]bool, touched []ledger.UUID, events []ledger.Event,
) (full bool, err error) {
	record := ledger.Record{
		CommandID: c.ID, Fingerprint: c.fingerprint, Command: commands.NameOf(c.Command),
		Time: l.now(), Actor: c.Actor, RequestID: c.RequestID, Cause: c.Cause, Events: events,
	}
	limit := l.log.MaxCommitBytes()
	if l.builder.Len() > 0 {
		limit = min(limit, groupBytes)
	}
	before := l.builder.Size()
	size, fits, err := l.builder.Add(record, limit)
	if err != nil {
		return false, err
	}
	if !fits && l.builder.Len() > 0 {
		l.forget(c)
		return true, nil
	}
	if !fits {
		l.reject(c, f, tooLarge(size, limit))
		return false, nil
	}
	if err := l.state.Apply(l.builder.Sequence(), &record); err != nil {
		return false, err
	}
	if c.pays() {
		l.budget.Spend(c.Client, size-before, l.opts.Now())
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
func (l *loop) reject(c *pendingCommand, f *inflightCommit, rejection *demand.Rejection) {
	c.outcome = commands.Outcome{Rejection: rejection}
	if rejection != nil && rejection.Code != demand.CodeClaimOutdated {
		c.decided = l.now()
	}
	f.calls = append(f.calls, c)
}

// fork answers with a copy of the State, which must be between two commits: if
// the open commit has records, the fork waits for the next commit.
func (l *loop) fork(c *pendingCommand, f *inflightCommit) (full bool) {
	if l.builder.Len() > 0 {
		return true
	}
	c.forked = l.state.Fork()
	f.calls = append(f.calls, c)
	return false
}

// rehearse decides a dry run. Like a rejection, its answer waits for the commits
// that it was decided after, so that everything it rests on has come true.
func (l *loop) rehearse(c *pendingCommand, f *inflightCommit) {
	events, rejection := commands.DecideChecked(c.Submission, l.state)
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
	return demand.Refuse(demand.CodeTooLarge, demand.Facts{SizeBytes: size, LimitBytes: limit},
		"the record would take %d bytes, but the log takes at most %d", size, limit)
}

// now returns the writer's clock, which never goes back in the log. What is decided again
// is decided at a later time, even after the clock was set back: no two appends have the
// same bytes, and chain.Chain tells a late one from damage by that.
func (l *loop) now() int64 {
	l.latest = max(l.opts.Now().UnixNano(), l.state.LastTime(), l.floor)
	return l.latest
}

// send seals the open commit and starts its append.
func (l *loop) send(f *inflightCommit) error {
	l.lastCalls[0], l.lastCalls[1] = len(f.calls), l.lastCalls[0]
	if l.builder.Len() == 0 {
		if len(f.calls) > 0 {
			l.flights <- f // rejections wait for the commits before them
		}
		return nil
	}
	commit, encoded, err := l.builder.Seal()
	if err != nil {
		return err
	}
	l.state.Advance(commit.Head())
	f.commit, f.encoded, f.changes = commit, encoded, l.state.Changes()
	if l.opts.Snapshots.Folded(commit); l.opts.Snapshots.Due(l.state) {
		f.fork = l.state.Fork()
	}
	l.underWay++
	f.sent = time.Now()
	l.log.Append(commit.Sequence, encoded, func(err error) { f.appended <- err })
	l.flights <- f
	return nil
}

// known answers a call whose command id was accepted before. If the first call
// with the id is still pending, this call follows it. Otherwise known reserves
// the id for the call.
func (l *loop) known(c *pendingCommand, f *inflightCommit) (bool, error) {
	l.mu.Lock()
	earlier, ok := l.pending[c.ID]
	follows := ok && earlier != c
	hidden := follows && !c.mayKnow(earlier.Actor)
	if follows && !hidden {
		earlier.followers = append(earlier.followers, c)
	}
	if earlier == nil {
		l.pending[c.ID] = c
	}
	l.mu.Unlock()
	if hidden {
		l.hide(c, f)
	}
	if follows {
		return true, nil
	}
	result, found, err := l.models.Command(c.ID)
	if err != nil || !found {
		return false, err
	}
	if c.Project != "" {
		record, _, err := l.models.Record(result.Address)
		if err != nil {
			return false, err
		}
		if record == nil || !c.mayKnow(record.Actor) {
			l.forget(c) // calls of others with the id must not follow this one
			l.hide(c, f)
			return true, nil
		}
	}
	c.outcome = repeatedOutcome(c, result)
	l.answer(c)
	return true, nil
}

// mayKnow reports whether a call's client may be told of a command of an actor. One that
// is bound to a project is told of its own commands alone: it may have guessed an id.
func (c *pendingCommand) mayKnow(actor string) bool { return c.Project == "" || c.Actor == actor }

// hide answers a call with the command id of another client. As for any other id, what
// may not be touched comes first, and then no more is told than that the id is taken.
func (l *loop) hide(c *pendingCommand, f *inflightCommit) {
	rejection := commands.Foreign(c.Submission, l.state)
	if rejection == nil {
		rejection = demand.Refuse(demand.CodeCommandIDReused, demand.Facts{},
			"command id %s is taken: send the command with another id", c.ID)
	}
	l.reject(c, f, rejection)
}

// repeatedOutcome answers a call whose command id was used before. The first
// command has no address if it was rejected, or had nothing to change, while this
// call waited for it.
func repeatedOutcome(c *pendingCommand, first ledger.CommandResult) commands.Outcome {
	if first.Fingerprint == c.fingerprint {
		return commands.Outcome{Address: first.Address, Repeated: true}
	}
	message := fmt.Sprintf("command id %s belongs to another command, at %s", c.ID, first.Address)
	if first.Address.Sequence == 0 {
		message = fmt.Sprintf("command id %s was given to another command at the same time", c.ID)
	}
	return commands.Outcome{Rejection: &demand.Rejection{Code: demand.CodeCommandIDReused, Message: message}}
}

// forget releases a command id that known reserved.
func (l *loop) forget(c *pendingCommand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[c.ID] == c {
		delete(l.pending, c.ID)
	}
}
