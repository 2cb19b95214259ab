package importing

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

// StandardNames returns the names that every ledger has.
func StandardNames() (Names, error) {
	add, err := commands.NewAddStandardNames(ledger.NilUUID)
	if err != nil {
		return Names{}, err
	}
	names := Names{Classes: make(map[string]bool), Traits: make(map[string]bool)}
	for _, name := range add.Classes {
		names.Classes[name] = true
	}
	for _, name := range add.Traits {
		names.Traits[name] = true
	}
	return names, nil
}

// Write makes the log's commits and passes them on, in order. It returns the
// State after them, whose head is that of the last one. Each record is folded
// before it is passed on, so the log cannot hold one that a server would refuse.
func (p *Plan) Write(begin Begin, yield func(ledger.Entry) error) (*ledger.State, error) {
	w := &logWriter{
		begin: begin, state: ledger.NewState(), builder: ledger.NewCommitBuilder(), yield: yield,
		time: max(begin.Time, p.newest()),
	}
	w.builder.Begin(w.state.Head())
	w.state.Begin()
	add, err := commands.NewAddStandardNames(begin.Ledger)
	if err != nil {
		return nil, err
	}
	names, rejection := add.Decide(w.state)
	if rejection != nil {
		return nil, fmt.Errorf("importing: the ledger cannot begin: %s", rejection.Message)
	}
	if err := w.add(add.CommandName(), names...); err != nil {
		return nil, err
	}
	contents := []ledger.Event{p.Contents}
	for _, class := range p.Classes {
		contents = append(contents, class)
	}
	for _, name := range p.Traits {
		contents = append(contents, ledger.TraitCreated{Name: name})
	}
	if err := w.add(CommandName, contents...); err != nil {
		return nil, err
	}
	w.cause = &ledger.Address{Sequence: w.builder.Sequence(), Index: w.builder.Len() - 1}
	for i := range p.Providers {
		if err := w.add(CommandName, p.Providers[i]); err != nil {
			return nil, err
		}
	}
	for i := range p.Consumers {
		if err := w.add(CommandName, p.Consumers[i]); err != nil {
			return nil, err
		}
	}
	return w.state, w.seal()
}

// newest returns the newest time in the plan. No record may be older.
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

// logWriter builds commits.
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

// seal passes the commit on and begins the next one.
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
