package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
