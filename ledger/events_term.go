package ledger

import (
	"errors"
	"fmt"
)

// Level is the newest level of features that this build writes and reads. A
// kind or form of event that older builds do not know raises it: replicas of
// one ledger are not all upgraded at once, and none may meet what it cannot
// read. See Term.Level.
const Level = 2

// ErrLevel says that the log has what only a newer release can read.
var ErrLevel = errors.New("ledger: a newer release wrote this log")

// Term is the time in which one replica leads: it alone decides commands. A
// ledger that was only ever served by one server has none.
type Term struct {
	// Number counts the terms from 1 on; 0: there was none.
	Number uint64 `json:"term"`
	// Leader is the name of the replica.
	Leader string `json:"leader"`
	// Instance is the process that leads: a new one each time a replica starts.
	Instance UUID `json:"instance"`
	// Level is what all replicas that were known when the term began can read,
	// and what is written in it.
	Level uint64 `json:"level"`
}

// TermBegan says who leads from now on. It is the first record of its term.
type TermBegan struct{ Term }

var termBegan = register(90, TermBegan.form)

func (TermBegan) kind() *eventKind { return termBegan }

// Topic implements Event.
func (TermBegan) Topic() Topic { return Topic{} }

func (ev TermBegan) form(c *coder) TermBegan {
	c.eventFields(1)
	ev.Term.form(c)
	return ev
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

// known refuses a term whose records this build might not read, or not as they
// are meant. It is said of the term, before anything is folded that is in it.
func (t Term) known() error {
	if t.Level > Level {
		return fmt.Errorf("%w: since term %d it is at level %d of features, and this release knows %d: start a release that "+
			"knows level %d, as the other servers run it", ErrLevel, t.Number, t.Level, Level, t.Level)
	}
	return nil
}

// Term is the present one.
func (s *State) Term() Term { return s.term }
