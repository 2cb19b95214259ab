package commands

import (
	"cmp"

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
	return cmp.Or(checkGiven("leader", c.Leader), checkUUID("instance", c.Instance))
}

// decide: the level never goes down, because what was written
// stays.
func (c *BeginTerm) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	before := s.Term()
	if c.Level < before.Level {
		return nil, demand.Refuse(demand.CodeInvalid, demand.Facts{Field: "level"},
			"a replica reads features up to level %d only, but the ledger is at level %d: upgrade that replica", c.Level, before.Level)
	}
	return []ledger.Event{ledger.TermBegan{Term: ledger.Term{
		Number: before.Number + 1, Leader: c.Leader, Instance: c.Instance, Level: c.Level,
	}}}, nil
}

// SetConsumptionRoot commits the ledger to how much every project has consumed up to a whole
// hour. The server submits it, with the root that it has made from its read models. It changes
// nothing if the ledger has a root of that hour or a later one, or if what the root was made
// from is outdated.
type SetConsumptionRoot struct {
	operatorsOnly `json:"-"`

	ledger.ConsumptionRoot
	// Last is the sequence of the newest commit that the root was made from; 0: there is a
	// commit after the hour already, so none can follow that counts.
	Last uint64 `json:"last"`
}

func (c *SetConsumptionRoot) check() *demand.Rejection {
	if c.At <= 0 || c.At%ledger.ConsumptionPeriod != 0 {
		return demand.Invalid("at", "is not a whole hour")
	}
	return nil
}

func (c *SetConsumptionRoot) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if c.At <= s.ConsumptionAt() || c.Last != 0 && !c.stillLast(s) {
		return nil, nil
	}
	return []ledger.Event{ledger.ConsumptionRootSet{ConsumptionRoot: c.ConsumptionRoot}}, nil
}

// stillLast reports whether nothing has come after the commit that the root was made from:
// neither a commit nor, in the one that is being decided, a change of what is held.
func (c *SetConsumptionRoot) stillLast(s *ledger.State) bool {
	changes := s.Changes()
	return c.Last == s.Head().Sequence && len(changes.Usages)+len(changes.NodeAllocations) == 0
}
