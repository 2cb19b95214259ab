package commands

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

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
	rejection := cmp.Or(
		fields.checkNew(c.Node, created.ProvisionState), fields.checkParent(s, c.Node), fields.checkChassis(s),
	)
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
	var rejection *demand.Rejection
	if deref(after.ParentNode) != deref(before.ParentNode) {
		rejection = after.checkParent(s, n.UUID)
	}
	if rejection == nil && deref(after.ChassisUUID) != deref(before.ChassisUUID) {
		rejection = after.checkChassis(s)
	}
	if rejection != nil {
		return nil, rejection
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

func nodeState(n *ledger.Node, format string, args ...any) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeState, demand.Facts{Node: &n.UUID, State: n.ProvisionState}, format, args...)
}

// DeleteNode removes a node. No instance may run on it unless it is in
// maintenance; an allocation of the node is then removed, too.
type DeleteNode struct {
	operatorsOnly `json:"-"`

	Node ledger.UUID `json:"node"`
}

func (c *DeleteNode) check() *demand.Rejection { return checkUUID("node", c.Node) }

// deletableStates are the provision states in which a node can be deleted.
var deletableStates = []string{stateEnroll, stateManageable, "adopt failed", ledger.NodeAvailable}

func (c *DeleteNode) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	switch {
	case !ok:
		return nil, nodeNotFound(c.Node)
	case n.Protected:
		return nil, nodeProtected(n)
	case !n.Maintenance && !n.Instance.IsNil():
		return nil, nodeAssociated(n)
	case !n.Maintenance && !slices.Contains(deletableStates, n.ProvisionState):
		return nil, nodeState(n,
			"Can not delete node \"%s\" while it is in provision state \"%s\". Valid provision states to perform deletion are: %s.",
			n.UUID, n.ProvisionState, strings.Join(deletableStates, ", "))
	}
	var events []ledger.Event
	if !n.Allocation.IsNil() {
		events = append(events, ledger.NodeAllocationReleased{Allocation: n.Allocation})
	}
	return withNodeProvider(s, n.UUID, append(events, ledger.NodeDeleted{Node: n.UUID}))
}

func nodeProtected(n *ledger.Node) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeProtected, demand.Facts{Node: &n.UUID},
		"Node %s is protected and can not be undeployed, rebuilt or deleted", n.UUID)
}

// Provision states and power states, in Ironic's words.
const (
	stateEnroll     = "enroll"
	stateManageable = "manageable"
	stateActive     = "active"

	powerOn  = "power on"
	powerOff = "power off"
)

// provisionVerb is a step that an operator declares for a node.
type provisionVerb struct {
	from      []string
	to        string
	protected bool // refused for protected nodes
	deploys   bool // refused for nodes in maintenance
	undeploys bool
}

var (
	deploy   = provisionVerb{from: []string{ledger.NodeAvailable}, to: stateActive, deploys: true}
	undeploy = provisionVerb{from: []string{stateActive}, to: ledger.NodeAvailable, protected: true, undeploys: true}
)

var provisionVerbs = map[string]provisionVerb{
	"manage":   {from: []string{stateEnroll, ledger.NodeAvailable}, to: stateManageable},
	"provide":  {from: []string{stateManageable}, to: ledger.NodeAvailable},
	"adopt":    {from: []string{stateManageable}, to: stateActive},
	"active":   deploy,
	"deploy":   deploy,
	"rebuild":  {from: []string{stateActive}, to: stateActive, protected: true, deploys: true},
	"deleted":  undeploy,
	"undeploy": undeploy,
}

// SetNodeProvisionState declares a step of a node's life, by Ironic's verbs:
// manage, provide, active (or deploy), rebuild, deleted (or undeploy), adopt. It
// takes effect at once, because no hardware is contacted. The first manage sets
// the power state to off if it was unknown. Undeploying releases the node's
// allocation, and makes a retired node manageable.
type SetNodeProvisionState struct {
	operatorsOnly `json:"-"`

	Node   ledger.UUID `json:"node"`
	Target string      `json:"target"`
}

func (c *SetNodeProvisionState) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *SetNodeProvisionState) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	verb, known := provisionVerbs[c.Target]
	switch {
	case !known || !slices.Contains(verb.from, n.ProvisionState):
		return nil, badAction(n, c.Target)
	case verb.protected && n.Protected:
		return nil, nodeProtected(n)
	case verb.to == ledger.NodeAvailable && !verb.undeploys && n.Retired():
		return nil, demand.Refuse(demand.CodeNodeRetired, demand.Facts{Node: &n.UUID, State: n.ProvisionState},
			"The %s operation can't be performed on node %s because it is retired.", c.Target, n.UUID)
	case verb.deploys && n.Maintenance:
		return nil, demand.Refuse(demand.CodeNodeMaintenance, demand.Facts{Node: &n.UUID, State: n.ProvisionState},
			"The provisioning operation can't be performed on node %s because it's in maintenance mode.", n.UUID)
	}
	state := stateOf(n)
	state.ProvisionState = verb.to
	if verb.undeploys && n.Retired() {
		state.ProvisionState = stateManageable // A retired node is never available.
	}
	if state.PowerState == "" {
		state.PowerState = powerOff
	}
	events := []ledger.Event{state}
	if verb.undeploys {
		events = append(undeployed(n), events...)
	}
	return withNodeProvider(s, n.UUID, events)
}

