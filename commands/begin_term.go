package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// BeginTerm begins a time in which one replica leads. It is the first command
// that a replica decides when it has been elected, and decided on the end of
// the log: whoever led before finds its record there instead of its own.
type BeginTerm struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	Leader   string      `json:"leader"`
	Instance ledger.UUID `json:"instance"` // of the leader's process
	// Level is the newest level of features that all known replicas can read.
	Level uint64 `json:"level"`
}

// CommandName implements Command.
func (*BeginTerm) CommandName() string { return "BeginTerm" }

// Check implements Command.
func (c *BeginTerm) Check() *Rejection {
	if c.Leader == "" {
		return invalid("leader", "is required")
	}
	return checkUUID("instance", c.Instance)
}

// Decide implements Command. Levels never go down: what was written stays.
func (c *BeginTerm) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	before := s.Term()
	if c.Level < before.Level {
		return nil, &Rejection{
			Code: CodeInvalid, Facts: Facts{Field: "level"},
			Message: fmt.Sprintf("a replica can read level %d of features, and the ledger is at %d: "+
				"replace it with a newer release of Allot", c.Level, before.Level),
		}
	}
	return []ledger.Event{ledger.TermBegan{Term: ledger.Term{
		Number: before.Number + 1, Leader: c.Leader, Instance: c.Instance, Level: c.Level,
	}}}, nil
}
