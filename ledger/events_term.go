package ledger

import (
	"errors"
	"fmt"
)

// Level is the newest level of features that this build writes and reads. A kind
// or form of event that older builds do not know raises it. Replicas of one
// ledger are not all upgraded at once, and none may meet an event that it cannot
// read; see Term.Level.
const Level = 1

// ErrLevel means that the log has events that only a newer release can read.
var ErrLevel = errors.New("ledger: a newer release wrote this log")

// Term is a time in which one replica leads, that is, decides commands alone. A
// ledger that was only ever served by one server has no terms.
type Term struct {
	// Number counts the terms from 1; 0: there was none.
	Number uint64 `json:"term"`
	// Leader is the name of the leading replica.
	Leader string `json:"leader"`
	// Instance identifies the leading process. A replica has a new one each time
	// it starts.
	Instance UUID `json:"instance"`
	// Level is the newest level of features that all known replicas could read
	// when the term began. Records of the term use this level at most.
	Level uint64 `json:"level"`
}

// TermBegan states who leads from now on. It is in the first record of its term.
type TermBegan struct{ Term }

func (ev *TermBegan) form(c *coder) {
	c.eventFields(1)
	ev.Term.form(c)
}

func (t *Term) form(c *coder) {
	c.fields("term", 4).uint(&t.Number).text(&t.Leader).uuid(&t.Instance).uint(&t.Level)
}

func (ev TermBegan) apply(s *State, _ moment) error {
	if err := ev.known(); err != nil {
		return err
	}
	if ev.Number != s.term.Number+1 || ev.Leader == "" || ev.Level < s.term.Level {
		return fmt.Errorf("%w: term %d of %q at level %d cannot follow term %d at level %d",
			ErrInvariant, ev.Number, ev.Leader, ev.Level, s.term.Number, s.term.Level)
	}
	s.term = ev.Term
	return nil
}

// known refuses a term whose records this build may be unable to read, or may
// misread. It does so at the term's beginning, before any of its records are
// folded.
func (t Term) known() error {
	if t.Level > Level {
		return fmt.Errorf("%w: since term %d it is at level %d of features, but this release knows level %d only: "+
			"start the release that the other servers run, which knows level %d", ErrLevel, t.Number, t.Level, Level, t.Level)
	}
	return nil
}

// Term returns the present term.
func (s *State) Term() Term { return s.term }

// Reaches reports whether all known replicas can read what is of a level of features.
// Before the first term there are none but the server that asks.
func (s *State) Reaches(level uint64) bool { return s.term.Number == 0 || level <= s.term.Level }
