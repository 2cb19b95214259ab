package baremetal

import (
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// nodePart serves the paths below /nodes/IDENT.
func (r *request) nodePart(ident string, path []string) (*response, error) {
	part := strings.Join(path, "/")
	switch {
	case path[0] == "allocation":
		return r.nodeAllocation(ident, path[1:])
	case path[0] == "traits" && len(path) <= 2 && r.version < traitsSince:
		return nil, r.traitsTooOld()
	case part == "traits":
		return r.methods(map[string]func() (*response, error){
			http.MethodGet:    func() (*response, error) { return r.showTraits(ident) },
			http.MethodPut:    func() (*response, error) { return r.replaceTraits(ident) },
			http.MethodDelete: func() (*response, error) { return r.clearTraits(ident) },
		})
	case path[0] == "traits" && len(path) == 2:
		return r.methods(map[string]func() (*response, error){
			http.MethodPut:    func() (*response, error) { return r.addTrait(ident, path[1]) },
			http.MethodDelete: func() (*response, error) { return r.removeTrait(ident, path[1]) },
		})
	case part == "maintenance":
		return r.methods(map[string]func() (*response, error){
			http.MethodPut:    func() (*response, error) { return r.setMaintenance(ident) },
			http.MethodDelete: func() (*response, error) { return r.unsetMaintenance(ident) },
		})
	case part == "states":
		return r.methods(map[string]func() (*response, error){
			http.MethodGet: func() (*response, error) { return r.showStates(ident) },
		})
	case part == "states/provision":
		return r.methods(map[string]func() (*response, error){
			http.MethodPut: func() (*response, error) { return r.setProvisionState(ident) },
		})
	case part == "states/power":
		return r.methods(map[string]func() (*response, error){
			http.MethodPut: func() (*response, error) { return r.setPowerState(ident) },
		})
	}
	return nil, rest.NotFound(
		"There is no %s of nodes here: this ledger keeps nodes and allocations, and contacts no hardware.", part,
	)
}

// traitsTooOld answers as Ironic does where there are no traits yet: its router
// has another answer for each method.
func (r *request) traitsTooOld() *rest.Failure {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return rest.Errorf(http.StatusNotAcceptable, "The API version does not allow traits")
	case http.MethodDelete:
		return rest.NotFound("The API version does not allow traits")
	}
	return methodNotAllowed("DELETE, GET, PATCH")
}

// nodeAllocation serves /nodes/IDENT/allocation.
func (r *request) nodeAllocation(ident string, path []string) (*response, error) {
	if r.version < allocationsSince {
		return nil, rest.NotFound("The API version does not allow allocations")
	}
	if len(path) > 0 {
		return nil, methodNotAllowed("DELETE, GET")
	}
	return r.methods(map[string]func() (*response, error){
		http.MethodGet: func() (*response, error) {
			return r.showAllocation(
				func() (*ledger.NodeAllocation, error) { return r.allocationOf(ident, http.StatusBadRequest) },
			)
		},
		http.MethodDelete: func() (*response, error) { return r.deleteAllocationOf(ident) },
	})
}

// allocationOf finds a node's allocation. missing is the status for a missing
// node, which differs between Ironic's methods.
func (r *request) allocationOf(ident string, missing int) (*ledger.NodeAllocation, error) {
	n, err := r.findNode(ident)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(missing, ident)
	}
	a, found, err := r.allocationByID(n.Allocation)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rest.NotFound("Allocation for node %s was not found", ident)
	}
	return a, nil
}

func (r *request) deleteAllocationOf(ident string) (*response, error) {
	a, err := r.allocationOf(ident, http.StatusNotFound)
	if err != nil {
		return nil, err
	}
	return r.release(a)
}

func (r *request) showTraits(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:get")
	if err != nil {
		return nil, err
	}
	return ok(object{{"traits", orEmpty(n.Traits)}}), nil
}

func (r *request) replaceTraits(ident string) (*response, error) {
	var body struct {
		Traits []string `json:"traits"`
	}
	n, err := r.nodeFor(ident, "baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	if _, err := r.body("traits", traitsSchema, &body); err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.ReplaceNodeTraits{Node: n.UUID, Traits: body.Traits}, noContent())
}

func (r *request) clearTraits(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.ReplaceNodeTraits{Node: n.UUID}, noContent())
}

func (r *request) addTrait(ident, trait string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	answer := noContent()
	answer.location = "/v1/nodes/" + ident + "/traits/" + trait
	return r.accepted("trait", &commands.AddNodeTrait{Node: n.UUID, Trait: trait}, answer)
}

func (r *request) removeTrait(ident, trait string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.RemoveNodeTrait{Node: n.UUID, Trait: trait}, noContent())
}

func accepted202(location string) *response {
	return &response{status: http.StatusAccepted, location: location}
}

func (r *request) setMaintenance(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:set_maintenance")
	if err != nil {
		return nil, err
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if _, err := r.body("maintenance", maintenanceSchema, &body); err != nil {
		return nil, err
	}
	return r.accepted(
		"node", &commands.SetNodeMaintenance{Node: n.UUID, Maintenance: true, Reason: body.Reason}, accepted202(""),
	)
}

func (r *request) unsetMaintenance(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:set_maintenance")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.SetNodeMaintenance{Node: n.UUID}, accepted202(""))
}

func (r *request) showStates(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:get")
	if err != nil {
		return nil, err
	}
	doc, err := r.describeNode(n, []string{
		"boot_mode", "console_enabled", "last_error", "power_state", "provision_state", "provision_updated_at",
		"raid_config", "secure_boot", "target_power_state", "target_provision_state", "target_raid_config",
	})
	return ok(doc.without("links")), err
}

// target is the body of a change of state.
type target struct {
	Target string `json:"target"`
}

// ignoredTargetKeys are keys that clients send along and that only matter to
// hardware.
var ignoredTargetKeys = []string{
	"target", "configdrive", "clean_steps", "deploy_steps", "rescue_password", "timeout", "disable_ramdisk",
	"service_steps", "runbook",
}

// stateTarget reads the body of a change of state.
func (r *request) stateTarget() (string, error) {
	var b target
	doc, err := r.body("target", targetSchema, &b)
	if err != nil {
		return "", err
	}
	for key := range doc.(m) {
		if !slices.Contains(ignoredTargetKeys, key) {
			return "", rest.BadRequest(
				"Schema error for target: Additional properties are not allowed ('%s' was unexpected)", key,
			)
		}
	}
	return b.Target, nil
}

func (r *request) setProvisionState(ident string) (*response, error) {
	return r.setState(ident, "baremetal:node:set_provision_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodeProvisionState{Node: node, Target: verb}
	})
}

func (r *request) setPowerState(ident string) (*response, error) {
	return r.setState(ident, "baremetal:node:set_power_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodePowerState{Node: node, Target: verb}
	})
}

// setState carries out the verb of the body on a node, if the rule permits it.
func (r *request) setState(
	ident, rule string, command func(node ledger.UUID, verb string) commands.Command,
) (*response, error) {
	n, err := r.nodeFor(ident, rule)
	if err != nil {
		return nil, err
	}
	verb, err := r.stateTarget()
	if err != nil {
		return nil, err
	}
	return r.accepted("node", command(n.UUID, verb), accepted202("/v1/nodes/"+ident+"/states"))
}
