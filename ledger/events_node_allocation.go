package ledger

import "fmt"

// AllocationRequested states that a node allocation exists and waits for a node.
type AllocationRequested struct {
	Allocation     UUID     `json:"allocation"`
	Name           string   `json:"name,omitempty"`
	ResourceClass  string   `json:"resource_class,omitempty"`
	Owner          string   `json:"owner,omitempty"`
	Traits         []string `json:"traits,omitempty"`
	CandidateNodes []UUID   `json:"candidate_nodes,omitempty"`
	Extra          Document `json:"extra,omitzero"`
}

func (ev AllocationRequested) topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

func (ev *AllocationRequested) form(c *coder) {
	c.eventFields(7).uuid(&ev.Allocation).text(&ev.Name).text(&ev.ResourceClass).text(&ev.Owner)
	c.strings(&ev.Traits).uuids(&ev.CandidateNodes).document(&ev.Extra)
}

func (ev AllocationRequested) apply(s *State, at moment) error {
	a := ev.allocation()
	a.State, a.CreatedAt = NodeAllocating, at.time
	return s.addNodeAllocation(a, "requested")
}

func (ev AllocationRequested) allocation() *NodeAllocation {
	return &NodeAllocation{
		UUID: ev.Allocation, Name: ev.Name, ResourceClass: ev.ResourceClass, Owner: ev.Owner,
		Traits: ev.Traits, CandidateNodes: ev.CandidateNodes, Extra: ev.Extra,
	}
}

// addNodeAllocation adds a node allocation, and numbers it.
func (s *State) addNodeAllocation(a *NodeAllocation, how string) error {
	if _, exists := s.NodeAllocation(a.UUID); exists || a.UUID.IsNil() {
		return fmt.Errorf("%w: node allocation %s cannot be %s", ErrInvariant, a.UUID, how)
	}
	s.numbers++
	a.Number = s.numbers
	return s.setNodeAllocation(nil, a)
}

// editNodeAllocation replaces a node allocation by a changed copy.
func (s *State) editNodeAllocation(id UUID, at moment, edit func(*NodeAllocation)) error {
	before, ok := s.NodeAllocation(id)
	if !ok {
		return fmt.Errorf("%w: no node allocation %s", ErrInvariant, id)
	}
	after := *before
	after.UpdatedAt = at.time
	edit(&after)
	return s.setNodeAllocation(before, &after)
}

// NodeAllocated states which node an allocation got. Seed and Suitable document
// the choice: the same request with the same seed against the same State gives
// the same node.
type NodeAllocated struct {
	Allocation   UUID     `json:"allocation"`
	Node         UUID     `json:"node"`
	InstanceInfo Document `json:"instance_info,omitzero"` // the node's instance from now on
	Seed         uint64   `json:"seed,omitempty"`         // 0: the client named the node
	Free         uint64   `json:"free,omitempty"`         // free nodes of the class at that moment
}

func (ev NodeAllocated) topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

func (ev *NodeAllocated) form(c *coder) {
	c.eventFields(5).uuid(&ev.Allocation).uuid(&ev.Node).document(&ev.InstanceInfo).uint(&ev.Seed)
	c.uint(&ev.Free)
}

func (ev NodeAllocated) apply(s *State, at moment) error {
	a, ok := s.NodeAllocation(ev.Allocation)
	if !ok || a.State != NodeAllocating {
		return fmt.Errorf("%w: node allocation %s waits for no node", ErrInvariant, ev.Allocation)
	}
	n, ok := s.Node(ev.Node)
	if !ok || !n.Allocation.IsNil() || !n.Instance.IsNil() && n.Instance != ev.Allocation {
		return fmt.Errorf("%w: node %s is taken", ErrInvariant, ev.Node)
	}
	if err := s.editNode(ev.Node, at, ev.edit); err != nil {
		return err
	}
	return s.editNodeAllocation(ev.Allocation, at, func(a *NodeAllocation) {
		a.Node, a.State = ev.Node, NodeAllocationActive
	})
}

func (ev NodeAllocated) edit(n *Node) {
	n.Instance, n.Allocation, n.InstanceInfo = ev.Allocation, ev.Allocation, ev.InstanceInfo
}

// Exclusion is a reason for which nodes were not chosen, with their number.
type Exclusion struct {
	Reason string `json:"reason"`
	Nodes  uint64 `json:"nodes"` // a node may count for several reasons
}

func (x *Exclusion) form(c *coder) { c.text(&x.Reason).uint(&x.Nodes) }

// AllocationFailed states that an allocation got no node and never will.
type AllocationFailed struct {
	Allocation UUID        `json:"allocation"`
	LastError  string      `json:"last_error"`
	Exclusions []Exclusion `json:"exclusions,omitempty"`
}

func (ev AllocationFailed) topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

func (ev *AllocationFailed) form(c *coder) {
	c.eventFields(3).uuid(&ev.Allocation).text(&ev.LastError)
	flat(c, "exclusions", 2, &ev.Exclusions, (*Exclusion).form)
}

func (ev AllocationFailed) apply(s *State, at moment) error {
	a, ok := s.NodeAllocation(ev.Allocation)
	if !ok || a.State != NodeAllocating {
		return fmt.Errorf("%w: node allocation %s cannot fail", ErrInvariant, ev.Allocation)
	}
	return s.editNodeAllocation(ev.Allocation, at, func(a *NodeAllocation) {
		a.State, a.LastError = NodeAllocationError, ev.LastError
	})
}

// NodeAllocationUpdated states the fields that an allocation's client may change.
type NodeAllocationUpdated struct {
	Allocation UUID     `json:"allocation"`
	Name       string   `json:"name,omitempty"`
	Extra      Document `json:"extra,omitzero"`
}

func (ev NodeAllocationUpdated) topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

func (ev *NodeAllocationUpdated) form(c *coder) {
	c.eventFields(3).uuid(&ev.Allocation).text(&ev.Name).document(&ev.Extra)
}

func (ev NodeAllocationUpdated) apply(s *State, at moment) error {
	return s.editNodeAllocation(ev.Allocation, at, func(a *NodeAllocation) { a.Name, a.Extra = ev.Name, ev.Extra })
}

// NodeAllocationReleased states that an allocation is gone. Its node, if it had
// one, has no instance any more.
type NodeAllocationReleased struct {
	Allocation UUID `json:"allocation"`
}

func (ev NodeAllocationReleased) topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

func (ev *NodeAllocationReleased) form(c *coder) { c.eventFields(1).uuid(&ev.Allocation) }

func (ev NodeAllocationReleased) apply(s *State, at moment) error {
	before, ok := s.NodeAllocation(ev.Allocation)
	if !ok {
		return fmt.Errorf("%w: no node allocation %s", ErrInvariant, ev.Allocation)
	}
	if !before.Node.IsNil() {
		if err := s.editNode(before.Node, at, ev.edit); err != nil {
			return err
		}
	}
	return s.setNodeAllocation(before, nil)
}

func (ev NodeAllocationReleased) edit(n *Node) { n.Instance, n.Allocation = NilUUID, NilUUID }

// NodeProvidersSet states whether nodes are resource providers, too. The provider
// of a node has an inventory of one of the node's class, which is used while the
// node is taken.
type NodeProvidersSet struct {
	On bool `json:"on"`
}

func (ev *NodeProvidersSet) form(c *coder) { c.eventFields(1).bool(&ev.On) }

func (ev NodeProvidersSet) apply(s *State, _ moment) error {
	if s.nodeProviders == ev.On {
		return fmt.Errorf("%w: node providers set twice", ErrInvariant)
	}
	s.nodeProviders = ev.On
	return nil
}
