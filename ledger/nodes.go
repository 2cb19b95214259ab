package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger/ordered"
)

// Limits of nodes and node allocations, which are Ironic's.
const (
	MaxNodeNameBytes          = 255
	MaxNodeClassRunes         = 80
	MaxNodeTraits             = 50
	MaxCandidateNodes         = 10_000
	MaxRequestedTraits        = 1_000
	MaxLastErrorBytes         = 64 << 10
	MaxMaintenanceReasonBytes = 64 << 10
)

// NodeAvailable is the provision state in which nodes can be allocated.
const NodeAvailable = "available"

// Node is a bare metal machine as its operator declares it (Ironic's node).
// Values reached from a State or View are shared and must not be changed.
type Node struct {
	UUID   UUID
	Number uint64 // number in the order of creation
	NodeDescription

	// Instance is the instance that runs on the node; NilUUID: none. While the
	// node is allocated it is the allocation's uuid.
	Instance   UUID
	Allocation UUID // NilUUID: none

	ProvisionState    string
	PowerState        string // empty: unknown
	Maintenance       bool
	MaintenanceReason string
	Traits            []string // sorted

	CreatedAt          int64 // Unix nanoseconds
	UpdatedAt          int64 // Unix nanoseconds; 0: never changed
	ProvisionUpdatedAt int64 // Unix nanoseconds; 0: never changed
}

// NodeDescription holds the fields of a node that its operator sets.
type NodeDescription struct {
	Name          string   `json:"name,omitempty"` // unique; empty: none
	Driver        string   `json:"driver"`
	ResourceClass string   `json:"resource_class,omitempty"`
	Owner         string   `json:"owner,omitempty"`  // a project
	Lessee        string   `json:"lessee,omitempty"` // a project
	Protected     bool     `json:"protected,omitempty"`
	Properties    Document `json:"properties,omitzero"`
	Extra         Document `json:"extra,omitzero"`
	DriverInfo    Document `json:"driver_info,omitzero"` // without secrets
	InstanceInfo  Document `json:"instance_info,omitzero"`
	// Details are the other fields that Ironic's clients set, by their names in
	// Ironic. Allot only stores them.
	Details Document `json:"details,omitzero"`
}

// Free reports whether the node can be allocated: it meets Ironic's conditions
// except class, owner and traits, and is not retired.
func (n *Node) Free() bool {
	return n.ProvisionState == NodeAvailable && n.Instance.IsNil() && n.PowerState != "" && !n.Maintenance && !n.Retired()
}

// Retired reports whether the node's operator has declared it to be at the end of
// its life.
func (n *Node) Retired() bool {
	if !strings.Contains(string(n.Details), `"retired":true`) {
		return false // saves parsing the details of nearly all nodes
	}
	details, err := n.Details.Object()
	return err == nil && details["retired"] == true
}

// Parent returns the uuid of the node that this one is a part of; empty: none.
func (n *Node) Parent() string { return n.detail("parent_node") }

// Chassis returns the uuid of the chassis that the node is in; empty: none.
func (n *Node) Chassis() string { return n.detail("chassis_uuid") }

// detail returns a text from the node's details; empty: there is none.
func (n *Node) detail(key string) string {
	if !strings.Contains(string(n.Details), `"`+key+`":"`) {
		return "" // saves parsing the details of most nodes
	}
	details, err := n.Details.Object()
	if err != nil {
		return ""
	}
	text, _ := details[key].(string)
	return text
}

// HasTraits reports whether the node has all of the traits.
func (n *Node) HasTraits(names []string) bool {
	for _, name := range names {
		if _, found := slices.BinarySearch(n.Traits, name); !found {
			return false
		}
	}
	return true
}

// NodeAllocationState is the state of a node allocation.
type NodeAllocationState string

// The states of node allocations, in Ironic's words.
const (
	NodeAllocating       NodeAllocationState = "allocating"
	NodeAllocationActive NodeAllocationState = "active"
	NodeAllocationError  NodeAllocationState = "error"
)

// NodeAllocation is a request for one whole node of a class, and its outcome
// (Ironic's allocation). Values reached from a State or View are shared and must
// not be changed.
type NodeAllocation struct {
	UUID           UUID
	Number         uint64 // number in the order of creation
	Name           string // unique; empty: none
	ResourceClass  string
	Owner          string   // a project; empty: none
	Traits         []string // in the client's order
	CandidateNodes []UUID   // in the client's order; empty: any
	Extra          Document
	State          NodeAllocationState
	LastError      string
	Node           UUID  // NilUUID unless active
	CreatedAt      int64 // Unix nanoseconds
	UpdatedAt      int64 // Unix nanoseconds; 0: never changed
}

// NodeClass counts the nodes of one resource class.
type NodeClass struct {
	free ordered.Tree[entry[Node]]
	// The number of nodes, and the numbers of nodes that cannot be allocated, by
	// reason. A node may count for several reasons.
	Nodes, NotAvailable, Associated, NoPowerState, Maintenance, Retired int
}

// Free returns how many nodes can be allocated.
func (c *NodeClass) Free() int {
	if c == nil {
		return 0
	}
	return c.free.Len()
}

// FreeNode returns the ith free node in UUID order.
func (c *NodeClass) FreeNode(i int) *Node {
	entry, _ := c.free.GetAt(i)
	return entry.is
}

// FreeNodes calls yield for each free node in UUID order until it returns false.
func (c *NodeClass) FreeNodes(yield func(*Node) bool) {
	if c != nil {
		scan(c.free, yield)
	}
}

