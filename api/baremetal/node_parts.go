package baremetal

import (
	"net/http"
	"slices"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// traitsTooOld answers as Ironic does where there are no traits yet: its router
// has another answer for each method.
func (r nodes) traitsTooOld() *rest.Failure {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return rest.Errorf(http.StatusNotAcceptable, "The API version does not allow traits")
	case http.MethodDelete:
		return rest.NotFound("The API version does not allow traits")
	}
	return methodNotAllowed("DELETE, GET, PATCH")
}

func (r nodes) showTraits() (*response, error) {
	n, err := r.allowed("baremetal:node:get")
	if err != nil {
		return nil, err
	}
	return ok(object{{"traits", orEmpty(n.Traits)}}), nil
}

func (r nodes) replaceTraits() (*response, error) {
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

func (r nodes) clearTraits() (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.ReplaceNodeTraits{Node: n.UUID}, noContent())
}

func (r nodes) addTrait() (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	answer := noContent()
	answer.location = "/v1/nodes/" + r.ident + "/traits/" + r.path[3]
	return r.accepted("trait", &commands.AddNodeTrait{Node: n.UUID, Trait: r.path[3]}, answer)
}

func (r nodes) removeTrait() (*response, error) {
	n, err := r.allowed("baremetal:node:traits:set")
	if err != nil {
		return nil, err
	}
	return r.accepted("trait", &commands.RemoveNodeTrait{Node: n.UUID, Trait: r.path[3]}, noContent())
}

func accepted202(location string) *response {
	return &response{status: http.StatusAccepted, location: location}
}

func (r nodes) setMaintenance() (*response, error) {
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

func (r nodes) unsetMaintenance() (*response, error) {
	n, err := r.allowed("baremetal:node:set_maintenance")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.SetNodeMaintenance{Node: n.UUID}, accepted202(""))
}

func (r nodes) showStates() (*response, error) {
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

// ignoredTargetKeys are keys that clients send along and that only matter to
// hardware.
var ignoredTargetKeys = []string{
	"target", "configdrive", "clean_steps", "deploy_steps", "rescue_password", "timeout", "disable_ramdisk",
	"service_steps", "runbook",
}

func (r nodes) stateTarget() (string, error) {
	var b struct {
		Target string `json:"target"`
	}
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

func (r nodes) setProvisionState() (*response, error) {
	return r.setState("baremetal:node:set_provision_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodeProvisionState{Node: node, Target: verb}
	})
}

func (r nodes) setPowerState() (*response, error) {
	return r.setState("baremetal:node:set_power_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodePowerState{Node: node, Target: verb}
	})
}

func (r nodes) setState(rule string, command func(node ledger.UUID, verb string) commands.Command) (*response, error) {
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
