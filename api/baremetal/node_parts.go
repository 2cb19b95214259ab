package baremetal

import (
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// part serves the paths below /nodes/IDENT.
func (r node) part(path []string) (*response, error) {
	part := strings.Join(path, "/")
	switch {
	case path[0] == "allocation":
		return allocations{r.request, r.ident}.answerOfNode()
	case path[0] == "traits" && len(path) <= 2 && r.version < traitsSince:
		return nil, r.traitsTooOld()
	case part == "traits":
		return r.methods(map[string]func() (*response, error){
			http.MethodGet: r.showTraits, http.MethodPut: r.replaceTraits, http.MethodDelete: r.clearTraits,
		})
	case path[0] == "traits" && len(path) == 2:
		return r.methods(map[string]func() (*response, error){
			http.MethodPut:    func() (*response, error) { return r.addTrait(path[1]) },
			http.MethodDelete: func() (*response, error) { return r.removeTrait(path[1]) },
		})
	case part == "maintenance":
		return r.methods(map[string]func() (*response, error){
			http.MethodPut: r.setMaintenance, http.MethodDelete: r.unsetMaintenance,
		})
	case part == "states":
		return r.methods(map[string]func() (*response, error){http.MethodGet: r.showStates})
	case part == "states/provision":
		return r.methods(map[string]func() (*response, error){http.MethodPut: r.setProvisionState})
	case part == "states/power":
		return r.methods(map[string]func() (*response, error){http.MethodPut: r.setPowerState})
	}
	return nil, rest.NotFound(
		"There is no %s of nodes here: this ledger keeps nodes and allocations, and contacts no hardware.", part,
	)
}

// traitsTooOld answers as Ironic does where there are no traits yet: its router
// has another answer for each method.
func (r node) traitsTooOld() *rest.Failure {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return rest.Errorf(http.StatusNotAcceptable, "The API version does not allow traits")
	case http.MethodDelete:
		return rest.NotFound("The API version does not allow traits")
	}
	return methodNotAllowed("DELETE, GET, PATCH")
}

func (r node) showTraits() (*response, error) {
	n, err := r.allowed("baremetal:node:get")
	if err != nil {
		return nil, err
	}
	return ok(object{{"traits", orEmpty(n.Traits)}}), nil
}

func (r node) replaceTraits() (*response, error) {
	var body struct {
		Traits []string `json:"traits"`
	}
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	if _, err := r.body("traits", traitsSchema, &body); err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.ReplaceNodeTraits{Node: n.UUID, Traits: body.Traits}, noContent())
}

func (r node) clearTraits() (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.ReplaceNodeTraits{Node: n.UUID}, noContent())
}

func (r node) addTrait(trait string) (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	answer := noContent()
	answer.location = "/v1/nodes/" + r.ident + "/traits/" + trait
	return r.accepted("trait", &commands.AddNodeTrait{Node: n.UUID, Trait: trait}, answer)
}

func (r node) removeTrait(trait string) (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.RemoveNodeTrait{Node: n.UUID, Trait: trait}, noContent())
}

func accepted202(location string) *response {
	return &response{status: http.StatusAccepted, location: location}
}

func (r node) setMaintenance() (*response, error) {
	n, err := r.allowed("baremetal:node:set_maintenance")
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

func (r node) unsetMaintenance() (*response, error) {
	n, err := r.allowed("baremetal:node:set_maintenance")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.SetNodeMaintenance{Node: n.UUID}, accepted202(""))
}

func (r node) showStates() (*response, error) {
	n, err := r.allowed("baremetal:node:get")
	if err != nil {
		return nil, err
	}
	doc, err := r.describe(n, []string{
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
func (r node) stateTarget() (string, error) {
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

func (r node) setProvisionState() (*response, error) {
	return r.setState("baremetal:node:set_provision_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodeProvisionState{Node: node, Target: verb}
	})
}

func (r node) setPowerState() (*response, error) {
	return r.setState("baremetal:node:set_power_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodePowerState{Node: node, Target: verb}
	})
}

// setState carries out the verb of the body on a node, if the rule permits it.
func (r node) setState(rule string, command func(node ledger.UUID, verb string) commands.Command) (*response, error) {
	n, err := r.allowed(rule)
	if err != nil {
		return nil, err
	}
	verb, err := r.stateTarget()
	if err != nil {
		return nil, err
	}
	return r.accepted("node", command(n.UUID, verb), accepted202("/v1/nodes/"+r.ident+"/states"))
}
