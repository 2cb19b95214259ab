package ledger

import "fmt"

// AllocationRequested says that a node allocation exists and waits for a node.
type AllocationRequested struct {
	Allocation     UUID     `json:"allocation"`
	Name           string   `json:"name,omitempty"`
	ResourceClass  string   `json:"resource_class,omitempty"`
	Owner          string   `json:"owner,omitempty"`
	Traits         []string `json:"traits,omitempty"`
	CandidateNodes []UUID   `json:"candidate_nodes,omitempty"`
	Extra          Document `json:"extra,omitzero"`
}

// EventKind implements Event.
func (AllocationRequested) EventKind() string { return "AllocationRequested" }
func (AllocationRequested) code() eventCode   { return codeAllocationRequested }

func (ev AllocationRequested) encode(e *encoder) {
	e.array(7)
	e.uuid(ev.Allocation)
	e.string(ev.Name)
	e.string(ev.ResourceClass)
	e.string(ev.Owner)
	e.strings(ev.Traits)
	e.uuids(ev.CandidateNodes)
	e.string(string(ev.Extra))
}

func decodeAllocationRequested(d *decoder) Event {
	d.exactly(7, "AllocationRequested")
	return AllocationRequested{
		Allocation: d.uuid(), Name: d.string(), ResourceClass: d.string(), Owner: d.string(),
		Traits: d.strings(), CandidateNodes: d.uuids(), Extra: d.document(),
	}
}

func (ev AllocationRequested) apply(s *State, at moment) error {
	if _, exists := s.NodeAllocation(ev.Allocation); exists || ev.Allocation.IsNil() {
		return fmt.Errorf("%w: node allocation %s cannot be requested", ErrInvariant, ev.Allocation)
	}
	s.numbers++
	return s.setNodeAllocation(nil, &NodeAllocation{
		UUID: ev.Allocation, Number: s.numbers, Name: ev.Name, ResourceClass: ev.ResourceClass, Owner: ev.Owner,
		Traits: ev.Traits, CandidateNodes: ev.CandidateNodes, Extra: ev.Extra,
		State: NodeAllocating, CreatedAt: at.time,
	})
}

// editNodeAllocation changes a copy of a node allocation and puts it in the
// allocation's place.
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

// NodeAllocated says which node an allocation got. Seed and Suitable tell how
// it was chosen: deciding the same request with the same seed against the
// same State gives the same node.
type NodeAllocated struct {
	Allocation   UUID     `json:"allocation"`
	Node         UUID     `json:"node"`
	InstanceInfo Document `json:"instance_info,omitzero"` // the node's, from now on
	Seed         uint64   `json:"seed,omitempty"`         // 0: the client named the node
	Free         uint64   `json:"free,omitempty"`         // free nodes of the class at that moment
}

// EventKind implements Event.
func (NodeAllocated) EventKind() string { return "NodeAllocated" }
func (NodeAllocated) code() eventCode   { return codeNodeAllocated }

func (ev NodeAllocated) encode(e *encoder) {
	e.array(5)
	e.uuid(ev.Allocation)
	e.uuid(ev.Node)
	e.string(string(ev.InstanceInfo))
	e.uint(ev.Seed)
	e.uint(ev.Free)
}

func decodeNodeAllocated(d *decoder) Event {
	d.exactly(5, "NodeAllocated")
	return NodeAllocated{Allocation: d.uuid(), Node: d.uuid(), InstanceInfo: d.document(), Seed: d.uint(), Free: d.uint()}
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

// Exclusion is a reason for which nodes were not chosen.
type Exclusion struct {
	Reason string `json:"reason"`
	Nodes  uint64 `json:"nodes"` // a node may be counted for several reasons
}

// AllocationFailed says that an allocation got no node, and never will.
type AllocationFailed struct {
	Allocation UUID        `json:"allocation"`
	LastError  string      `json:"last_error"`
	Exclusions []Exclusion `json:"exclusions,omitempty"`
}

// EventKind implements Event.
func (AllocationFailed) EventKind() string { return "AllocationFailed" }
func (AllocationFailed) code() eventCode   { return codeAllocationFailed }

func (ev AllocationFailed) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Allocation)
	e.string(ev.LastError)
	e.array(2 * len(ev.Exclusions))
	for _, x := range ev.Exclusions {
		e.string(x.Reason)
		e.uint(x.Nodes)
	}
}

func decodeAllocationFailed(d *decoder) Event {
	d.exactly(3, "AllocationFailed")
	ev := AllocationFailed{Allocation: d.uuid(), LastError: d.string()}
	n := d.array()
	if n%2 != 0 {
		d.fail("exclusions have %d fields", n)
	}
	for i := 0; i < n/2 && d.err == nil; i++ {
		ev.Exclusions = append(ev.Exclusions, Exclusion{Reason: d.string(), Nodes: d.uint()})
	}
	return ev
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

// NodeAllocationUpdated says what an allocation's client keeps with it.
type NodeAllocationUpdated struct {
	Allocation UUID     `json:"allocation"`
	Name       string   `json:"name,omitempty"`
	Extra      Document `json:"extra,omitzero"`
}

// EventKind implements Event.
func (NodeAllocationUpdated) EventKind() string { return "NodeAllocationUpdated" }
func (NodeAllocationUpdated) code() eventCode   { return codeNodeAllocationUpdated }

func (ev NodeAllocationUpdated) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Allocation)
	e.string(ev.Name)
	e.string(string(ev.Extra))
}

func decodeNodeAllocationUpdated(d *decoder) Event {
	d.exactly(3, "NodeAllocationUpdated")
	return NodeAllocationUpdated{Allocation: d.uuid(), Name: d.string(), Extra: d.document()}
}

func (ev NodeAllocationUpdated) apply(s *State, at moment) error {
	return s.editNodeAllocation(ev.Allocation, at, func(a *NodeAllocation) { a.Name, a.Extra = ev.Name, ev.Extra })
}

// NodeAllocationReleased says that an allocation is gone, and its node, if it
// had one, runs nothing any more.
type NodeAllocationReleased struct {
	Allocation UUID `json:"allocation"`
}

// EventKind implements Event.
func (NodeAllocationReleased) EventKind() string { return "NodeAllocationReleased" }
func (NodeAllocationReleased) code() eventCode   { return codeNodeAllocationReleased }

func (ev NodeAllocationReleased) encode(e *encoder) {
	e.array(1)
	e.uuid(ev.Allocation)
}

func decodeNodeAllocationReleased(d *decoder) Event {
	d.exactly(1, "NodeAllocationReleased")
	return NodeAllocationReleased{Allocation: d.uuid()}
}

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

// NodeProvidersSet says whether nodes are resource providers, too: each with
// an inventory of one of its class, used while the node is taken.
type NodeProvidersSet struct {
	On bool `json:"on"`
}

// EventKind implements Event.
func (NodeProvidersSet) EventKind() string { return "NodeProvidersSet" }
func (NodeProvidersSet) code() eventCode   { return codeNodeProvidersSet }

func (ev NodeProvidersSet) encode(e *encoder) {
	e.array(1)
	e.bool(ev.On)
}

func decodeNodeProvidersSet(d *decoder) Event {
	d.exactly(1, "NodeProvidersSet")
	return NodeProvidersSet{On: d.bool()}
}

func (ev NodeProvidersSet) apply(s *State, _ moment) error {
	if s.nodeProviders == ev.On {
		return fmt.Errorf("%w: node providers set twice", ErrInvariant)
	}
	s.nodeProviders = ev.On
	return nil
}
