package commands

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// UpdateNode changes a node by a JSON Patch over NodeFields (Ironic's PATCH of
// nodes). Removing instance_uuid releases the node's allocation.
type UpdateNode struct {
	operatorsOnly `json:"-"`

	Node  ledger.UUID      `json:"node"`
	Patch []PatchOperation `json:"patch"`
}

func (c *UpdateNode) check() *demand.Rejection {
	return cmp.Or(checkUUID("node", c.Node), checkPatch(c.Patch))
}

// looseStates are the provision states in which a node's class may change and its
// instance may be removed.
var looseStates = []string{stateEnroll, "inspecting", "inspect wait", stateManageable, ledger.NodeAvailable}

const looseStatesText = "(enroll, inspecting, inspect wait, manageable, available) states"

func (c *UpdateNode) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	before, err := fieldsOf(n)
	if err != nil {
		return nil, demand.Invalid("details", "%v", err)
	}
	var after NodeFields
	if rejection := cmp.Or(applyPatch(c.Patch, before, &after), after.check()); rejection != nil {
		return nil, rejection
	}
	if rejection := after.settleFlags(n); rejection != nil {
		return nil, rejection
	}
	if deref(after.ParentNode) != deref(before.ParentNode) {
		if rejection := after.checkParent(s, n.UUID); rejection != nil {
			return nil, rejection
		}
	}
	if deref(after.ChassisUUID) != deref(before.ChassisUUID) {
		if rejection := after.checkChassis(s); rejection != nil {
			return nil, rejection
		}
	}
	if holder, taken := s.NodeNamed(deref(after.Name)); taken && holder != n.UUID {
		return nil, nodeExists("A node with name %s already exists.", *after.Name)
	}
	description, rejection := after.description()
	if rejection != nil {
		return nil, rejection
	}
	if rejection := checkDescription(s, n, &description); rejection != nil {
		return nil, rejection
	}
	var events []ledger.Event
	if description != n.NodeDescription {
		events = append(events, ledger.NodeDescribed{Node: n.UUID, Description: description})
	}
	if maintenance := deref(after.Maintenance); maintenance != n.Maintenance {
		events = append(events, maintenanceSet(n, maintenance, ""))
	}
	instance, rejection := changeInstance(s, n, deref(after.InstanceUUID))
	if rejection != nil {
		return nil, rejection
	}
	return withNodeProvider(s, n.UUID, append(events, instance...))
}

// checkDescription rejects changes of fields that an allocation relies on.
func checkDescription(s *ledger.State, n *ledger.Node, after *ledger.NodeDescription) *demand.Rejection {
	if after.ResourceClass != n.ResourceClass && !slices.Contains(looseStates, n.ProvisionState) {
		return nodeState(
			n, "Node %s can not have resource_class updated unless it is in one of allowed %s.", n.UUID, looseStatesText,
		)
	}
	if after.Owner != n.Owner && !n.Allocation.IsNil() {
		if a, ok := s.NodeAllocation(n.Allocation); ok && a.Owner != "" {
			return nodeState(n, "Cannot change owner of node %s while it is allocated to an allocation with an owner", n.UUID)
		}
	}
	if after.ResourceClass != n.ResourceClass && s.NodeProviders() && !n.Instance.IsNil() {
		return nodeState(
			n, "Node %s can not have resource_class updated while it is in use: its resource provider's inventory is", n.UUID,
		)
	}
	return nil
}

// changeInstance sets or removes the instance of a node.
func changeInstance(s *ledger.State, n *ledger.Node, instance ledger.UUID) ([]ledger.Event, *demand.Rejection) {
	switch {
	case instance == n.Instance:
		return nil, nil
	case instance.IsNil() && !n.Allocation.IsNil():
		if !n.Maintenance && !slices.Contains(looseStates, n.ProvisionState) {
			return nil, nodeState(
				n,
				"Node %s with an allocation can not have instance_uuid removed unless it is in one of allowed %s or in maintenance mode.",
				n.UUID, looseStatesText,
			)
		}
		return []ledger.Event{ledger.NodeAllocationReleased{Allocation: n.Allocation}}, nil
	case !instance.IsNil() && !n.Instance.IsNil():
		return nil, nodeAssociated(n)
	}
	if holder, taken := s.NodeOfInstance(instance); taken && holder != n.UUID && !instance.IsNil() {
		return nil, instanceAssociated(instance, n.UUID)
	}
	return []ledger.Event{ledger.NodeInstanceSet{Node: n.UUID, Instance: instance}}, nil
}

// nodeState makes a rejection because of a node's provision state.
func nodeState(n *ledger.Node, format string, args ...any) *demand.Rejection {
	id := n.UUID
	return demand.Refuse(demand.CodeNodeState, demand.Facts{Node: &id, State: n.ProvisionState}, format, args...)
}
