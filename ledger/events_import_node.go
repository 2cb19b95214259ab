package ledger

import (
	"fmt"
	"slices"
)

// ChassisImported is ChassisCreated for a chassis of the source of an import. Its
// times are those of the source.
type ChassisImported struct {
	ChassisCreated
	CreatedAt int64  `json:"created_at"` // Unix nanoseconds
	UpdatedAt int64  `json:"updated_at"` // Unix nanoseconds; 0: never changed
	Origin    string `json:"origin"`     // the row in the source
}

func (ev *ChassisImported) form(c *coder) {
	c.eventFields(4)
	ev.ChassisCreated.form(c)
	c.int(&ev.CreatedAt).int(&ev.UpdatedAt).text(&ev.Origin)
}

func (ev ChassisImported) apply(s *State, at moment) error {
	if err := validChange(ev.CreatedAt, ev.UpdatedAt, at); err != nil {
		return err
	}
	return s.addChassis(&Chassis{
		UUID: ev.Chassis, ChassisDescription: ev.Description, CreatedAt: ev.CreatedAt, UpdatedAt: ev.UpdatedAt,
	}, "imported")
}

// validChange is validTimes for entities that may never have changed.
func validChange(created, updated int64, at moment) error {
	if updated == 0 {
		updated = created
	}
	return validTimes(created, updated, at)
}

// NodeImported states that a node exists as it was in the source of an import. The
// events about nodes cannot say so: their times are those of their records.
type NodeImported struct {
	Node               UUID            `json:"node"`
	Description        NodeDescription `json:"description"`
	ProvisionState     string          `json:"provision_state"`
	PowerState         string          `json:"power_state,omitempty"` // absent: unknown
	Maintenance        bool            `json:"maintenance,omitempty"`
	MaintenanceReason  string          `json:"maintenance_reason,omitempty"`
	Traits             []string        `json:"traits,omitempty"`     // sorted, without duplicates
	Instance           UUID            `json:"instance,omitzero"`    // absent: none
	CreatedAt          int64           `json:"created_at"`           // Unix nanoseconds
	UpdatedAt          int64           `json:"updated_at"`           // Unix nanoseconds; 0: never changed
	ProvisionUpdatedAt int64           `json:"provision_updated_at"` // Unix nanoseconds; 0: never changed
	Origin             string          `json:"origin"`               // the row in the source
}

func (ev NodeImported) topic() Topic { return Topic{OfNode, ev.Node} }

func (ev *NodeImported) form(c *coder) {
	c.eventFields(12).uuid(&ev.Node)
	ev.Description.form(c)
	c.text(&ev.ProvisionState).text(&ev.PowerState).bool(&ev.Maintenance)
	c.text(&ev.MaintenanceReason).strings(&ev.Traits).uuid(&ev.Instance)
	c.int(&ev.CreatedAt).int(&ev.UpdatedAt).int(&ev.ProvisionUpdatedAt)
	c.text(&ev.Origin)
}

func (ev NodeImported) apply(s *State, at moment) error {
	if err := validChange(ev.CreatedAt, max(ev.UpdatedAt, ev.ProvisionUpdatedAt), at); err != nil {
		return err
	}
	if !slices.IsSorted(ev.Traits) {
		return fmt.Errorf("%w: traits of node %s are not sorted", ErrInvariant, ev.Node)
	}
	return s.addNode(ev.node(), "imported")
}

func (ev NodeImported) node() *Node {
	return &Node{
		UUID: ev.Node, NodeDescription: ev.Description, ProvisionState: ev.ProvisionState, PowerState: ev.PowerState,
		Maintenance: ev.Maintenance, MaintenanceReason: ev.MaintenanceReason, Traits: ev.Traits, Instance: ev.Instance,
		CreatedAt: ev.CreatedAt, UpdatedAt: ev.UpdatedAt, ProvisionUpdatedAt: ev.ProvisionUpdatedAt,
	}
}

// NodeAllocationImported is AllocationRequested for a node allocation of the source
// of an import, with what had come of it there. If it has a node, the node's
// instance is the allocation from then on; the node's times stay.
type NodeAllocationImported struct {
	AllocationRequested
	State     NodeAllocationState `json:"state"`
	LastError string              `json:"last_error,omitempty"`
	Node      UUID                `json:"node,omitzero"` // absent unless active
	CreatedAt int64               `json:"created_at"`    // Unix nanoseconds
	UpdatedAt int64               `json:"updated_at"`    // Unix nanoseconds; 0: never changed
	Origin    string              `json:"origin"`        // the row in the source
}

func (ev *NodeAllocationImported) form(c *coder) {
	c.eventFields(7)
	ev.AllocationRequested.form(c)
	c.text((*string)(&ev.State)).text(&ev.LastError).uuid(&ev.Node).int(&ev.CreatedAt).int(&ev.UpdatedAt)
	c.text(&ev.Origin)
}

func (ev NodeAllocationImported) apply(s *State, at moment) error {
	if err := validChange(ev.CreatedAt, ev.UpdatedAt, at); err != nil {
		return err
	}
	switch ev.State {
	case NodeAllocating, NodeAllocationActive, NodeAllocationError:
	default:
		return fmt.Errorf("%w: node allocation %s is in the state %q", ErrInvariant, ev.Allocation, ev.State)
	}
	if (ev.State == NodeAllocationActive) == ev.Node.IsNil() {
		return fmt.Errorf("%w: node allocation %s is %s, and has the node %s", ErrInvariant, ev.Allocation, ev.State, ev.Node)
	}
	if !ev.Node.IsNil() {
		if err := ev.take(s); err != nil {
			return err
		}
	}
	a := ev.allocation()
	a.State, a.LastError, a.Node, a.CreatedAt, a.UpdatedAt = ev.State, ev.LastError, ev.Node, ev.CreatedAt, ev.UpdatedAt
	return s.addNodeAllocation(a, "imported")
}

func (ev NodeAllocationImported) take(s *State) error {
	before, exists := s.Node(ev.Node)
	if !exists || !before.Allocation.IsNil() || !before.Instance.IsNil() && before.Instance != ev.Allocation {
		return fmt.Errorf("%w: node %s is taken, or does not exist", ErrInvariant, ev.Node)
	}
	after := *before
	ev.edit(&after)
	return s.setNode(before, &after)
}

func (ev NodeAllocationImported) edit(n *Node) {
	if !ev.Node.IsNil() {
		n.Instance, n.Allocation = ev.Allocation, ev.Allocation
	}
}
