package baremetal

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func nodeTarget(n *ledger.Node) policy.Target {
	return policy.Target{"node.owner": n.Owner, "node.lessee": n.Lessee}
}

type nodes struct{ *request }

// allowed finds the node that the path names, if a rule permits it. To a client
// that may not see it, the node does not exist.
func (r nodes) allowed(rule string) (*ledger.Node, error) {
	n, err := r.findNode(r.ident)
	if base, isSuffixed := strings.CutSuffix(r.ident, ".json"); err == nil && n == nil && isSuffixed &&
		r.version < literalSuffixSince {
		n, err = r.findNode(base)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(http.StatusNotFound, r.ident)
	}
	if !r.allows(rule, nodeTarget(n)) {
		return nil, forbidden(rule)
	}
	return n, nil
}

func (r nodes) create() (*response, error) {
	if !r.allows("baremetal:node:create", nil) {
		return nil, forbidden("baremetal:node:create")
	}
	c := commands.CreateNode{}
	body := nodeBody{CreateNode: &c, nodes: r}
	if _, err := r.body("node", nodeSchema, &body); err != nil {
		return nil, err
	}
	if body.failure != nil {
		return nil, body.failure
	}
	if c.Node.IsNil() {
		c.Node = rest.NewID(r.Request, "node")
	}
	if r.version < enrollSince {
		c.ProvisionState = ledger.NodeAvailable
	}
	return r.created("node", &c, aboutName("Cannot create node with invalid name"), func() (*response, error) {
		return showWritten(r.all(), c.Node, http.StatusCreated)
	})
}

func (r nodes) show() (*response, error) {
	return show(r.request, r.all(), func() (*ledger.Node, error) { return r.allowed("baremetal:node:get") })
}

// patchableNodeFields are the fields that error texts name.
var patchableNodeFields = slices.Sorted(maps.Keys(nodeProperties))

func (r nodes) update() (*response, error) {
	n, err := r.allowed("baremetal:node:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("node", nodeValues, patchableNodeFields, r.plainField)
	if err != nil {
		return nil, err
	}
	if err := r.known(func(yield func(string) bool) {
		for _, op := range ops {
			if !yield(op.Field()) {
				return
			}
		}
	}, nodeSince); err != nil {
		return nil, err
	}
	if r.version < unsetChassisSince && n.Chassis() != "" && slices.ContainsFunc(ops, leavesChassis) {
		return nil, notAcceptable()
	}
	words := func(rejection *demand.Rejection) *rest.Failure {
		if rejection.Code != demand.CodeInvalid {
			return nil // the name is taken
		}
		return aboutName(fmt.Sprintf("Cannot change name for node %s to", n.UUID))(rejection)
	}
	if _, err := r.carry("node", &commands.UpdateNode{Node: n.UUID, Patch: ops}, words); err != nil {
		return nil, err
	}
	return showWritten(r.all(), n.UUID, http.StatusOK)
}

func leavesChassis(op commands.PatchOperation) bool {
	return op.Field() == "chassis_uuid" && (op.Op == "remove" || op.Value == "null")
}

func (r nodes) delete() (*response, error) {
	n, err := r.allowed("baremetal:node:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.DeleteNode{Node: n.UUID}, noContent())
}

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

// targetSince are the targets that came with a microversion.
var targetSince = map[string]version{
	"manage": 4, "provide": 4, "adopt": 17, "deploy": 73, "undeploy": 73, "soft power off": 27, "soft rebooting": 27,
}

// onlyWith are members of a body that only matter to hardware, and the targets with which Ironic takes them.
var onlyWith = map[string][]string{
	"configdrive": {"active", "deploy", "rebuild"}, "deploy_steps": {"active", "deploy", "rebuild"},
	"rescue_password": {"rescue"}, "clean_steps": {"clean"}, "service_steps": {"service"},
	"disable_ramdisk": {"clean", "service"}, "runbook": {"clean", "service"},
}

// stateTarget reads what a node's state shall be: nodes' power has a timeout, and provisioning all else.
func (r nodes) stateTarget(power bool) (string, error) {
	var b struct {
		Target string `json:"target"`
	}
	doc, err := r.body("target", targetSchema, &b)
	if err != nil {
		return "", err
	}
	if r.version < targetSince[b.Target] {
		return "", notAcceptable()
	}
	for key, value := range doc.(m) {
		targets, known := onlyWith[key]
		switch {
		case key == "target", value == nil && (known || power && key == "timeout"):
		case power && key == "timeout":
			if err := r.powerTimeout(value); err != nil {
				return "", err
			}
		case power || !known:
			return "", rest.BadRequest(
				"Schema error for target: Additional properties are not allowed ('%s' was unexpected)", key,
			)
		case !slices.Contains(targets, b.Target):
			return "", rest.BadRequest(
				`"%s" is only valid when setting target provision state to %s`, key, strings.Join(targets, ", "),
			)
		}
	}
	return b.Target, nil
}

// powerTimeout refuses a time in seconds that Ironic would not wait for; Allot's steps take none.
func (r nodes) powerTimeout(value any) error {
	seconds, err := strconv.Atoi(fmt.Sprint(value))
	switch {
	case r.version < targetSince["soft power off"]:
		return notAcceptable()
	case err != nil || seconds <= 0:
		return rest.BadRequest("timeout has to be positive integer")
	}
	return nil
}

func (r nodes) setProvisionState() (*response, error) {
	return r.setState(false, "baremetal:node:set_provision_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodeProvisionState{Node: node, Target: verb}
	})
}

func (r nodes) setPowerState() (*response, error) {
	return r.setState(true, "baremetal:node:set_power_state", func(node ledger.UUID, verb string) commands.Command {
		return &commands.SetNodePowerState{Node: node, Target: verb}
	})
}

func (r nodes) setState(
	power bool, rule string, command func(node ledger.UUID, verb string) commands.Command,
) (*response, error) {
	n, err := r.allowed(rule)
	if err != nil {
		return nil, err
	}
	verb, err := r.stateTarget(power)
	if err != nil {
		return nil, err
	}
	return r.accepted("node", command(n.UUID, verb), accepted202("/v1/nodes/"+r.ident+"/states"))
}