// NodeAfter returns a node as a list of events leaves it, or nil where it does
// not exist. The events must be about this node alone. Times are not updated.
func NodeAfter(n *Node, events []Event) *Node {
	for _, event := range events {
		switch ev := event.(type) {
		case NodeCreated:
			n = ev.node()
		case NodeImported:
			n = ev.node()
		case NodeDeleted:
			n = nil
		case nodeEdit:
			edited := *n
			ev.edit(&edited)
			n = &edited
		}
	}
	return n
}

type nodeEdit interface{ edit(*Node) }

type uuidEntry struct{ key, id UUID }

// Node finds a node.
func (s *State) Node(id UUID) (*Node, bool) { return find(s.nodes, id) }

// NodeNamed finds a node by its name.
func (s *State) NodeNamed(name string) (UUID, bool) {
	entry, ok := s.nodeNames.Get(nameEntry{name: name})
	return entry.id, ok && name != ""
}

// NodeOfInstance finds the node on which an instance runs.
func (s *State) NodeOfInstance(instance UUID) (UUID, bool) {
	entry, ok := s.instances.Get(uuidEntry{key: instance})
	return entry.id, ok
}

// Nodes calls yield for each node in UUID order until it returns false.
func (s *State) Nodes(yield func(*Node) bool) { scan(s.nodes, yield) }

// NodesOf returns the counts of a resource class of nodes; nil if there are no
// such nodes.
func (s *State) NodesOf(class string) *NodeClass { return s.nodeClasses[class] }

// HasNodeClass reports whether there are nodes of a class for which meant returns
// true.
func (s *State) HasNodeClass(meant func(class string) bool) bool {
	for class := range s.nodeClasses {
		if meant(class) {
			return true
		}
	}
	return false
}

// NodeAllocation finds a node allocation.
func (s *State) NodeAllocation(id UUID) (*NodeAllocation, bool) { return find(s.allocations, id) }

// NodeAllocationNamed finds a node allocation by its name.
func (s *State) NodeAllocationNamed(name string) (UUID, bool) {
	entry, ok := s.allocNames.Get(nameEntry{name: name})
	return entry.id, ok && name != ""
}

// NodeAllocations calls yield for each node allocation in UUID order until it
// returns false.
func (s *State) NodeAllocations(yield func(*NodeAllocation) bool) { scan(s.allocations, yield) }

// setNode updates the node tables from one version of a node to another; nil
// means that it does not exist.
func (s *State) setNode(before, after *Node) error {
	if after != nil {
		if holder, taken := s.NodeNamed(after.Name); taken && holder != after.UUID {
			return fmt.Errorf("%w: node name %q used twice", ErrInvariant, after.Name)
		}
		if holder, taken := s.NodeOfInstance(after.Instance); taken && holder != after.UUID && !after.Instance.IsNil() {
			return fmt.Errorf("%w: instance %s on two nodes", ErrInvariant, after.Instance)
		}
	}
	s.changes.Nodes = append(s.changes.Nodes, Change[Node]{Before: before, After: after})
	s.indexNode(before, after)
	return nil
}

func (s *State) indexNode(before, after *Node) {
	if before != nil {
		s.classifyNode(before, -1)
		s.nodes.Delete(entry[Node]{id: before.UUID})
		if before.Name != "" {
			s.nodeNames.Delete(nameEntry{name: before.Name})
		}
		if !before.Instance.IsNil() {
			s.instances.Delete(uuidEntry{key: before.Instance})
		}
	}
	if after != nil {
		s.classifyNode(after, 1)
		s.nodes.Set(entry[Node]{after.UUID, after})
		if after.Name != "" {
			s.nodeNames.Set(nameEntry{after.Name, after.UUID})
		}
		if !after.Instance.IsNil() {
			s.instances.Set(uuidEntry{after.Instance, after.UUID})
		}
	}
}

// classifyNode counts a node in its class, with sign +1 or -1.
func (s *State) classifyNode(n *Node, sign int) {
	class := s.nodeClasses[n.ResourceClass]
	if class == nil {
		class = &NodeClass{free: newTable[Node]()}
		s.nodeClasses[n.ResourceClass] = class
	}
	count := func(counter *int, counts bool) {
		if counts {
			*counter += sign
		}
	}
	count(&class.Nodes, true)
	count(&class.NotAvailable, n.ProvisionState != NodeAvailable)
	count(&class.Associated, !n.Instance.IsNil())
	count(&class.NoPowerState, n.PowerState == "")
	count(&class.Maintenance, n.Maintenance)
	count(&class.Retired, n.Retired())
	switch {
	case n.Free() && sign > 0:
		class.free.Set(entry[Node]{n.UUID, n})
	case n.Free():
		class.free.Delete(entry[Node]{id: n.UUID})
	}
	if class.Nodes == 0 {
		delete(s.nodeClasses, n.ResourceClass)
	}
}

func (s *State) setNodeAllocation(before, after *NodeAllocation) error {
	if after != nil {
		if holder, taken := s.NodeAllocationNamed(after.Name); taken && holder != after.UUID {
			return fmt.Errorf("%w: node allocation name %q used twice", ErrInvariant, after.Name)
		}
	}
	s.changes.NodeAllocations = append(s.changes.NodeAllocations, Change[NodeAllocation]{Before: before, After: after})
	s.indexNodeAllocation(before, after)
	return nil
}

func (s *State) indexNodeAllocation(before, after *NodeAllocation) {
	if before != nil {
		s.allocations.Delete(entry[NodeAllocation]{id: before.UUID})
		if before.Name != "" {
			s.allocNames.Delete(nameEntry{name: before.Name})
		}
	}
	if after != nil {
		s.allocations.Set(entry[NodeAllocation]{after.UUID, after})
		if after.Name != "" {
			s.allocNames.Set(nameEntry{after.Name, after.UUID})
		}
	}
}
