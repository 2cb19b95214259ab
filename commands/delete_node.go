package commands

import (
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteNode removes a node. No instance may run on it unless it is in
// maintenance; an allocation of the node is then removed, too.
type DeleteNode struct {
	operatorsOnly `json:"-"`

	Node ledger.UUID `json:"node"`
}

func (c *DeleteNode) check() *demand.Rejection { return checkUUID("node", c.Node) }

// deletableStates are the provision states in which a node can be deleted.
var deletableStates = []string{stateEnroll, stateManageable, "adopt failed", ledger.NodeAvailable}

func (c *DeleteNode) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	switch {
	case !ok:
		return nil, nodeNotFound(c.Node)
	case n.Protected:
		return nil, nodeProtected(n)
	case !n.Maintenance && !n.Instance.IsNil():
		return nil, nodeAssociated(n)
	case !n.Maintenance && !slices.Contains(deletableStates, n.ProvisionState):
		return nil, nodeState(
			n,
			"Can not delete node \"%s\" while it is in provision state \"%s\". Valid provision states to perform deletion are: %s.",
			n.UUID, n.ProvisionState, strings.Join(deletableStates, ", "),
		)
	}
	var events []ledger.Event
	if !n.Allocation.IsNil() {
		events = append(events, ledger.NodeAllocationReleased{Allocation: n.Allocation})
	}
	return withNodeProvider(s, n.UUID, append(events, ledger.NodeDeleted{Node: n.UUID}))
}

func nodeProtected(n *ledger.Node) *demand.Rejection {
	id := n.UUID
	return &demand.Rejection{
		Code:    demand.CodeNodeProtected,
		Message: "Node " + id.String() + " is protected and can not be undeployed, rebuilt or deleted",
		Facts:   demand.Facts{Node: &id},
	}
}
