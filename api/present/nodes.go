package present

import (
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Node returns everything about a bare metal node; nil if it does not exist.
func Node(v projector.View, id ledger.UUID) (*wire.Node, error) {
	n, found, err := v.Node(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.Node{
		Node: n.UUID, NodeDescription: n.NodeDescription, ProvisionState: n.ProvisionState, PowerState: n.PowerState,
		Maintenance: n.Maintenance, MaintenanceReason: n.MaintenanceReason, Traits: append([]string{}, n.Traits...),
		Instance: uuidOrNil(n.Instance), Allocation: uuidOrNil(n.Allocation), Since: rfc3339(n.CreatedAt),
	}
	if n.UpdatedAt > 0 {
		a.Changed = rfc3339(n.UpdatedAt)
	}
	return a, nil
}

// NodeAllocation returns a node allocation; nil if it does not exist.
func NodeAllocation(v projector.View, id ledger.UUID) (*wire.NodeAllocation, error) {
	n, found, err := v.NodeAllocation(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.NodeAllocation{
		Allocation: n.UUID, Name: n.Name, ResourceClass: n.ResourceClass, Owner: n.Owner, Extra: n.Extra,
		Traits: append([]string{}, n.Traits...), CandidateNodes: append([]ledger.UUID{}, n.CandidateNodes...),
		State: string(n.State), LastError: n.LastError, Node: uuidOrNil(n.Node), Since: rfc3339(n.CreatedAt),
	}
	if n.UpdatedAt > 0 {
		a.Changed = rfc3339(n.UpdatedAt)
	}
	return a, nil
}

// Chassis returns a chassis; nil if it does not exist.
func Chassis(v projector.View, id ledger.UUID) (*wire.Chassis, error) {
	c, found, err := v.Chassis(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.Chassis{Chassis: c.UUID, ChassisDescription: c.ChassisDescription, Since: rfc3339(c.CreatedAt)}
	if c.UpdatedAt > 0 {
		a.Changed = rfc3339(c.UpdatedAt)
	}
	return a, nil
}

func uuidOrNil(id ledger.UUID) *ledger.UUID {
	if id.IsNil() {
		return nil
	}
	return &id
}
