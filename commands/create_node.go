package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// CreateNode makes a node. It cannot be allocated before it is made available
// (see SetNodeProvisionState).
type CreateNode struct {
	operatorsOnly `json:"-"`

	Node ledger.UUID `json:"node"`
	NodeFields
	// ProvisionState is enroll, which is the default, or available, which is the
	// first state below Ironic's 1.11.
	ProvisionState string `json:"provision_state,omitempty"`
}

func (*CreateNode) consumers() []ledger.UUID { return nil }

func (c *CreateNode) check() *demand.Rejection {
	switch c.ProvisionState {
	case "", stateEnroll, ledger.NodeAvailable:
	default:
		return demand.Invalid("provision_state", "%q is neither %s nor %s",
			c.ProvisionState, stateEnroll, ledger.NodeAvailable)
	}
	return cmp.Or(checkUUID("node", c.Node), c.NodeFields.check())
}

func (c *CreateNode) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Node(c.Node); exists {
		return nil, nodeExists("A node with UUID %s already exists.", c.Node.String())
	}
	if _, taken := s.NodeNamed(deref(c.Name)); taken {
		return nil, nodeExists("A node with name %s already exists.", *c.Name)
	}
	created := ledger.NodeCreated{Node: c.Node, ProvisionState: c.ProvisionState}
	if created.ProvisionState == "" {
		created.ProvisionState = stateEnroll
	}
	fields := c.NodeFields
	rejection := cmp.Or(fields.checkNew(created.ProvisionState), fields.checkParent(s, c.Node), fields.checkChassis(s))
	if rejection != nil {
		return nil, rejection
	}
	if created.Description, rejection = fields.description(); rejection != nil {
		return nil, rejection
	}
	events := []ledger.Event{created}
	if instance := deref(c.InstanceUUID); !instance.IsNil() {
		if _, taken := s.NodeOfInstance(instance); taken {
			return nil, instanceAssociated(instance, c.Node)
		}
		events = append(events, ledger.NodeInstanceSet{Node: c.Node, Instance: instance})
	}
	if deref(c.Maintenance) {
		events = append(events, ledger.NodeStateSet{Node: c.Node, ProvisionState: created.ProvisionState, Maintenance: true})
	}
	return withNodeProvider(s, c.Node, events)
}
