package commands

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// NodeRequest describes the node that a client asks for, by Ironic's rules.
type NodeRequest struct {
	Name           string          `json:"name,omitempty"` // unique, 1..255 of A-Z a-z 0-9 - . _ ~
	ResourceClass  string          `json:"resource_class,omitempty"`
	Traits         []string        `json:"traits,omitempty"`          // the node must have all of them
	CandidateNodes []ledger.UUID   `json:"candidate_nodes,omitempty"` // the node must be one of them; empty: any node
	Owner          string          `json:"owner,omitempty"`           // only nodes that this project owns or leases
	Extra          ledger.Document `json:"extra,omitzero"`
}

func (r *NodeRequest) check() *demand.Rejection {
	if utf8.RuneCountInString(r.ResourceClass) > ledger.MaxNodeClassRunes || !utf8.ValidString(r.ResourceClass) {
		return demand.Invalid("resource_class", "takes at most %d characters", ledger.MaxNodeClassRunes)
	}
	if r.Owner != "" {
		if rejection := checkOwner("owner", r.Owner); rejection != nil {
			return rejection
		}
	}
	if len(r.Traits) > ledger.MaxRequestedTraits {
		return demand.Invalid("traits", "at most %d can be asked for, not %d", ledger.MaxRequestedTraits, len(r.Traits))
	}
	if len(r.CandidateNodes) > ledger.MaxCandidateNodes {
		return demand.Invalid("candidate_nodes", "at most %d can be named, not %d",
			ledger.MaxCandidateNodes, len(r.CandidateNodes))
	}
	return checkAllocationName(r.Name)
}

func checkAllocationName(name string) *demand.Rejection {
	if name != "" && !IsIdent(name) {
		return demand.Refuse(
			demand.CodeInvalid, demand.Facts{Field: "name", Name: name}, "name: %q cannot name an allocation", name,
		)
	}
	return nil
}

// request returns the event with which an allocation begins.
func (r *NodeRequest) request(s *ledger.State, id ledger.UUID) (ledger.AllocationRequested, *demand.Rejection) {
	ev := ledger.AllocationRequested{
		Allocation: id, Name: r.Name, ResourceClass: r.ResourceClass, Owner: r.Owner,
		Traits: r.Traits, CandidateNodes: r.CandidateNodes, Extra: r.Extra,
	}
	if rejection := checkTraits(s, "traits", r.Traits); rejection != nil {
		return ev, rejection
	}
	if _, exists := s.NodeAllocation(id); exists {
		return ev, nodeAllocationExists("UUID", id.String())
	}
	if _, taken := s.NodeAllocationNamed(r.Name); taken {
		return ev, nodeAllocationExists("name", r.Name)
	}
	return ev, missing(r.CandidateNodes, func(id ledger.UUID) bool {
		_, exists := s.Node(id)
		return exists
	})
}

// missing rejects nodes that do not exist, or not for the client.
func missing(nodes []ledger.UUID, exists func(ledger.UUID) bool) *demand.Rejection {
	var unknown []ledger.UUID
	for _, node := range nodes {
		if !exists(node) && !slices.Contains(unknown, node) {
			unknown = append(unknown, node)
		}
	}
	if unknown == nil {
		return nil
	}
	return nodeUnknown(unknown...)
}

func nodeAllocationExists(what, name string) *demand.Rejection {
	return demand.Refuse(
		demand.CodeNodeAllocationExists, demand.Facts{Name: name}, "An allocation with %s %s already exists.", what, name,
	)
}

// RequestNodeAllocation asks for one whole node. It is accepted even if no node
// is free. A node is chosen right after (see ChooseNode), and the state of the
// allocation then shows the outcome.
type RequestNodeAllocation struct {
	noConsumers `json:"-"`

	Allocation ledger.UUID `json:"allocation"`
	NodeRequest
}

func (c *RequestNodeAllocation) check() *demand.Rejection {
	if c.ResourceClass == "" {
		return demand.Invalid("resource_class", "is mandatory")
	}
	return cmp.Or(checkUUID("allocation", c.Allocation), c.NodeRequest.check())
}

func (c *RequestNodeAllocation) forProject(s *ledger.State, project string) *demand.Rejection {
	if c.Owner != project {
		return foreign(project, "the owner %q", c.Owner)
	}
	return missing(c.CandidateNodes, func(id ledger.UUID) bool {
		n, exists := s.Node(id)
		return exists && (n.Owner == project || n.Lessee == project)
	})
}

func (c *RequestNodeAllocation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	requested, rejection := c.request(s, c.Allocation)
	if rejection != nil {
		return nil, rejection
	}
	return []ledger.Event{requested}, nil
}

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
		parts = append(parts,
			fmt.Sprintf("Resource class %s does not match the requested resource class %s", n.ResourceClass, c.ResourceClass))
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

func quoted(names []string) string { return "['" + strings.Join(names, "', '") + "']" }

// UpdateNodeAllocation changes an allocation's name and extra by a JSON Patch
// (Ironic 1.57). Nothing else can change; a new name does not lead to another
// node.
type UpdateNodeAllocation struct {
	noConsumers `json:"-"`

	Allocation ledger.UUID      `json:"allocation"`
	Patch      []PatchOperation `json:"patch"`
}

func (c *UpdateNodeAllocation) check() *demand.Rejection {
	for _, op := range c.Patch {
		if field := op.Field(); field != "name" && field != "extra" || op.Path != "/name" && field == "name" {
			return demand.Refuse(demand.CodeInvalid, demand.Facts{Field: "patch", Name: field},
				"Cannot patch %s. Only the following can be updated: name, extra", op.Path)
		}
	}
	return cmp.Or(checkUUID("allocation", c.Allocation), checkPatch(c.Patch))
}

// allocationFields are the fields that a patch can change.
type allocationFields struct {
	Name  *string         `json:"name"`
	Extra ledger.Document `json:"extra"`
}

func (c *UpdateNodeAllocation) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideNodeAllocation(s, c.Allocation, project)
}

func (c *UpdateNodeAllocation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a, ok := s.NodeAllocation(c.Allocation)
	if !ok {
		return nil, nodeAllocationNotFound(c.Allocation)
	}
	var after allocationFields
	if rejection := applyPatch(c.Patch, allocationFields{Name: orNil(a.Name), Extra: a.Extra}, &after); rejection != nil {
		return nil, rejection
	}
	name := deref(after.Name)
	if rejection := checkAllocationName(name); rejection != nil {
		return nil, rejection
	}
	if holder, taken := s.NodeAllocationNamed(name); taken && holder != a.UUID {
		return nil, nodeAllocationExists("name", name)
	}
	if name == a.Name && after.Extra == a.Extra {
		return nil, nil
	}
	return []ledger.Event{ledger.NodeAllocationUpdated{Allocation: a.UUID, Name: name, Extra: after.Extra}}, nil
}

func nodeAllocationNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeNodeAllocationNotFound, demand.Facts{Allocation: &id}, "Allocation %s could not be found.", id,
	)
}

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
