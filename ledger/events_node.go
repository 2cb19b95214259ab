package ledger

import (
	"fmt"
	"slices"
)

func encodeNodeDescription(e *encoder, d NodeDescription) {
	e.array(11)
	for _, text := range []string{d.Name, d.Driver, d.ResourceClass, d.Owner, d.Lessee} {
		e.string(text)
	}
	e.bool(d.Protected)
	for _, doc := range []Document{d.Properties, d.Extra, d.DriverInfo, d.InstanceInfo, d.Details} {
		e.string(string(doc))
	}
}

func decodeNodeDescription(d *decoder) NodeDescription {
	d.exactly(11, "node description")
	return NodeDescription{
		Name: d.string(), Driver: d.string(), ResourceClass: d.string(), Owner: d.string(), Lessee: d.string(),
		Protected:  d.bool(),
		Properties: d.document(), Extra: d.document(), DriverInfo: d.document(), InstanceInfo: d.document(), Details: d.document(),
	}
}

// editNode changes a copy of a node and puts it in the node's place.
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

// NodeCreated says that a node exists, not yet with traits or a power state.
type NodeCreated struct {
	Node           UUID            `json:"node"`
	Description    NodeDescription `json:"description"`
	ProvisionState string          `json:"provision_state"`
}

// EventKind implements Event.
func (NodeCreated) EventKind() string { return "NodeCreated" }
func (NodeCreated) code() eventCode   { return codeNodeCreated }

func (ev NodeCreated) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Node)
	encodeNodeDescription(e, ev.Description)
	e.string(ev.ProvisionState)
}

func decodeNodeCreated(d *decoder) Event {
	d.exactly(3, "NodeCreated")
	return NodeCreated{Node: d.uuid(), Description: decodeNodeDescription(d), ProvisionState: d.string()}
}

func (ev NodeCreated) apply(s *State, at moment) error {
	if _, exists := s.Node(ev.Node); exists || ev.Node.IsNil() || ev.ProvisionState == "" {
		return fmt.Errorf("%w: node %s cannot be created", ErrInvariant, ev.Node)
	}
	s.numbers++
	n := ev.node()
	n.Number, n.CreatedAt = s.numbers, at.time
	return s.setNode(nil, n)
}

func (ev NodeCreated) node() *Node {
	return &Node{UUID: ev.Node, NodeDescription: ev.Description, ProvisionState: ev.ProvisionState}
}

// NodeDescribed says what a node's operator says about it, all of it.
type NodeDescribed struct {
	Node        UUID            `json:"node"`
	Description NodeDescription `json:"description"`
}

// EventKind implements Event.
func (NodeDescribed) EventKind() string { return "NodeDescribed" }
func (NodeDescribed) code() eventCode   { return codeNodeDescribed }

func (ev NodeDescribed) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Node)
	encodeNodeDescription(e, ev.Description)
}

func decodeNodeDescribed(d *decoder) Event {
	d.exactly(2, "NodeDescribed")
	return NodeDescribed{Node: d.uuid(), Description: decodeNodeDescription(d)}
}

func (ev NodeDescribed) apply(s *State, at moment) error {
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeDescribed) edit(n *Node) { n.NodeDescription = ev.Description }

// NodeStateSet says in which provision and power state a node is and whether
// it is in maintenance.
type NodeStateSet struct {
	Node              UUID   `json:"node"`
	ProvisionState    string `json:"provision_state"`
	PowerState        string `json:"power_state,omitempty"` // absent: not known
	Maintenance       bool   `json:"maintenance,omitempty"`
	MaintenanceReason string `json:"maintenance_reason,omitempty"`
}

// EventKind implements Event.
func (NodeStateSet) EventKind() string { return "NodeStateSet" }
func (NodeStateSet) code() eventCode   { return codeNodeStateSet }

