// Package scratch is a ledger in memory, to find out what would happen: it
// begins as a copy of the real one at some moment, takes commands, and is
// thrown away. Nothing of it is recorded.
package scratch

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Ledger is a scratch ledger. It is not safe for concurrent use.
type Ledger struct{ state *ledger.State }

// New begins with a State, which is the ledger's from now on.
func New(state *ledger.State) *Ledger { return &Ledger{state} }

// State is what is so now; it must not be changed.
func (l *Ledger) State() *ledger.State { return l.state }

// Carry carries a command out in a commit of its own: the events, or why not.
// The time is that of the last record.
func (l *Ledger) Carry(s commands.Submission) ([]ledger.Event, *commands.Rejection, error) {
	events, rejection := commands.Decide(s, l.state)
	if rejection != nil || len(events) == 0 {
		return nil, rejection, nil
	}
	record := ledger.Record{CommandID: s.ID, Command: s.Command.CommandName(), Time: l.state.LastTime(), Actor: s.Actor, Events: events}
	mark := l.state.Begin()
	next := l.state.Next()
	if err := l.state.Apply(next, &record); err != nil {
		l.state.Undo(mark, l.state.Changes())
		return nil, nil, err
	}
	l.state.Advance(ledger.Head{Sequence: next})
	return events, nil, nil
}
