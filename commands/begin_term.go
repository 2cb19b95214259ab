package commands

import (
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// BeginTerm begins a term, in which one replica leads. A replica decides it as
// its first command after its election, at the end of the log. A former leader
// that reads the log then finds this record where it wanted to append its own.
type BeginTerm struct {
	operatorsOnly `json:"-"`

	Leader   string      `json:"leader"`
	Instance ledger.UUID `json:"instance"` // of the leader's process
	// Level is the newest level of features that all known replicas can read.
	Level uint64 `json:"level"`
}

func (c *BeginTerm) check() *demand.Rejection {
	if c.Leader == "" {
		return demand.Invalid("leader", "is required")
	}
	return checkUUID("instance", c.Instance)
}

// decide: the level never goes down, because what was written
// stays.
func (c *BeginTerm) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	before := s.Term()
	if c.Level < before.Level {
		return nil, &demand.Rejection{
			Code: demand.CodeInvalid, Facts: demand.Facts{Field: "level"},
			Message: fmt.Sprintf("a replica reads features up to level %d only, but the ledger is at level %d: "+
				"upgrade that replica", c.Level, before.Level),
		}
	}
	return []ledger.Event{ledger.TermBegan{Term: ledger.Term{
		Number: before.Number + 1, Leader: c.Leader, Instance: c.Instance, Level: c.Level,
	}}}, nil
}
