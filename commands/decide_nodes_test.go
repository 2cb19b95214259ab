package commands_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func aboutNode(code demand.Code, id ledger.UUID) outcome {
	return rejected(code, demand.Facts{Node: &id})
}

func nodeState(id ledger.UUID, state string) outcome {
	return rejected(demand.CodeNodeState, demand.Facts{Node: &id, State: state})
}

func unknownNodes(ids ...ledger.UUID) outcome {
	facts := demand.Facts{}
	for _, id := range ids {
		facts.Names = append(facts.Names, id.String())
	}
	return rejected(demand.CodeNodeUnknown, facts)
}

func patchNode(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateNode {
	return &commands.UpdateNode{Node: id, Patch: ops}
}

// set is a step of a patch; the value is JSON.
func set(path, value string) commands.PatchOperation {
	return commands.PatchOperation{Op: "add", Path: path, Value: commands.PatchValue(value)}
}

func unset(path string) commands.PatchOperation {
	return commands.PatchOperation{Op: "remove", Path: path}
}

func quote(id ledger.UUID) string { return `"` + id.String() + `"` }

// described returns the description of the world's nodes that node makes.
var described = ledger.NodeDescription{Driver: "fake", ResourceClass: "metal", Owner: "p"}

// nodeDecisions are about the fields of nodes.
func nodeDecisions() []decision {
	return slices.Concat(newNodes(), changedNodes(), patchBounds(), deletedNodes())
}

// large returns a JSON object of this size, in bytes, with as many members that
// look like secrets as fit.
func large(bytes int) ledger.Document {
	var b strings.Builder
	b.WriteString(`{"a":""`)
	for i := 0; b.Len() < bytes-20; i++ {
		fmt.Fprintf(&b, `,"secret%04d":""`, i)
	}
	b.WriteString("}")
	return ledger.Document(b.String())
}

func newNodes() (rows []decision) {
	with := func(change func(*commands.CreateNode)) *commands.CreateNode {
		c := &commands.CreateNode{Node: fresh, NodeFields: commands.NodeFields{Driver: ptr("fake")}}
		change(c)
		return c
	}
	row := func(about string, want outcome, change func(*commands.CreateNode)) {
		rows = append(rows, decision{about, nil, with(change), want})
	}
	created := func(d ledger.NodeDescription, state string) ledger.Event {
		return ledger.NodeCreated{Node: fresh, Description: d, ProvisionState: state}
	}
	row("a driver alone", happens(created(ledger.NodeDescription{Driver: "fake"}, "enroll")),
		func(*commands.CreateNode) {})
	row("all that can be said", happens(
		created(ledger.NodeDescription{
			Name: "n", Driver: "fake", ResourceClass: "metal", Owner: "p", Lessee: "q",
			Properties: `{"cpus":4}`, Extra: `{"a":1}`,
			DriverInfo: `{"ipmi_password":"******","of":{"private_key":"******"}}`, InstanceInfo: `{"token":"******"}`,
			Details: ledger.Document(`{"chassis_uuid":` + quote(fullChassis) + `,"parent_node":` + quote(enrolled) + `}`),
		}, ledger.NodeAvailable),
		ledger.NodeInstanceSet{Node: fresh, Instance: instance},
		ledger.NodeStateSet{Node: fresh, ProvisionState: ledger.NodeAvailable, Maintenance: true},
	), func(c *commands.CreateNode) {
		c.Name, c.ResourceClass, c.Owner, c.Lessee = ptr("n"), ptr("metal"), ptr("p"), ptr("q")
		c.InstanceUUID, c.Maintenance, c.ChassisUUID, c.ParentNode = &instance, ptr(true), &fullChassis, &enrolled
		c.Properties, c.Extra, c.InstanceInfo = `{"cpus":4}`, `{"a":1}`, `{"token":"x"}`
		c.DriverInfo, c.ProvisionState = `{"ipmi_password":"x","of":{"private_key":"y"}}`, ledger.NodeAvailable
	})
	row("uuid taken", rejected(demand.CodeNodeExists, demand.Facts{Name: enrolled.String()}),
		func(c *commands.CreateNode) { c.Node = enrolled })
	row("name taken", rejected(demand.CodeNodeExists, demand.Facts{Name: "enrolled"}),
		func(c *commands.CreateNode) { c.Name = ptr("enrolled") })
	row("instance elsewhere", rejected(demand.CodeInstanceAssociated, demand.Facts{Node: &fresh, Instance: &deployed}),
		func(c *commands.CreateNode) { c.InstanceUUID = &deployed })
	row("no such chassis", rejected(demand.CodeChassisUnknown, demand.Facts{Chassis: &noChassis}),
		func(c *commands.CreateNode) { c.ChassisUUID = &noChassis })
	row("no such parent", unknownNodes(lostNode), func(c *commands.CreateNode) { c.ParentNode = &lostNode })
	row("retired and available", nodeState(ledger.NilUUID, ledger.NodeAvailable), func(c *commands.CreateNode) {
		c.Retired, c.ProvisionState = ptr(true), ledger.NodeAvailable
	})
	row("protected", invalid("protected"), func(c *commands.CreateNode) { c.Protected = ptr(true) })
	row("why it is protected", invalid("protected"), func(c *commands.CreateNode) { c.ProtectedReason = ptr("x") })
	row("why it is retired, and it is not", invalid("retired_reason"), func(c *commands.CreateNode) {
		c.RetiredReason = ptr("x")
	})
	row("in a state of its own", invalid("provision_state"), func(c *commands.CreateNode) { c.ProvisionState = "active" })
	row("no driver", invalid("driver"), func(c *commands.CreateNode) { c.Driver = nil })
	row("no uuid", invalid("node"), func(c *commands.CreateNode) { c.Node = ledger.NilUUID })
	for _, name := range []string{"", "a b", fresh.String(), "detail", strings.Repeat("n", ledger.MaxNodeNameBytes+1)} {
		row(fmt.Sprintf("named %.40q", name), rejected(demand.CodeInvalid, demand.Facts{Field: "name", Name: name}),
			func(c *commands.CreateNode) { c.Name = &name })
	}
	long := ptr(strings.Repeat("é", 4097))
	for field, change := range map[string]func(*commands.CreateNode){
		"driver":           func(c *commands.CreateNode) { c.Driver = long },
		"resource_class":   func(c *commands.CreateNode) { c.ResourceClass = long },
		"owner":            func(c *commands.CreateNode) { c.Owner = long },
		"lessee":           func(c *commands.CreateNode) { c.Lessee = long },
		"description":      func(c *commands.CreateNode) { c.Description = long },
		"protected_reason": func(c *commands.CreateNode) { c.ProtectedReason = long },
		"retired_reason":   func(c *commands.CreateNode) { c.RetiredReason = long },
	} {
		row(field+" too long", invalid(field), change)
	}
	// Each document fits alone, but not the result.
	row("details too large together", invalid("details"), func(c *commands.CreateNode) {
		c.NetworkData, c.Description = large(ledger.MaxDocumentBytes), ptr(strings.Repeat("é", 4096))
	})
	row("driver_info too large without secrets", invalid("driver_info"), func(c *commands.CreateNode) {
		c.DriverInfo = large(ledger.MaxDocumentBytes)
	})
	row("instance_info too large without secrets", invalid("instance_info"), func(c *commands.CreateNode) {
		c.InstanceInfo = large(ledger.MaxDocumentBytes)
	})
	return append(rows, decision{
		"below a child", []commands.Command{with(func(c *commands.CreateNode) { c.ParentNode = &enrolled })},
		&commands.CreateNode{Node: lostNode, NodeFields: commands.NodeFields{
			Driver: ptr("fake"), NodeDetails: commands.NodeDetails{ParentNode: &fresh},
		}},
		invalid("parent_node"),
	})
}

func changedNodes() []decision {
	renamed, protected, info := described, described, described
	renamed.Name = "n"
	protected.Protected, protected.Details = true, `{"protected_reason":"x"}`
	info.InstanceInfo = `{"traits":[]}`
	give := &commands.ChooseNode{Allocation: waiting, Seed: 1}
	runs := patchNode(idleNode, set("/instance_uuid", quote(instance)))
	maintained := func(id ledger.UUID) commands.Command {
		return &commands.SetNodeMaintenance{Node: id, Maintenance: true, Reason: "fan"}
	}
	withReason := patchNode(busyNode, set("/protected", "true"), set("/protected_reason", `"x"`))
	busy := described
	busy.InstanceInfo = `{"traits":[]}`
	shielded := busy
	shielded.Protected, shielded.Details = true, `{"protected_reason":"x"}`
	return []decision{
		{
			"a name", nil, patchNode(idleNode, set("/name", `"n"`)),
			happens(ledger.NodeDescribed{Node: idleNode, Description: renamed}),
		},
		{"as it is", nil, patchNode(idleNode, set("/driver", `"fake"`)), nothing},
		{"no steps", nil, patchNode(idleNode), nothing},
		{
			"in and out of a chassis that is not there any more", nil, patchNode(enrolled, unset("/chassis_uuid")),
			happens(ledger.NodeDescribed{Node: enrolled, Description: ledger.NodeDescription{
				Name: "enrolled", Driver: "fake", ResourceClass: "metal",
			}}),
		},
		{
			"maintenance", nil, patchNode(idleNode, set("/maintenance", "true")),
			happens(ledger.NodeStateSet{
				Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: "power off", Maintenance: true,
			}),
		},
		{
			"maintenance ends, and its reason", []commands.Command{maintained(idleNode)},
			patchNode(idleNode, set("/maintenance", "false")),
			happens(ledger.NodeStateSet{Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: "power off"}),
		},
		{
			"an instance", nil, runs, happens(ledger.NodeInstanceSet{Node: idleNode, Instance: instance}),
		},
		{
			"an instance goes", []commands.Command{runs}, patchNode(idleNode, unset("/instance_uuid")),
			happens(ledger.NodeInstanceSet{Node: idleNode}),
		},
		{
			"an instance goes, and its allocation", []commands.Command{give}, patchNode(idleNode, unset("/instance_uuid")),
			happens(ledger.NodeAllocationReleased{Allocation: waiting}),
		},
		{
			"an allocation of an active node goes in maintenance", []commands.Command{maintained(busyNode)},
			patchNode(busyNode, unset("/instance_uuid")), happens(ledger.NodeAllocationReleased{Allocation: deployed}),
		},
		{
			"an allocation of an active node stays", nil, patchNode(busyNode, unset("/instance_uuid")),
			nodeState(busyNode, "active"),
		},
		{
			"another instance", []commands.Command{runs}, patchNode(idleNode, set("/instance_uuid", quote(fresh))),
			rejected(demand.CodeNodeAssociated, demand.Facts{Node: &idleNode, Instance: &instance}),
		},
		{
			"an instance that runs elsewhere", nil, patchNode(idleNode, set("/instance_uuid", quote(deployed))),
			rejected(demand.CodeInstanceAssociated, demand.Facts{Node: &idleNode, Instance: &deployed}),
		},
		{
			"a class of an active node", nil, patchNode(busyNode, set("/resource_class", `"other"`)),
			nodeState(busyNode, "active"),
		},
		{
			"an owner of a node whose allocation has one", []commands.Command{give},
			patchNode(idleNode, set("/owner", `"q"`)), nodeState(idleNode, ledger.NodeAvailable),
		},
		{
			"an owner of a node whose allocation has none", nil, patchNode(busyNode, unset("/owner")),
			happens(ledger.NodeDescribed{Node: busyNode, Description: ledger.NodeDescription{
				Driver: "fake", ResourceClass: "metal", InstanceInfo: `{"traits":[]}`,
			}}),
		},
		{
			"protected", nil, withReason, happens(ledger.NodeDescribed{Node: busyNode, Description: shielded}),
		},
		{
			"not protected, and not why", []commands.Command{withReason}, patchNode(busyNode, set("/protected", "false")),
			happens(ledger.NodeDescribed{Node: busyNode, Description: busy}),
		},
		{
			"why it is protected, and it is not", nil, patchNode(busyNode, set("/protected_reason", `"x"`)),
			invalid("protected_reason"),
		},
		{
			"protected before it is active", nil, patchNode(idleNode, set("/protected", "true")),
			nodeState(idleNode, ledger.NodeAvailable),
		},
		{
			"retired while it is available", nil, patchNode(idleNode, set("/retired", "true")),
			nodeState(idleNode, ledger.NodeAvailable),
		},
		{
			"name taken", nil, patchNode(idleNode, set("/name", `"enrolled"`)),
			rejected(demand.CodeNodeExists, demand.Facts{Name: "enrolled"}),
		},
		{
			"no such chassis", nil, patchNode(idleNode, set("/chassis_uuid", quote(noChassis))),
			rejected(demand.CodeChassisUnknown, demand.Facts{Chassis: &noChassis}),
		},
		{"no such parent", nil, patchNode(idleNode, set("/parent_node", quote(lostNode))), unknownNodes(lostNode)},
		{"its own parent", nil, patchNode(idleNode, set("/parent_node", quote(idleNode))), invalid("parent_node")},
		{"no driver", nil, patchNode(idleNode, unset("/driver")), invalid("driver")},
		{
			"a secret that makes it too large", nil,
			patchNode(idleNode, set("/driver_info", string(large(ledger.MaxDocumentBytes)))), invalid("driver_info"),
		},
	}
}

// patchBounds holds for all commands that take a patch.
func patchBounds() (rows []decision) {
	failing := func(field string) outcome {
		return rejected(demand.CodePatchFailed, demand.Facts{Field: field})
	}
	many := slices.Repeat([]commands.PatchOperation{set("/extra/a", "1")}, 1001)
	for _, row := range []struct {
		about string
		ops   []commands.PatchOperation
		want  outcome
	}{
		{"as many steps as there may be", many[1:], happens()},
		{"too many steps", many, invalid("patch")},
		{"another operation", []commands.PatchOperation{{Op: "move", Path: "/extra", Value: "1"}}, invalid("patch")},
		{"no path", []commands.PatchOperation{{Op: "remove", Path: "extra"}}, invalid("patch")},
		{"no value", []commands.PatchOperation{{Op: "add", Path: "/extra"}}, invalid("patch")},
		{"nothing to remove", []commands.PatchOperation{unset("/extra/a")}, failing("extra")},
		{"nothing to go below", []commands.PatchOperation{set("/extra/a/b", "1")}, failing("extra")},
		{"a value of another kind", []commands.PatchOperation{set("/extra", "1")}, invalid("patch")},
	} {
		node, chassis, allocation := row.want, row.want, row.want
		if row.want.code == "" {
			extra := ledger.Document(`{"a":1}`)
			withExtra := described
			withExtra.Extra = extra
			node = happens(ledger.NodeDescribed{Node: idleNode, Description: withExtra})
			chassis = happens(ledger.ChassisDescribed{
				Chassis: emptyChassis, Description: ledger.ChassisDescription{Extra: extra},
			})
			allocation = happens(ledger.NodeAllocationUpdated{Allocation: waiting, Name: "waiting", Extra: extra})
		}
		rows = append(rows,
			decision{row.about, nil, patchNode(idleNode, row.ops...), node},
			decision{row.about, nil, &commands.UpdateChassis{Chassis: emptyChassis, Patch: row.ops}, chassis},
			decision{row.about, nil, &commands.UpdateNodeAllocation{Allocation: waiting, Patch: row.ops}, allocation},
		)
	}
	return append(rows,
		decision{"no such field", nil, patchNode(idleNode, set("/colour", `"red"`)), invalid("patch")},
		decision{"no such field", nil, &commands.UpdateChassis{
			Chassis: emptyChassis, Patch: []commands.PatchOperation{set("/colour", `"red"`)},
		}, invalid("patch")},
	)
}

func deletedNodes() []decision {
	adopt := []commands.Command{node(fresh), &commands.SetNodeProvisionState{Node: fresh, Target: "adopt"}}
	protect := patchNode(busyNode, set("/protected", "true"))
	return []decision{
		{"enrolled", nil, &commands.DeleteNode{Node: enrolled}, happens(ledger.NodeDeleted{Node: enrolled})},
		{
			"with an allocation, in maintenance",
			[]commands.Command{&commands.SetNodeMaintenance{Node: busyNode, Maintenance: true}},
			&commands.DeleteNode{Node: busyNode},
			happens(ledger.NodeAllocationReleased{Allocation: deployed}, ledger.NodeDeleted{Node: busyNode}),
		},
		{
			"with an allocation", nil, &commands.DeleteNode{Node: busyNode},
			rejected(demand.CodeNodeAssociated, demand.Facts{Node: &busyNode, Instance: &deployed}),
		},
		{"active", adopt, &commands.DeleteNode{Node: fresh}, nodeState(fresh, "active")},
		{
			"protected", []commands.Command{protect}, &commands.DeleteNode{Node: busyNode},
			aboutNode(demand.CodeNodeProtected, busyNode),
		},
	}
}

// nodeStateDecisions are about the life of nodes, and their traits.
func nodeStateDecisions() []decision {
	verb := func(id ledger.UUID, target string) *commands.SetNodeProvisionState {
		return &commands.SetNodeProvisionState{Node: id, Target: target}
	}
	becomes := func(id ledger.UUID, state string) ledger.Event {
		return ledger.NodeStateSet{Node: id, ProvisionState: state, PowerState: "power off"}
	}
	maintenance := func(id ledger.UUID) commands.Command {
		return &commands.SetNodeMaintenance{Node: id, Maintenance: true}
	}
	action := func(id ledger.UUID, target, state string) outcome {
		return rejected(demand.CodeNodeAction, demand.Facts{Node: &id, Name: target, State: state})
	}
	manageable := []commands.Command{node(fresh)}
	active := append(slices.Clone(manageable), verb(fresh, "adopt"))
	runs := append(slices.Clone(active), patchNode(fresh, set("/instance_uuid", quote(instance))))
	retired := append(slices.Clone(manageable), patchNode(fresh, set("/retired", "true")))
	retiredActive := append(slices.Clone(active), patchNode(fresh, set("/retired", "true")))
	protect := []commands.Command{patchNode(busyNode, set("/protected", "true"))}
	undeployed := happens(
		ledger.NodeAllocationReleased{Allocation: deployed},
		ledger.NodeDescribed{Node: busyNode, Description: described}, becomes(busyNode, ledger.NodeAvailable),
	)
	rows := []decision{
		{"manage, and its power is off", nil, verb(enrolled, "manage"), happens(becomes(enrolled, "manageable"))},
		{"manage what is available", nil, verb(idleNode, "manage"), happens(becomes(idleNode, "manageable"))},
		{"provide", manageable, verb(fresh, "provide"), happens(becomes(fresh, ledger.NodeAvailable))},
		{"adopt", manageable, verb(fresh, "adopt"), happens(becomes(fresh, "active"))},
		{"active", nil, verb(idleNode, "active"), happens(becomes(idleNode, "active"))},
		{"deploy", nil, verb(idleNode, "deploy"), happens(becomes(idleNode, "active"))},
		{"rebuild", nil, verb(busyNode, "rebuild"), happens(becomes(busyNode, "active"))},
		{"deleted", nil, verb(busyNode, "deleted"), undeployed},
		{"undeploy", nil, verb(busyNode, "undeploy"), undeployed},
		{
			"deleted, with an instance alone", runs, verb(fresh, "deleted"),
			happens(ledger.NodeInstanceSet{Node: fresh}, becomes(fresh, ledger.NodeAvailable)),
		},
		{
			"deleted, and retired", retiredActive, verb(fresh, "deleted"), happens(becomes(fresh, "manageable")),
		},
		{
			"provide, and retired", retired, verb(fresh, "provide"),
			rejected(demand.CodeNodeRetired, demand.Facts{Node: &fresh, State: "manageable"}),
		},
		{
			"active, in maintenance", []commands.Command{maintenance(idleNode)}, verb(idleNode, "active"),
			rejected(demand.CodeNodeMaintenance, demand.Facts{Node: &idleNode, State: ledger.NodeAvailable}),
		},
		{
			"rebuild, in maintenance", []commands.Command{maintenance(busyNode)}, verb(busyNode, "rebuild"),
			rejected(demand.CodeNodeMaintenance, demand.Facts{Node: &busyNode, State: "active"}),
		},
		{"deleted, and protected", protect, verb(busyNode, "deleted"), aboutNode(demand.CodeNodeProtected, busyNode)},
		{"rebuild, and protected", protect, verb(busyNode, "rebuild"), aboutNode(demand.CodeNodeProtected, busyNode)},
		{"no such verb", nil, verb(idleNode, "fly"), action(idleNode, "fly", ledger.NodeAvailable)},
	}
	for target, states := range map[string]map[ledger.UUID]string{
		"manage":  {busyNode: "active"},
		"provide": {enrolled: "enroll", idleNode: ledger.NodeAvailable, busyNode: "active"},
		"adopt":   {enrolled: "enroll", idleNode: ledger.NodeAvailable, busyNode: "active"},
		"active":  {enrolled: "enroll", busyNode: "active"},
		"rebuild": {enrolled: "enroll", idleNode: ledger.NodeAvailable},
		"deleted": {enrolled: "enroll", idleNode: ledger.NodeAvailable},
	} {
		for id, state := range states {
			rows = append(rows, decision{target + " from " + state, nil, verb(id, target), action(id, target, state)})
		}
	}
	return slices.Concat(rows, powerAndMaintenance(), nodeTraits())
}

func powerAndMaintenance() []decision {
	power := func(id ledger.UUID, target string) *commands.SetNodePowerState {
		return &commands.SetNodePowerState{Node: id, Target: target}
	}
	is := func(state string) outcome {
		return happens(ledger.NodeStateSet{Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: state})
	}
	maintenance := func(id ledger.UUID, on bool, reason string) *commands.SetNodeMaintenance {
		return &commands.SetNodeMaintenance{Node: id, Maintenance: on, Reason: reason}
	}
	in := ledger.NodeStateSet{
		Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: "power off", Maintenance: true,
		MaintenanceReason: "fan",
	}
	out := ledger.NodeStateSet{Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: "power off"}
	return []decision{
		{"on", nil, power(idleNode, "power on"), is("power on")},
		{"rebooting", nil, power(idleNode, "rebooting"), is("power on")},
		{"soft rebooting", nil, power(idleNode, "soft rebooting"), is("power on")},
		{"off", nil, power(idleNode, "power off"), nothing},
		{"softly off", nil, power(idleNode, "soft power off"), nothing},
		{
			"no such target", nil, power(idleNode, "sleep"),
			rejected(demand.CodeNodeAction, demand.Facts{Node: &idleNode, Name: "sleep", State: ledger.NodeAvailable}),
		},

		{"in", nil, maintenance(idleNode, true, "fan"), happens(in)},
		{
			"out, and no reason any more", []commands.Command{maintenance(idleNode, true, "fan")},
			maintenance(idleNode, false, "fan"), happens(out),
		},
		{"in again", []commands.Command{maintenance(idleNode, true, "fan")}, maintenance(idleNode, true, "fan"), nothing},
		{
			"a reason too long", nil, maintenance(idleNode, true, strings.Repeat("x", ledger.MaxMaintenanceReasonBytes+1)),
			invalid("reason"),
		},
		{"a reason that is no text", nil, maintenance(idleNode, true, "\xff"), invalid("reason")},
	}
}

func nodeTraits() (rows []decision) {
	replaced := func(names ...string) outcome {
		return happens(ledger.NodeTraitsReplaced{Node: idleNode, Traits: names})
	}
	many := make([]string, ledger.MaxNodeTraits+1)
	for i := range many {
		many[i] = fmt.Sprintf("CUSTOM_%02d", i)
	}
	tooMany := rejected(demand.CodeInvalid, demand.Facts{Field: "traits", Node: &idleNode})
	rows = []decision{
		{
			"sorted, each once", nil,
			&commands.ReplaceNodeTraits{Node: idleNode, Traits: []string{used, "HW_CPU_X86_AVX", none, used}},
			replaced(none, used, "HW_CPU_X86_AVX"),
		},
		{"none", nil, &commands.ReplaceNodeTraits{Node: idleNode}, replaced()},
		{"as they are", nil, &commands.ReplaceNodeTraits{Node: idleNode, Traits: []string{used}}, nothing},
		{
			"as many as there may be", nil, &commands.ReplaceNodeTraits{Node: idleNode, Traits: many[1:]},
			replaced(many[1:]...),
		},
		{"too many", nil, &commands.ReplaceNodeTraits{Node: idleNode, Traits: many}, tooMany},
		{"one more", nil, &commands.AddNodeTrait{Node: idleNode, Trait: none}, replaced(none, used)},
		{"one that it has", nil, &commands.AddNodeTrait{Node: idleNode, Trait: used}, nothing},
		{
			"one too many", []commands.Command{&commands.ReplaceNodeTraits{Node: idleNode, Traits: many[1:]}},
			&commands.AddNodeTrait{Node: idleNode, Trait: many[0]}, tooMany,
		},
		{"its last", nil, &commands.RemoveNodeTrait{Node: idleNode, Trait: used}, replaced()},
		{
			"one that it lacks", nil, &commands.RemoveNodeTrait{Node: idleNode, Trait: none},
			rejected(demand.CodeNodeTraitNotFound, demand.Facts{Node: &idleNode, Name: none}),
		},
	}
	for about, name := range map[string]string{
		"neither custom nor standard": "GOLD", "small letters": "CUSTOM_gold", "a prefix alone": "CUSTOM_",
	} {
		wrong := rejected(demand.CodeInvalid, demand.Facts{Field: "traits", Name: name})
		rows = append(rows,
			decision{about, nil, &commands.ReplaceNodeTraits{Node: idleNode, Traits: []string{name}}, wrong},
			decision{about, nil, &commands.AddNodeTrait{Node: idleNode, Trait: name}, wrong},
		)
	}
	return rows
}

// nodeAllocationDecisions are about allocations of whole nodes.
func nodeAllocationDecisions() []decision {
	return slices.Concat(requests(), choices(), backfills(), changedAllocations())
}

func request(change func(*commands.NodeRequest)) *commands.RequestNodeAllocation {
	c := &commands.RequestNodeAllocation{Allocation: fresh, NodeRequest: commands.NodeRequest{ResourceClass: "metal"}}
	change(&c.NodeRequest)
	return c
}

func requests() (rows []decision) {
	taken := func(name string) outcome {
		return rejected(demand.CodeNodeAllocationExists, demand.Facts{Name: name})
	}
	long := strings.Repeat("é", ledger.MaxOwnerRunes+1)
	many := make([]ledger.UUID, ledger.MaxCandidateNodes+1)
	rows = []decision{
		{
			"all that can be said", nil, request(func(r *commands.NodeRequest) {
				*r = commands.NodeRequest{
					Name: "n", ResourceClass: "metal", Traits: []string{used, none}, Owner: "p", Extra: `{"a":1}`,
					CandidateNodes: []ledger.UUID{idleNode, busyNode},
				}
			}),
			happens(ledger.AllocationRequested{
				Allocation: fresh, Name: "n", ResourceClass: "metal", Traits: []string{used, none}, Owner: "p",
				CandidateNodes: []ledger.UUID{idleNode, busyNode}, Extra: `{"a":1}`,
			}),
		},
		{
			"uuid taken", nil, &commands.RequestNodeAllocation{
				Allocation: waiting, NodeRequest: commands.NodeRequest{ResourceClass: "metal"},
			}, taken(waiting.String()),
		},
		{"name taken", nil, request(func(r *commands.NodeRequest) { r.Name = "waiting" }), taken("waiting")},
		{
			"candidates that are not there", nil, request(func(r *commands.NodeRequest) {
				r.CandidateNodes = []ledger.UUID{lostNode, idleNode, noNode, lostNode}
			}), unknownNodes(lostNode, noNode),
		},
		{"no uuid", nil, &commands.RequestNodeAllocation{
			NodeRequest: commands.NodeRequest{ResourceClass: "metal"},
		}, invalid("allocation")},
		{"no class", nil, request(func(r *commands.NodeRequest) { r.ResourceClass = "" }), invalid("resource_class")},
		{
			"no such trait", nil, request(func(r *commands.NodeRequest) { r.Traits = []string{"GOLD"} }),
			rejected(demand.CodeInvalid, demand.Facts{Field: "traits", Name: "GOLD"}),
		},
	}
	backfill := &commands.BackfillNodeAllocation{Node: busyNode, NewAllocation: fresh}
	for about, c := range map[string]struct {
		change func(*commands.NodeRequest)
		want   outcome
	}{
		"class too long":      {func(r *commands.NodeRequest) { r.ResourceClass = long }, invalid("resource_class")},
		"owner too long":      {func(r *commands.NodeRequest) { r.Owner = long }, invalid("owner")},
		"too many traits":     {func(r *commands.NodeRequest) { r.Traits = make([]string, 1001) }, invalid("traits")},
		"too many candidates": {func(r *commands.NodeRequest) { r.CandidateNodes = many }, invalid("candidate_nodes")},
		"name with a blank": {
			func(r *commands.NodeRequest) { r.Name = "a b" },
			rejected(demand.CodeInvalid, demand.Facts{Field: "name", Name: "a b"}),
		},
	} {
		also := *backfill
		c.change(&also.NodeRequest)
		rows = append(rows,
			decision{about, nil, request(c.change), c.want}, decision{about, nil, &also, c.want},
		)
	}
	return rows
}

// choices are nodes for a requested allocation, or the reasons why there is none.
func choices() (rows []decision) {
	choose := &commands.ChooseNode{Allocation: fresh, Seed: 7}
	row := func(about string, want ledger.Event, change func(*commands.NodeRequest), before ...commands.Command) {
		rows = append(rows, decision{about, append(before, request(change)), choose, happens(want)})
	}
	given := ledger.NodeAllocated{
		Allocation: fresh, Node: idleNode, InstanceInfo: `{"traits":[]}`, Seed: 7, Free: 1,
	}
	withTrait := given
	withTrait.InstanceInfo = `{"traits":["CUSTOM_USED"]}`
	fails := func(why string, exclusions ...ledger.Exclusion) ledger.Event {
		return ledger.AllocationFailed{
			Allocation: fresh, LastError: "Failed to process allocation " + fresh.String() + ": " + why + ".",
			Exclusions: exclusions,
		}
	}
	because := func(reason string, nodes uint64) ledger.Exclusion {
		return ledger.Exclusion{Reason: reason, Nodes: nodes}
	}
	unavailable := because("not in provision state available", 2)
	associated, unpowered := because("has an instance", 1), because("power state is not known", 1)

	row("the one that is free", given, func(*commands.NodeRequest) {})
	row("of the owner", given, func(r *commands.NodeRequest) { r.Owner = "p" })
	row("with a trait", withTrait, func(r *commands.NodeRequest) { r.Traits = []string{used} })
	row("a candidate", given, func(r *commands.NodeRequest) { r.CandidateNodes = []ledger.UUID{busyNode, idleNode, idleNode} })
	row("the one of its name", given, func(r *commands.NodeRequest) { r.Name = "n" },
		patchNode(idleNode, set("/name", `"n"`)))
	row("not the one of its name, which is not free", given, func(r *commands.NodeRequest) { r.Name = "enrolled" })
	row("of no class", fails("no available nodes match the resource class none",
		because("no node has the resource class", 0)), func(r *commands.NodeRequest) { r.ResourceClass = "none" })
	row("of another owner", fails("no available nodes match the resource class metal",
		unavailable, associated, unpowered, because("neither owned nor leased by the owner", 1),
	), func(r *commands.NodeRequest) { r.Owner = "q" })
	row("without the trait", fails("no suitable nodes have the requested traits "+none+", "+used,
		unavailable, associated, unpowered, because("lacks a trait", 1),
	), func(r *commands.NodeRequest) { r.Traits = []string{none, used} })
	row("no candidate", fails("none of the requested nodes are available and match the resource class metal",
		unavailable, associated, unpowered, because("candidate that is not available or of another class", 2),
	), func(r *commands.NodeRequest) { r.CandidateNodes = []ledger.UUID{busyNode, enrolled} })
	row("its uuid runs somewhere", ledger.AllocationFailed{
		Allocation: fresh, LastError: fmt.Sprintf(
			"Instance %s is already associated with a node, it cannot be associated with this other node %s", fresh, idleNode),
	}, func(*commands.NodeRequest) {}, patchNode(idleNode, set("/instance_uuid", quote(fresh))))
	row("with too much said about its instance", ledger.AllocationFailed{
		Allocation: fresh,
		LastError: "Unexpected exception during allocation: instance_info: " +
			"ledger: a document takes at most 65536 bytes, not 65548",
	}, func(*commands.NodeRequest) {}, patchNode(idleNode,
		set("/instance_info", `{"a":"`+strings.Repeat("x", ledger.MaxDocumentBytes-8)+`"}`)))
	return append(rows,
		decision{"got one already", nil, &commands.ChooseNode{Allocation: deployed, Seed: 1}, nothing},
		decision{"failed already", nil, &commands.ChooseNode{Allocation: failed, Seed: 1}, nothing},
		decision{"not there", nil, &commands.ChooseNode{Allocation: noNode, Seed: 1}, nothing},
		decision{"no uuid", nil, &commands.ChooseNode{Seed: 1}, invalid("allocation")},
	)
}

// backfills are allocations of nodes that are already in use.
func backfills() (rows []decision) {
	active := []commands.Command{
		node(noNode), &commands.ReplaceNodeTraits{Node: noNode, Traits: []string{used}},
		&commands.SetNodeProvisionState{Node: noNode, Target: "adopt"},
	}
	runs := append(slices.Clone(active), patchNode(noNode, set("/instance_uuid", quote(instance))))
	backfill := func(change func(*commands.BackfillNodeAllocation)) *commands.BackfillNodeAllocation {
		c := &commands.BackfillNodeAllocation{Node: noNode, NewAllocation: fresh}
		change(c)
		return c
	}
	requested := func(id ledger.UUID) ledger.AllocationRequested {
		return ledger.AllocationRequested{Allocation: id, ResourceClass: "metal"}
	}
	given := func(id ledger.UUID, info ledger.Document) ledger.Event {
		return ledger.NodeAllocated{Allocation: id, Node: noNode, InstanceInfo: info}
	}
	row := func(about string, want outcome, before []commands.Command, change func(*commands.BackfillNodeAllocation)) {
		rows = append(rows, decision{about, before, backfill(change), want})
	}
	row("nothing runs there", happens(requested(fresh), given(fresh, `{"traits":[]}`)), active,
		func(*commands.BackfillNodeAllocation) {})
	row("what runs there", happens(requested(instance), given(instance, `{"traits":[]}`)), runs,
		func(*commands.BackfillNodeAllocation) {})
	asked := requested(fresh)
	asked.Name, asked.Traits, asked.CandidateNodes = "n", []string{used}, []ledger.UUID{noNode}
	row("a uuid, and all that is so", happens(asked, given(fresh, `{"traits":["CUSTOM_USED"]}`)), active,
		func(c *commands.BackfillNodeAllocation) {
			c.Allocation, c.NewAllocation, c.Name, c.ResourceClass = fresh, instance, "n", "metal"
			c.Traits, c.CandidateNodes = []string{used}, []ledger.UUID{noNode}
		})

	fails := func(request ledger.AllocationRequested, why string) outcome {
		return happens(request, ledger.AllocationFailed{Allocation: request.Allocation, LastError: why})
	}
	cannot := func(why string) string {
		return fmt.Sprintf("Failed to process allocation %s: Cannot backfill an allocation for node %s: %s.", fresh, noNode, why)
	}
	wrong := ledger.AllocationRequested{
		Allocation: fresh, ResourceClass: "gold", Traits: []string{none}, CandidateNodes: []ledger.UUID{idleNode},
	}
	row("nothing is so", fails(wrong, cannot(
		`Node must be in the "active" state, but the current state is "manageable"; `+
			"Resource class metal does not match the requested resource class gold; "+
			"List of traits ['CUSTOM_USED'] does not match the requested traits ['CUSTOM_NONE']; "+
			"Candidate nodes must be empty or contain the target node, but got ['"+idleNode.String()+"']",
	)), active[:2], func(c *commands.BackfillNodeAllocation) {
		c.ResourceClass, c.Traits, c.CandidateNodes = "gold", []string{none}, []ledger.UUID{idleNode}
	})
	row("another one runs there", fails(requested(fresh), fmt.Sprintf("Node %s is associated with instance %s.", noNode, instance)),
		runs, func(c *commands.BackfillNodeAllocation) { c.Allocation = fresh })
	row("it runs elsewhere", fails(requested(instance), fmt.Sprintf(
		"Instance %s is already associated with a node, it cannot be associated with this other node %s", instance, noNode,
	)), append(slices.Clone(active), patchNode(idleNode, set("/instance_uuid", quote(instance)))),
		func(c *commands.BackfillNodeAllocation) { c.Allocation = instance })

	row("uuid taken", rejected(demand.CodeNodeAllocationExists, demand.Facts{Name: waiting.String()}), active,
		func(c *commands.BackfillNodeAllocation) { c.Allocation = waiting })
	row("not there", unknownNodes(lostNode), nil, func(c *commands.BackfillNodeAllocation) { c.Node = lostNode })
	row("candidates that are not there", unknownNodes(lostNode), active, func(c *commands.BackfillNodeAllocation) {
		c.CandidateNodes = []ledger.UUID{lostNode}
	})
	row("too much said about the instance", invalid("instance_info"), append(slices.Clone(active), patchNode(noNode,
		set("/instance_info", `{"a":"`+strings.Repeat("x", ledger.MaxDocumentBytes-8)+`"}`))),
		func(*commands.BackfillNodeAllocation) {})
	row("no node's uuid", invalid("node"), nil, func(c *commands.BackfillNodeAllocation) { c.Node = ledger.NilUUID })
	row("no new uuid", invalid("new_allocation"), nil, func(c *commands.BackfillNodeAllocation) {
		c.NewAllocation = ledger.NilUUID
	})
	return rows
}

func changedAllocations() []decision {
	patch := func(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateNodeAllocation {
		return &commands.UpdateNodeAllocation{Allocation: id, Patch: ops}
	}
	fixed := func(field string) outcome {
		return rejected(demand.CodeInvalid, demand.Facts{Field: "patch", Name: field})
	}
	return []decision{
		{
			"a name", nil, patch(waiting, set("/name", `"n"`)),
			happens(ledger.NodeAllocationUpdated{Allocation: waiting, Name: "n"}),
		},
		{"no name", nil, patch(waiting, unset("/name")), happens(ledger.NodeAllocationUpdated{Allocation: waiting})},
		{"as it is", nil, patch(waiting, set("/name", `"waiting"`)), nothing},
		{
			"name taken", nil, patch(waiting, set("/name", `"deployed"`)),
			rejected(demand.CodeNodeAllocationExists, demand.Facts{Name: "deployed"}),
		},
		{
			"name with a blank", nil, patch(waiting, set("/name", `"a b"`)),
			rejected(demand.CodeInvalid, demand.Facts{Field: "name", Name: "a b"}),
		},
		{"what cannot change", nil, patch(waiting, set("/owner", `"q"`)), fixed("owner")},
		{"below the name", nil, patch(waiting, set("/name/a", `"q"`)), fixed("name")},

		{
			"waiting", nil, &commands.ReleaseNodeAllocation{Allocation: waiting},
			happens(ledger.NodeAllocationReleased{Allocation: waiting}),
		},
		{
			"of an available node", []commands.Command{&commands.ChooseNode{Allocation: waiting, Seed: 1}},
			&commands.ReleaseNodeAllocation{Allocation: waiting},
			happens(ledger.NodeAllocationReleased{Allocation: waiting}),
		},
		{
			"of an active node", nil, &commands.ReleaseNodeAllocation{Allocation: deployed}, nodeState(busyNode, "active"),
		},
		{
			"of an active node in maintenance",
			[]commands.Command{&commands.SetNodeMaintenance{Node: busyNode, Maintenance: true}},
			&commands.ReleaseNodeAllocation{Allocation: deployed},
			happens(ledger.NodeAllocationReleased{Allocation: deployed}),
		},
	}
}

// chassisDecisions are about chassis.
func chassisDecisions() []decision {
	long := ptr(strings.Repeat("é", ledger.MaxChassisDescriptionRunes+1))
	rack := ledger.ChassisDescription{Description: "rack", Extra: `{"a":1}`}
	patch := func(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateChassis {
		return &commands.UpdateChassis{Chassis: id, Patch: ops}
	}
	return []decision{
		{
			"new", nil, &commands.CreateChassis{Chassis: fresh, ChassisFields: commands.ChassisFields{
				Description: ptr("rack"), Extra: `{"a":1}`,
			}}, happens(ledger.ChassisCreated{Chassis: fresh, Description: rack}),
		},
		{
			"taken", nil, &commands.CreateChassis{Chassis: fullChassis},
			rejected(demand.CodeChassisExists, demand.Facts{Chassis: &fullChassis}),
		},
		{
			"description too long", nil, &commands.CreateChassis{
				Chassis: fresh, ChassisFields: commands.ChassisFields{Description: long},
			}, invalid("description"),
		},
		{"no uuid", nil, &commands.CreateChassis{}, invalid("chassis")},
		{
			"a description", nil, patch(fullChassis, set("/description", `"rack"`), set("/extra/a", "1")),
			happens(ledger.ChassisDescribed{Chassis: fullChassis, Description: rack}),
		},
		{"as it is", nil, patch(fullChassis, unset("/description")), nothing},
		{"description too long", nil, patch(fullChassis, set("/description", `"`+*long+`"`)), invalid("description")},
		{"empty", nil, &commands.DeleteChassis{Chassis: emptyChassis}, happens(ledger.ChassisDeleted{Chassis: emptyChassis})},
		{
			"with a node", nil, &commands.DeleteChassis{Chassis: fullChassis},
			rejected(demand.CodeChassisNotEmpty, demand.Facts{Chassis: &fullChassis}),
		},
	}
}

// batchDecisions carry several commands out, or none.
func batchDecisions(w *world) []decision {
	batch := func(list ...commands.Command) *commands.Batch { return &commands.Batch{Commands: list} }
	at := func(i int, want outcome) outcome {
		want.facts.Command = &i
		return want
	}
	create := &commands.CreateProvider{Provider: fresh, Name: "new"}
	stock := &commands.CreateInventory{Provider: fresh, Inventory: commands.Inventory{Class: vcpu, Total: 2}}
	take := allocations(allocate(ledgertest.ID(2, 100), fresh, vcpu, 2))
	same := &commands.RenameProvider{Provider: host, Name: "host"}
	many := slices.Repeat([]commands.Command{same}, commands.MaxBatch+1)
	return []decision{
		{
			"each after the ones before it", nil, batch(create, same, stock, take),
			happens(
				ledger.ProviderCreated{Provider: fresh, Name: "new"},
				ledger.InventorySet{Provider: fresh, Generation: 1, Inventory: record(vcpu, 2)},
				replaced(allocate(ledgertest.ID(2, 100), fresh, vcpu, 2)), advanced(fresh, 2),
			),
		},
		{"nothing to do for any", nil, batch(same, same), nothing},
		{"as many as there may be", nil, batch(many[1:]...), nothing},
		{
			"none if one is rejected", nil, batch(create, &commands.DeleteProvider{Provider: rack}),
			at(1, rejected(demand.CodeProviderHasChild, demand.Facts{Provider: &rack, Name: host.String()})),
		},
		{"none if one is not well-formed", nil, batch(create, &commands.DeleteProvider{}), at(1, invalid("provider"))},
		{
			"a consumer twice", nil,
			batch(&commands.ReleaseConsumer{Consumer: holder}, allocations(allocate(holder, host, vcpu, 2))),
			at(1, invalid("consumer")),
		},
		{"empty", nil, batch(), invalid("commands")},
		{"a batch", nil, batch(batch(create)), invalid("commands")},
		{"too many", nil, batch(many...), invalid("commands")},
	}
}

// TestDanglingChassis: in logs from before Allot had chassis, nodes may name
// missing ones. Such a node can change and leave its chassis. If a chassis of
// that uuid is made, the node is in it.
func TestDanglingChassis(t *testing.T) {
	node, rack, driver := commandstest.NewID(), commandstest.NewID(), "fake"
	s := ledger.NewState()
	created := ledger.NodeCreated{Node: node, ProvisionState: "enroll", Description: ledger.NodeDescription{
		Driver: driver, Details: ledger.Document(`{"chassis_uuid":"` + rack.String() + `"}`),
	}}
	s.Begin()
	if err := s.Apply(1, &ledger.Record{Time: 1, Events: []ledger.Event{created}}); err != nil {
		t.Fatal(err)
	}
	for _, op := range []commands.PatchOperation{
		{Op: "add", Path: "/extra/a", Value: "1"}, {Op: "remove", Path: "/chassis_uuid"},
		{Op: "replace", Path: "/chassis_uuid", Value: commands.PatchValue(`"` + rack.String() + `"`)},
	} {
		patch := []commands.PatchOperation{op}
		if _, rejection := (&commands.UpdateNode{Node: node, Patch: patch}).Decide(s); rejection != nil {
			t.Errorf("%s %s: %s", op.Op, op.Path, rejection)
		}
	}
	if _, rejection := (&commands.DeleteChassis{Chassis: rack}).Decide(s); rejection == nil ||
		rejection.Code != demand.CodeChassisNotFound {
		t.Errorf("a chassis that is only named: %v", rejection)
	}
	events, rejection := (&commands.CreateChassis{Chassis: rack}).Decide(s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	s.Begin()
	if err := s.Apply(2, &ledger.Record{Time: 2, Events: events}); err != nil {
		t.Fatal(err)
	}
	if _, rejection := (&commands.DeleteChassis{Chassis: rack}).Decide(s); rejection == nil ||
		rejection.Code != demand.CodeChassisNotEmpty {
		t.Errorf("a chassis with a node: %v", rejection)
	}
}
