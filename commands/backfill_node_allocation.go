package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// BackfillNodeAllocation makes an allocation for a node that is already in use
// (Ironic 1.58). The node must be active and match the request. If it does not,
// the allocation is recorded as failed with the reason, as in Ironic.
type BackfillNodeAllocation struct {
	operatorsOnly `json:"-"`

	Node ledger.UUID `json:"node"`
	// Allocation is the uuid that the client wants. If it is absent, the
	// allocation gets the uuid of the node's instance or, if the node has no
	// instance, NewAllocation.
	Allocation    ledger.UUID `json:"allocation,omitzero"`
	NewAllocation ledger.UUID `json:"new_allocation"`
	NodeRequest
}

func (c *BackfillNodeAllocation) check() *demand.Rejection {
	return cmp.Or(checkUUID("node", c.Node), checkUUID("new_allocation", c.NewAllocation), c.NodeRequest.check())
}

func (c *BackfillNodeAllocation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeUnknown(c.Node)
	}
	id := c.Allocation
	if id.IsNil() {
		id = n.Instance
	}
	if id.IsNil() {
		id = c.NewAllocation
	}
	requested, rejection := c.request(s, id)
	if rejection != nil {
		return nil, rejection
	}
	if requested.ResourceClass == "" {
		requested.ResourceClass = n.ResourceClass
	}
	if why := c.mismatch(s, n, id); why != "" {
		return []ledger.Event{requested, ledger.AllocationFailed{Allocation: id, LastError: why}}, nil
	}
	allocated, rejection := allocate(id, c.Traits, n)
	if rejection != nil {
		return nil, rejection
	}
	return withNodeProvider(s, n.UUID, []ledger.Event{requested, allocated})
}

// mismatch returns Ironic's text about what does not match, or "".
func (c *BackfillNodeAllocation) mismatch(s *ledger.State, n *ledger.Node, id ledger.UUID) string {
	var parts []string
	if n.ProvisionState != stateActive {
		parts = append(
			parts, fmt.Sprintf("Node must be in the \"active\" state, but the current state is \"%s\"", n.ProvisionState),
		)
	}
	if c.ResourceClass != "" && c.ResourceClass != n.ResourceClass {
		parts = append(
			parts,
			fmt.Sprintf("Resource class %s does not match the requested resource class %s", n.ResourceClass, c.ResourceClass),
		)
	}
	if !n.HasTraits(c.Traits) {
		parts = append(
			parts, fmt.Sprintf("List of traits %s does not match the requested traits %s", quoted(n.Traits), quoted(c.Traits)),
		)
	}
	if len(c.CandidateNodes) > 0 && !slices.Contains(c.CandidateNodes, n.UUID) {
		names := make([]string, len(c.CandidateNodes))
		for i, node := range c.CandidateNodes {
			names[i] = node.String()
		}
		parts = append(parts, "Candidate nodes must be empty or contain the target node, but got "+quoted(names))
	}
	if parts != nil {
		return failedToProcess(
			id, fmt.Sprintf("Cannot backfill an allocation for node %s: %s", n.UUID, strings.Join(parts, "; ")),
		)
	}
	if !n.Instance.IsNil() && n.Instance != id {
		return nodeAssociated(n).Message
	}
	if holder, taken := s.NodeOfInstance(id); taken && holder != n.UUID {
		return instanceElsewhere(id, n.UUID)
	}
	return ""
}

func quoted(names []string) string {
	return "['" + strings.Join(names, "', '") + "']"
}
