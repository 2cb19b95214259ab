package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// RemoveProvider removes a provider with its descendants and all allocations of
// them, as if its machine were lost: its consumers keep what they hold elsewhere.
// It is for what-if questions only. Registry does not have it, so no client can
// submit it.
type RemoveProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (*RemoveProvider) consumers() []ledger.UUID { return nil }

func (c *RemoveProvider) check() *demand.Rejection {
	return (&DeleteProvider{Provider: c.Provider}).check()
}

func (c *RemoveProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Provider(c.Provider); !exists {
		return (&DeleteProvider{Provider: c.Provider}).decide(s)
	}
	tree := below(s, c.Provider, nil)
	gone := make(map[ledger.UUID]bool, len(tree))
	for _, id := range tree {
		gone[id] = true
	}
	var events []ledger.Event
	s.Consumers(func(consumer *ledger.Consumer) bool {
		if slices.ContainsFunc(consumer.Allocations, func(a ledger.Allocation) bool { return gone[a.Provider] }) {
			events = append(events, without(s, consumer, gone))
		}
		return true
	})
	for _, id := range tree {
		if node, isNode := s.Node(id); isNode && s.NodeProviders() {
			if !node.Allocation.IsNil() {
				events = append(events, ledger.NodeAllocationReleased{Allocation: node.Allocation})
			}
			events = append(events, ledger.NodeDeleted{Node: id})
		}
		events = append(events, ledger.ProviderDeleted{Provider: id})
	}
	return events, nil
}

// below lists a provider and its descendants, each after its own descendants.
func below(s *ledger.State, id ledger.UUID, list []ledger.UUID) []ledger.UUID {
	s.Children(id, func(child ledger.UUID) bool {
		list = below(s, child, list)
		return true
	})
	return append(list, id)
}

// without returns a consumer with what it holds elsewhere. A reservation keeps
// its end.
func without(s *ledger.State, c *ledger.Consumer, gone map[ledger.UUID]bool) ledger.Event {
	var left []ledger.AllocationRecord
	for _, a := range c.Allocations {
		if !gone[a.Provider] {
			left = append(
				left, ledger.AllocationRecord{Provider: a.Provider, Class: s.Classes().Name(a.Class), Amount: a.Amount},
			)
		}
	}
	if len(left) == 0 {
		return ledger.ConsumerRemoved{Consumer: c.UUID}
	}
	replaced := ledger.AllocationsReplaced{
		Consumer: c.UUID, Project: c.Owner.Project, User: c.Owner.User, Type: c.Owner.Type, Allocations: left,
	}
	if c.ReservedUntil > 0 {
		return ledger.AllocationsReserved{AllocationsReplaced: replaced, Until: c.ReservedUntil}
	}
	return replaced
}
