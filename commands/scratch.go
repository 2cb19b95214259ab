package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Scratch is a ledger in memory, for what-if questions: it begins as a copy of
// the real ledger at some moment, takes commands, and is thrown away. It records
// nothing. It is not safe for concurrent use.
type Scratch struct{ state *ledger.State }

// NewScratch begins with a State, which belongs to the Scratch from now on.
func NewScratch(state *ledger.State) *Scratch { return &Scratch{state} }

// State returns the scratch ledger's State, which must not be changed.
func (l *Scratch) State() *ledger.State { return l.state }

// Carry carries a command out in a commit of its own, and returns its events or a
// rejection. The time is that of the last record. Claims need what WithFound or Searching
// gives them.
func (l *Scratch) Carry(s Submission) ([]ledger.Event, *demand.Rejection, error) {
	events, rejection := Decide(s, l.state)
	if rejection != nil || len(events) == 0 {
		return nil, rejection, nil
	}
	record := ledger.Record{
		CommandID: s.ID, Command: NameOf(s.Command), Time: l.state.LastTime(), Actor: s.Actor, Events: events,
	}
	undo := l.state.Begin()
	next := l.state.Next()
	if err := l.state.Apply(next, &record); err != nil {
		l.state.Undo(undo, l.state.Changes())
		return nil, nil, err
	}
	l.state.Advance(ledger.Head{Sequence: next})
	return events, nil, nil
}
