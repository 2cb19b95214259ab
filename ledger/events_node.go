package ledger

import (
	"fmt"
	"slices"
)

func (n *NodeDescription) form(c *coder) {
	c.fields("node description", 11).text(&n.Name).text(&n.Driver).text(&n.ResourceClass).text(&n.Owner).text(&n.Lessee)
	c.bool(&n.Protected).document(&n.Properties).document(&n.Extra)
	c.document(&n.DriverInfo).document(&n.InstanceInfo).document(&n.Details)
}

// editNode replaces a node by a changed copy.
func (s *State) editNode(id UUID, at moment, edit func(*Node)) error {
	before, ok := s.Node(id)
	if !ok {
		return fmt.Errorf("%w: no node %s", ErrInvariant, id)
	}
	after := *before
	after.UpdatedAt = at.time
	edit(&after)
	if after.ProvisionState != before.ProvisionState {
		after.ProvisionUpdatedAt = at.time
	}
	return s.setNode(before, &after)
}

// NodeCreated states that a node exists. It has no traits and no power state yet.
type NodeCreated struct {
	Node           UUID            `json:"node"`
	Description    NodeDescription `json:"description"`
	ProvisionState string          `json:"provision_state"`
}

func (ev NodeCreated) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeCreated) form(c *coder) {
	c.eventFields(3).uuid(&ev.Node)
	ev.Description.form(c)
	c.text(&ev.ProvisionState)
}

func (ev NodeCreated) apply(s *State, at moment) error {
	n := ev.node()
	n.CreatedAt = at.time
	return s.addNode(n, "created")
}

// addNode adds a node, and numbers it.
func (s *State) addNode(n *Node, how string) error {
	if _, exists := s.Node(n.UUID); exists || n.UUID.IsNil() || n.ProvisionState == "" {
		return fmt.Errorf("%w: node %s cannot be %s", ErrInvariant, n.UUID, how)
	}
	s.numbers++
	n.Number = s.numbers
	return s.setNode(nil, n)
}

func (ev NodeCreated) node() *Node {
	return &Node{UUID: ev.Node, NodeDescription: ev.Description, ProvisionState: ev.ProvisionState}
}

// NodeDescribed states all fields of a node that its operator sets.
type NodeDescribed struct {
	Node        UUID            `json:"node"`
	Description NodeDescription `json:"description"`
}

func (ev NodeDescribed) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeDescribed) form(c *coder) {
	c.eventFields(2).uuid(&ev.Node)
	ev.Description.form(c)
}

func (ev NodeDescribed) apply(s *State, at moment) error { return s.editNode(ev.Node, at, ev.edit) }

func (ev NodeDescribed) edit(n *Node) { n.NodeDescription = ev.Description }

// NodeStateSet states a node's provision state, power state and maintenance.
type NodeStateSet struct {
	Node              UUID   `json:"node"`
	ProvisionState    string `json:"provision_state"`
	PowerState        string `json:"power_state,omitempty"` // absent: unknown
	Maintenance       bool   `json:"maintenance,omitempty"`
	MaintenanceReason string `json:"maintenance_reason,omitempty"`
}

func (ev NodeStateSet) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeStateSet) form(c *coder) {
	c.eventFields(5).uuid(&ev.Node).text(&ev.ProvisionState).text(&ev.PowerState).bool(&ev.Maintenance)
	c.text(&ev.MaintenanceReason)
}

func (ev NodeStateSet) apply(s *State, at moment) error { return s.editNode(ev.Node, at, ev.edit) }

func (ev NodeStateSet) edit(n *Node) {
	n.ProvisionState, n.PowerState = ev.ProvisionState, ev.PowerState
	n.Maintenance, n.MaintenanceReason = ev.Maintenance, ev.MaintenanceReason
}

// NodeTraitsReplaced states all traits of a node.
type NodeTraitsReplaced struct {
	Node   UUID     `json:"node"`
	Traits []string `json:"traits"` // sorted, without duplicates
}

func (ev NodeTraitsReplaced) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeTraitsReplaced) form(c *coder) { c.eventFields(2).uuid(&ev.Node).strings(&ev.Traits) }

func (ev NodeTraitsReplaced) apply(s *State, at moment) error {
	if !slices.IsSorted(ev.Traits) {
		return fmt.Errorf("%w: traits of node %s are not sorted", ErrInvariant, ev.Node)
	}
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeTraitsReplaced) edit(n *Node) { n.Traits = ev.Traits }

// NodeInstanceSet states the instance of a node that has no allocation.
type NodeInstanceSet struct {
	Node     UUID `json:"node"`
	Instance UUID `json:"instance,omitzero"` // absent: none
}

func (ev NodeInstanceSet) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeInstanceSet) form(c *coder) { c.eventFields(2).uuid(&ev.Node).uuid(&ev.Instance) }

func (ev NodeInstanceSet) apply(s *State, at moment) error {
	if n, ok := s.Node(ev.Node); ok && !n.Allocation.IsNil() {
		return fmt.Errorf("%w: node %s is allocated", ErrInvariant, ev.Node)
	}
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeInstanceSet) edit(n *Node) { n.Instance = ev.Instance }

// NodeDeleted states that a node is gone. It had no allocation.
type NodeDeleted struct {
	Node UUID `json:"node"`
}

func (ev NodeDeleted) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeDeleted) form(c *coder) { c.eventFields(1).uuid(&ev.Node) }

func (ev NodeDeleted) apply(s *State, _ moment) error {
	before, ok := s.Node(ev.Node)
	if !ok || !before.Allocation.IsNil() {
		return fmt.Errorf("%w: node %s cannot go", ErrInvariant, ev.Node)
	}
	return s.setNode(before, nil)
}