// undeployed returns the events that remove a node's instance and its allocation.
func undeployed(n *ledger.Node) []ledger.Event {
	var events []ledger.Event
	switch {
	case !n.Allocation.IsNil():
		events = append(events, ledger.NodeAllocationReleased{Allocation: n.Allocation})
	case !n.Instance.IsNil():
		events = append(events, ledger.NodeInstanceSet{Node: n.UUID})
	}
	if n.InstanceInfo != "" {
		description := n.NodeDescription
		description.InstanceInfo = ""
		events = append(events, ledger.NodeDescribed{Node: n.UUID, Description: description})
	}
	return events
}

func badAction(n *ledger.Node, action string) *demand.Rejection {
	return demand.Refuse(demand.CodeNodeAction, demand.Facts{Node: &n.UUID, Name: action, State: n.ProvisionState},
		"The requested action \"%s\" can not be performed on node \"%s\" while it is in state \"%s\".",
		action, n.UUID, n.ProvisionState)
}

func stateOf(n *ledger.Node) ledger.NodeStateSet {
	return ledger.NodeStateSet{
		Node: n.UUID, ProvisionState: n.ProvisionState, PowerState: n.PowerState,
		Maintenance: n.Maintenance, MaintenanceReason: n.MaintenanceReason,
	}
}

// SetNodePowerState declares a node's power: "power on", "power off",
// "rebooting", "soft power off" or "soft rebooting". No hardware is contacted.
type SetNodePowerState struct {
	operatorsOnly `json:"-"`

	Node   ledger.UUID `json:"node"`
	Target string      `json:"target"`
}

func (c *SetNodePowerState) check() *demand.Rejection { return checkUUID("node", c.Node) }

var powerTargets = map[string]string{
	powerOn: powerOn, powerOff: powerOff, "rebooting": powerOn, "soft power off": powerOff, "soft rebooting": powerOn,
}

func (c *SetNodePowerState) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	target, known := powerTargets[c.Target]
	if !known {
		return nil, badAction(n, c.Target)
	}
	if n.PowerState == target {
		return nil, nil
	}
	state := stateOf(n)
	state.PowerState = target
	return withNodeProvider(s, n.UUID, []ledger.Event{state})
}

// SetNodeMaintenance takes a node out of service or puts it back. A node in
// maintenance is not allocated, and its allocation can be removed even while the
// node is active.
type SetNodeMaintenance struct {
	operatorsOnly `json:"-"`

	Node        ledger.UUID `json:"node"`
	Maintenance bool        `json:"maintenance"`
	Reason      string      `json:"reason,omitempty"`
}

func (c *SetNodeMaintenance) check() *demand.Rejection {
	if len(c.Reason) > ledger.MaxMaintenanceReasonBytes || !utf8.ValidString(c.Reason) {
		return demand.Invalid("reason", "takes at most %d bytes of valid UTF-8", ledger.MaxMaintenanceReasonBytes)
	}
	return checkUUID("node", c.Node)
}

func (c *SetNodeMaintenance) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	after := maintenanceSet(n, c.Maintenance, c.Reason)
	if after == stateOf(n) {
		return nil, nil
	}
	return withNodeProvider(s, n.UUID, []ledger.Event{after})
}

func maintenanceSet(n *ledger.Node, maintenance bool, reason string) ledger.NodeStateSet {
	state := stateOf(n)
	state.Maintenance, state.MaintenanceReason = maintenance, reason
	if !maintenance {
		state.MaintenanceReason = ""
	}
	return state
}

// ReplaceNodeTraits sets all traits of a node.
type ReplaceNodeTraits struct {
	operatorsOnly `json:"-"`

	Node   ledger.UUID `json:"node"`
	Traits []string    `json:"traits"` // at most 50
}

func (c *ReplaceNodeTraits) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *ReplaceNodeTraits) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	return replaceNodeTraits(s, n, c.Traits)
}

func replaceNodeTraits(s *ledger.State, n *ledger.Node, traits []string) ([]ledger.Event, *demand.Rejection) {
	if rejection := checkTraits(s, "traits", traits); rejection != nil {
		return nil, rejection
	}
	traits = slices.Clone(traits)
	slices.Sort(traits)
	traits = slices.Compact(traits)
	if len(traits) > ledger.MaxNodeTraits {
		return nil, demand.Refuse(demand.CodeInvalid, demand.Facts{Field: "traits", Node: &n.UUID},
			"traits: Node %s can have at most %d traits, not %d", n.UUID, ledger.MaxNodeTraits, len(traits))
	}
	if slices.Equal(traits, n.Traits) {
		return nil, nil
	}
	return withNodeProvider(s, n.UUID, []ledger.Event{ledger.NodeTraitsReplaced{Node: n.UUID, Traits: traits}})
}

// AddNodeTrait adds a trait to a node.
type AddNodeTrait struct {
	operatorsOnly `json:"-"`

	Node  ledger.UUID `json:"node"`
	Trait string      `json:"trait"`
}

func (c *AddNodeTrait) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *AddNodeTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	return replaceNodeTraits(s, n, append(slices.Clone(n.Traits), c.Trait))
}

// RemoveNodeTrait removes a trait from a node.
type RemoveNodeTrait struct {
	operatorsOnly `json:"-"`

	Node  ledger.UUID `json:"node"`
	Trait string      `json:"trait"`
}

func (c *RemoveNodeTrait) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *RemoveNodeTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	i, has := slices.BinarySearch(n.Traits, c.Trait)
	if !has {
		return nil, demand.Refuse(demand.CodeNodeTraitNotFound, demand.Facts{Node: &c.Node, Name: c.Trait},
			"Node %s doesn't have a trait '%s'", n.UUID, c.Trait)
	}
	return replaceNodeTraits(s, n, slices.Delete(slices.Clone(n.Traits), i, i+1))
}
