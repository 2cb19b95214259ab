package commands

import (
	"slices"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
		id := n.UUID
		return nil, demand.Refuse(
			demand.CodeNodeRetired, demand.Facts{Node: &id, State: n.ProvisionState},
			"The %s operation can't be performed on node %s because it is retired.", c.Target, id,
		)
	case verb.deploys && n.Maintenance:
		id := n.UUID
		return nil, demand.Refuse(
			demand.CodeNodeMaintenance, demand.Facts{Node: &id, State: n.ProvisionState},
			"The provisioning operation can't be performed on node %s because it's in maintenance mode.", id,
		)
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
	id := n.UUID
	return demand.Refuse(
		demand.CodeNodeAction, demand.Facts{Node: &id, Name: action, State: n.ProvisionState},
		"The requested action \"%s\" can not be performed on node \"%s\" while it is in state \"%s\".",
		action, id, n.ProvisionState,
	)
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