func (ev NodeStateSet) encode(e *encoder) {
	e.array(5)
	e.uuid(ev.Node)
	e.string(ev.ProvisionState)
	e.string(ev.PowerState)
	e.bool(ev.Maintenance)
	e.string(ev.MaintenanceReason)
}

func decodeNodeStateSet(d *decoder) Event {
	d.exactly(5, "NodeStateSet")
	return NodeStateSet{
		Node: d.uuid(), ProvisionState: d.string(), PowerState: d.string(),
		Maintenance: d.bool(), MaintenanceReason: d.string(),
	}
}

func (ev NodeStateSet) apply(s *State, at moment) error {
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeStateSet) edit(n *Node) {
	n.ProvisionState, n.PowerState = ev.ProvisionState, ev.PowerState
	n.Maintenance, n.MaintenanceReason = ev.Maintenance, ev.MaintenanceReason
}

// NodeTraitsReplaced says which traits a node has.
type NodeTraitsReplaced struct {
	Node   UUID     `json:"node"`
	Traits []string `json:"traits"` // sorted, without duplicates
}

// EventKind implements Event.
func (NodeTraitsReplaced) EventKind() string { return "NodeTraitsReplaced" }
func (NodeTraitsReplaced) code() eventCode   { return codeNodeTraitsReplaced }

func (ev NodeTraitsReplaced) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Node)
	e.strings(ev.Traits)
}

func decodeNodeTraitsReplaced(d *decoder) Event {
	d.exactly(2, "NodeTraitsReplaced")
	return NodeTraitsReplaced{Node: d.uuid(), Traits: d.strings()}
}

func (ev NodeTraitsReplaced) apply(s *State, at moment) error {
	if !slices.IsSorted(ev.Traits) {
		return fmt.Errorf("%w: traits of node %s are not sorted", ErrInvariant, ev.Node)
	}
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeTraitsReplaced) edit(n *Node) { n.Traits = ev.Traits }

// NodeInstanceSet says which instance runs on a node without an allocation.
type NodeInstanceSet struct {
	Node     UUID `json:"node"`
	Instance UUID `json:"instance,omitzero"` // absent: none
}

// EventKind implements Event.
func (NodeInstanceSet) EventKind() string { return "NodeInstanceSet" }
func (NodeInstanceSet) code() eventCode   { return codeNodeInstanceSet }

func (ev NodeInstanceSet) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Node)
	e.uuid(ev.Instance)
}

func decodeNodeInstanceSet(d *decoder) Event {
	d.exactly(2, "NodeInstanceSet")
	return NodeInstanceSet{Node: d.uuid(), Instance: d.uuid()}
}

func (ev NodeInstanceSet) apply(s *State, at moment) error {
	if n, ok := s.Node(ev.Node); ok && !n.Allocation.IsNil() {
		return fmt.Errorf("%w: node %s is allocated", ErrInvariant, ev.Node)
	}
	return s.editNode(ev.Node, at, ev.edit)
}

func (ev NodeInstanceSet) edit(n *Node) { n.Instance = ev.Instance }

// NodeDeleted says that a node, which had no allocation, is gone.
type NodeDeleted struct {
	Node UUID `json:"node"`
}

// EventKind implements Event.
func (NodeDeleted) EventKind() string { return "NodeDeleted" }
func (NodeDeleted) code() eventCode   { return codeNodeDeleted }

func (ev NodeDeleted) encode(e *encoder) {
	e.array(1)
	e.uuid(ev.Node)
}

func decodeNodeDeleted(d *decoder) Event {
	d.exactly(1, "NodeDeleted")
	return NodeDeleted{Node: d.uuid()}
}

func (ev NodeDeleted) apply(s *State, _ moment) error {
	before, ok := s.Node(ev.Node)
	if !ok || !before.Allocation.IsNil() {
		return fmt.Errorf("%w: node %s cannot go", ErrInvariant, ev.Node)
	}
	return s.setNode(before, nil)
}
