package commands

import (
	"cmp"
	"slices"
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
