package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReleaseNodeAllocation removes an allocation and frees its node. The node must
// not be active, unless it is in maintenance.
type ReleaseNodeAllocation struct {
	Allocation ledger.UUID `json:"allocation"`
}

func (c *ReleaseNodeAllocation) consumers() []ledger.UUID { return []ledger.UUID{c.Allocation} }

func (c *ReleaseNodeAllocation) check() *demand.Rejection {
	return checkUUID("allocation", c.Allocation)
}

func (c *ReleaseNodeAllocation) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideNodeAllocation(s, c.Allocation, project)
}

func (c *ReleaseNodeAllocation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a, ok := s.NodeAllocation(c.Allocation)
	if !ok {
		return nil, nodeAllocationNotFound(c.Allocation)
	}
	events := []ledger.Event{ledger.NodeAllocationReleased{Allocation: a.UUID}}
	if a.Node.IsNil() {
		return events, nil
	}
	n, ok := s.Node(a.Node)
	if ok && n.ProvisionState == stateActive && !n.Maintenance {
		return nil, nodeState(
			n, "Cannot remove allocation %s for node %s, because the node is active (and maintenance mode is off)", a.UUID,
			n.UUID,
		)
	}
	return withNodeProvider(s, a.Node, events)
}
