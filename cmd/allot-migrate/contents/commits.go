package contents

import (
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// CommandName is the name under which the records of an import stand in the log.
const CommandName = "Import"

// Begin says how a plan becomes a log.
type Begin struct {
	Ledger ledger.UUID        // the new ledger's id
	NewID  func() ledger.UUID // ids of records
	Time   int64              // of the records, in Unix nanoseconds, or the newest time of the plan if that is later
	Actor  string             // who imports
	Limit  int                // the size of the largest commit, in bytes
}

// targetBytes is the size at which a commit of an import is full.
const targetBytes = 1 << 20

// Write makes the commits of a new log and passes them on, in order. It returns the
// State after them, whose head is that of the last one. Each record is folded
// before it is passed on, so the log cannot hold one that a server would refuse.
func (p *Plan) Write(begin Begin, yield func(ledger.Entry) error) (*ledger.State, error) {
	w := p.newWriter(begin, ledger.NewState(), yield)
	add, err := commands.NewAddStandardNames(begin.Ledger)
	if err != nil {
		return nil, err
	}
	names, rejection := commands.Decide(commands.Submission{Command: add}, w.state)
	if rejection != nil {
		return nil, fmt.Errorf("importing: the ledger cannot begin: %s", rejection.Message)
	}
	if err := w.add(commands.NameOf(add), names...); err != nil {
		return nil, err
	}
	return w.state, w.write(p)
}

// Add is Write for a log that goes on. State is that after its last commit, and is changed.
func (p *Plan) Add(begin Begin, state *ledger.State, yield func(ledger.Entry) error) error {
	return p.newWriter(begin, state, yield).write(p)
}

func (p *Plan) newWriter(begin Begin, state *ledger.State, yield func(ledger.Entry) error) *logWriter {
	w := &logWriter{
		begin: begin, state: state, builder: ledger.NewCommitBuilder(), yield: yield, time: max(begin.Time, p.newest()),
	}
	w.builder.Begin(w.state.Head())
	w.state.Begin()
	return w
}

func (w *logWriter) write(p *Plan) error {
	contents := []ledger.Event{p.Contents}
	for _, class := range p.Classes {
		contents = append(contents, class)
	}
	for _, name := range p.Traits {
		contents = append(contents, ledger.TraitCreated{Name: name})
	}
	if err := w.add(CommandName, contents...); err != nil {
		return err
	}
	w.cause = &ledger.Address{Sequence: w.builder.Sequence(), Index: w.builder.Len() - 1}
	for event := range p.entities {
		if err := w.add(CommandName, event); err != nil {
			return err
		}
	}
	return w.seal()
}

// entities yields the events that have records of their own, in an order in which they can be folded.
func (p *Plan) entities(yield func(ledger.Event) bool) {
	_ = each(p.Providers, yield) && each(p.Consumers, yield) && each(p.Chassis, yield) && each(p.Nodes, yield) &&
		each(p.NodeAllocations, yield)
}

func each[E ledger.Event](events []E, yield func(ledger.Event) bool) bool {
	for i := range events {
		if !yield(events[i]) {
			return false
		}
	}
	return true
}

// newest returns the newest time in the plan. No record may be older. Only the times of providers and consumers may be
// after the reading, because those that were equal are told apart.
func (p *Plan) newest() int64 {
	newest := p.Contents.ReadAt
	for i := range p.Providers {
		newest = max(newest, p.Providers[i].UpdatedAt)
	}
	for i := range p.Consumers {
		newest = max(newest, p.Consumers[i].UpdatedAt)
	}
	return newest
}

type logWriter struct {
	begin   Begin
	time    int64
	state   *ledger.State
	builder *ledger.CommitBuilder
	cause   *ledger.Address
	yield   func(ledger.Entry) error
}

// add puts a record into the commit, and begins another one if it is full.
func (w *logWriter) add(command string, events ...ledger.Event) error {
	if w.builder.Len() > 0 && w.builder.Size() >= min(targetBytes, w.begin.Limit/2) {
		if err := w.seal(); err != nil {
			return err
		}
	}
	record := ledger.Record{
		CommandID: w.begin.NewID(), Command: command, Time: w.time, Actor: w.begin.Actor, Cause: w.cause, Events: events,
	}
	size, fits, err := w.builder.Add(record, w.begin.Limit)
	if err == nil && !fits && w.builder.Len() > 0 {
		if err := w.seal(); err != nil {
			return err
		}
		size, fits, err = w.builder.Add(record, w.begin.Limit)
	}
	if err != nil {
		return err
	}
	if !fits {
		return fmt.Errorf("importing: %s takes %d bytes, and a commit takes at most %d: leave it out in the source",
			ledger.KindOf(events[0]), size, w.begin.Limit)
	}
	if err := w.state.Apply(w.builder.Sequence(), &record); err != nil {
		return fmt.Errorf("importing: the ledger would refuse a record, which is a bug of Allot: %w", err)
	}
	return nil
}

func (w *logWriter) seal() error {
	if w.builder.Len() == 0 {
		return nil
	}
	commit, encoded, err := w.builder.Seal()
	if err != nil {
		return err
	}
	if err := w.yield(ledger.Entry{Sequence: commit.Sequence, Data: encoded}); err != nil {
		return err
	}
	w.state.Advance(commit.Head())
	w.builder.Begin(commit.Head())
	w.state.Begin()
	return nil
}
