package commands_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func patchNode(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateNode {
	return &commands.UpdateNode{Node: id, Patch: ops}
}

func patchChassis(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateChassis {
	return &commands.UpdateChassis{Chassis: id, Patch: ops}
}

func maintenance(node ledger.UUID, on bool, reason string) *commands.SetNodeMaintenance {
	return &commands.SetNodeMaintenance{Node: node, Maintenance: on, Reason: reason}
}

func verb(node ledger.UUID, target string) *commands.SetNodeProvisionState {
	return &commands.SetNodeProvisionState{Node: node, Target: target}
}

func choose(allocation ledger.UUID, seed uint64) *commands.ChooseNode {
	return &commands.ChooseNode{Allocation: allocation, Seed: seed}
}

func releaseNode(allocation ledger.UUID) *commands.ReleaseNodeAllocation {
	return &commands.ReleaseNodeAllocation{Allocation: allocation}
}

// set is a step of a patch; the value is JSON.
func set(path, value string) commands.PatchOperation {
	return commands.PatchOperation{Op: "add", Path: path, Value: commands.PatchValue(value)}
}

func unset(path string) commands.PatchOperation {
	return commands.PatchOperation{Op: "remove", Path: path}
}

func quote(id ledger.UUID) string { return `"` + id.String() + `"` }

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

// becomes is what happens to a node that has another state from now on.
func becomes(node, state string) string {
	return "NodeStateSet{Node:" + node + " ProvisionState:" + state + " PowerState:power off}"
}

func newNodes() (rows []decision) {
	with := func(change func(*commands.CreateNode)) *commands.CreateNode {
		c := &commands.CreateNode{Node: fresh, NodeFields: commands.NodeFields{Driver: ptr("fake")}}
		change(c)
		return c
	}
	row := func(about string, want string, change func(*commands.CreateNode)) {
		rows = append(rows, decision{about, nil, with(change), want})
	}
	row("a driver alone", "NodeCreated{Node:fresh Description:{Driver:fake} ProvisionState:enroll}",
		func(*commands.CreateNode) {})
	row("all that can be said", "NodeCreated{Node:fresh Description:{Name:n Driver:fake ResourceClass:metal Owner:p "+
		`Lessee:q Properties:{"cpus":4} Extra:{"a":1} `+
		`DriverInfo:{"ipmi_password":"******","of":{"private_key":"******"}} InstanceInfo:{"token":"******"} `+
		`Details:{"chassis_uuid":"fullChassis","parent_node":"enrolled"}} ProvisionState:available}, `+
		"NodeInstanceSet{Node:fresh Instance:instance}, "+
		"NodeStateSet{Node:fresh ProvisionState:available Maintenance:true}", func(c *commands.CreateNode) {
		c.Name, c.ResourceClass, c.Owner, c.Lessee = ptr("n"), ptr("metal"), ptr("p"), ptr("q")
		c.InstanceUUID, c.Maintenance, c.ChassisUUID, c.ParentNode = &instance, ptr(true), &fullChassis, &enrolled
		c.Properties, c.Extra, c.InstanceInfo = `{"cpus":4}`, `{"a":1}`, `{"token":"x"}`
		c.DriverInfo, c.ProvisionState = `{"ipmi_password":"x","of":{"private_key":"y"}}`, ledger.NodeAvailable
	})
	row("uuid taken", "node_exists{Name:enrolled}", func(c *commands.CreateNode) { c.Node = enrolled })
	row("name taken", "node_exists{Name:enrolled}", func(c *commands.CreateNode) { c.Name = ptr("enrolled") })
	row("instance elsewhere", "instance_associated{Node:fresh Instance:deployed}",
		func(c *commands.CreateNode) { c.InstanceUUID = &deployed })
	row("no such chassis", "chassis_unknown{Chassis:noChassis}",
		func(c *commands.CreateNode) { c.ChassisUUID = &noChassis })
	row("no such parent", "node_unknown{Names:[lostNode]}", func(c *commands.CreateNode) { c.ParentNode = &lostNode })
	row("retired and available", "node_state{Node:"+noOwner+" State:available}", func(c *commands.CreateNode) {
		c.Retired, c.ProvisionState = ptr(true), ledger.NodeAvailable
	})
	row("protected", invalid("protected"), func(c *commands.CreateNode) { c.Protected = ptr(true) })
	row("why it is protected", invalid("protected"), func(c *commands.CreateNode) { c.ProtectedReason = ptr("x") })
	row("why it is retired", invalid("retired_reason"), func(c *commands.CreateNode) { c.RetiredReason = ptr("x") })
	row("in a state of its own", invalid("provision_state"), func(c *commands.CreateNode) { c.ProvisionState = "active" })
	row("no driver", invalid("driver"), func(c *commands.CreateNode) { c.Driver = nil })
	row("no uuid", invalid("node"), func(c *commands.CreateNode) { c.Node = ledger.NilUUID })
	for _, name := range []string{"", "a b", fresh.String(), "detail", strings.Repeat("n", ledger.MaxNodeNameBytes+1)} {
		want := rejected(demand.CodeInvalid, demand.Facts{Field: "name", Name: name})
		row(fmt.Sprintf("named %.40q", name), want, func(c *commands.CreateNode) { c.Name = &name })
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
	secrets := large(ledger.MaxDocumentBytes) // which fits alone, but not in what becomes of it
	row("details too large together", invalid("details"), func(c *commands.CreateNode) {
		c.NetworkData, c.Description = secrets, ptr(strings.Repeat("é", 4096))
	})
	row("too large without secrets", invalid("driver_info"), func(c *commands.CreateNode) { c.DriverInfo = secrets })
	row("info too large", invalid("instance_info"), func(c *commands.CreateNode) { c.InstanceInfo = secrets })
	return append(rows, decision{
		"below a child", steps{with(func(c *commands.CreateNode) { c.ParentNode = &enrolled })},
		&commands.CreateNode{Node: lostNode, NodeFields: commands.NodeFields{
			Driver: ptr("fake"), NodeDetails: commands.NodeDetails{ParentNode: &fresh},
		}},
		invalid("parent_node"),
	})
}

func changedNodes() []decision {
	give := choose(waiting, 1)
	runs := patchNode(idleNode, set("/instance_uuid", quote(instance)))
	withReason := patchNode(busyNode, set("/protected", "true"), set("/protected_reason", `"x"`))
	const busy = "NodeDescribed{Node:busyNode Description:{Driver:fake ResourceClass:metal Owner:p "
	const info = `InstanceInfo:{"traits":[]}`
	return []decision{
		{"a name", nil, patchNode(idleNode, set("/name", `"n"`)),
			"NodeDescribed{Node:idleNode Description:{Name:n Driver:fake ResourceClass:metal Owner:p}}"},
		{"as it is", nil, patchNode(idleNode, set("/driver", `"fake"`)), nothing},
		{"no steps", nil, patchNode(idleNode), nothing},
		{"in and out of a chassis that is not there any more", nil, patchNode(enrolled, unset("/chassis_uuid")),
			"NodeDescribed{Node:enrolled Description:{Name:enrolled Driver:fake ResourceClass:metal}}"},
		{"maintenance", nil, patchNode(idleNode, set("/maintenance", "true")),
			"NodeStateSet{Node:idleNode ProvisionState:available PowerState:power off Maintenance:true}"},
		{"maintenance ends, and its reason", steps{maintenance(idleNode, true, "fan")},
			patchNode(idleNode, set("/maintenance", "false")), becomes("idleNode", "available")},
		{"an instance", nil, runs, "NodeInstanceSet{Node:idleNode Instance:instance}"},
		{"an instance goes", steps{runs}, patchNode(idleNode, unset("/instance_uuid")), "NodeInstanceSet{Node:idleNode}"},
		{"an instance goes, and its allocation", steps{give}, patchNode(idleNode, unset("/instance_uuid")),
			"NodeAllocationReleased{Allocation:waiting}"},
		{"an allocation of an active node goes in maintenance", steps{maintenance(busyNode, true, "fan")},
			patchNode(busyNode, unset("/instance_uuid")), "NodeAllocationReleased{Allocation:deployed}"},
		{"an allocation of an active node stays", nil, patchNode(busyNode, unset("/instance_uuid")),
			"node_state{Node:busyNode State:active}"},
		{"another instance", steps{runs}, patchNode(idleNode, set("/instance_uuid", quote(fresh))),
			"node_associated{Node:idleNode Instance:instance}"},
		{"an instance that runs elsewhere", nil, patchNode(idleNode, set("/instance_uuid", quote(deployed))),
			"instance_associated{Node:idleNode Instance:deployed}"},
		{"a class of an active node", nil, patchNode(busyNode, set("/resource_class", `"other"`)),
			"node_state{Node:busyNode State:active}"},
		{"an owner of a node whose allocation has one", steps{give}, patchNode(idleNode, set("/owner", `"q"`)),
			"node_state{Node:idleNode State:available}"},
		{"an owner of a node whose allocation has none", nil, patchNode(busyNode, unset("/owner")),
			`NodeDescribed{Node:busyNode Description:{Driver:fake ResourceClass:metal InstanceInfo:{"traits":[]}}}`},
		{"protected", nil, withReason, busy + "Protected:true " + info + ` Details:{"protected_reason":"x"}}}`},
		{"not protected, and not why", steps{withReason}, patchNode(busyNode, set("/protected", "false")),
			busy + info + "}}"},
		{"why it is protected, and it is not", nil, patchNode(busyNode, set("/protected_reason", `"x"`)),
			invalid("protected_reason")},
		{"protected before it is active", nil, patchNode(idleNode, set("/protected", "true")),
			"node_state{Node:idleNode State:available}"},
		{"retired while it is available", nil, patchNode(idleNode, set("/retired", "true")),
			"node_state{Node:idleNode State:available}"},
		{"name taken", nil, patchNode(idleNode, set("/name", `"enrolled"`)), "node_exists{Name:enrolled}"},
		{"no such chassis", nil, patchNode(idleNode, set("/chassis_uuid", quote(noChassis))),
			"chassis_unknown{Chassis:noChassis}"},
		{"no such parent", nil, patchNode(idleNode, set("/parent_node", quote(lostNode))), "node_unknown{Names:[lostNode]}"},
		{"its own parent", nil, patchNode(idleNode, set("/parent_node", quote(idleNode))), invalid("parent_node")},
		{"no driver", nil, patchNode(idleNode, unset("/driver")), invalid("driver")},
		{"a secret that makes it too large", nil,
			patchNode(idleNode, set("/driver_info", string(large(ledger.MaxDocumentBytes)))), invalid("driver_info")},
	}
}

// patchBounds holds for all commands that take a patch.
func patchBounds() (rows []decision) {
	many := slices.Repeat([]commands.PatchOperation{set("/extra/a", "1")}, 1001)
	row := func(about string, ops []commands.PatchOperation, node, chassis, allocation string) {
		rows = append(rows,
			decision{about, nil, patchNode(idleNode, ops...), node},
			decision{about, nil, patchChassis(emptyChassis, ops...), chassis},
			decision{about, nil, &commands.UpdateNodeAllocation{Allocation: waiting, Patch: ops}, allocation},
		)
	}
	wrong := func(about, want string, ops ...commands.PatchOperation) { row(about, ops, want, want, want) }
	row("as many steps as there may be", many[1:],
		`NodeDescribed{Node:idleNode Description:{Driver:fake ResourceClass:metal Owner:p Extra:{"a":1}}}`,
		`ChassisDescribed{Chassis:emptyChassis Description:{Extra:{"a":1}}}`,
		`NodeAllocationUpdated{Allocation:waiting Name:waiting Extra:{"a":1}}`)
	wrong("too many steps", invalid("patch"), many...)
	wrong("another operation", invalid("patch"), commands.PatchOperation{Op: "move", Path: "/extra", Value: "1"})
	wrong("no path", invalid("patch"), unset("extra"))
	wrong("no value", invalid("patch"), set("/extra", ""))
	wrong("nothing to remove", "patch_failed{Field:extra}", unset("/extra/a"))
	wrong("nothing to go below", "patch_failed{Field:extra}", set("/extra/a/b", "1"))
	wrong("a value of another kind", invalid("patch"), set("/extra", "1"))
	red := set("/colour", `"red"`)
	return append(rows,
		decision{"no such field", nil, patchNode(idleNode, red), invalid("patch")},
		decision{"no such field", nil, patchChassis(emptyChassis, red), invalid("patch")},
	)
}

func deletedNodes() []decision {
	adopt := steps{node(fresh), verb(fresh, "adopt")}
	protect := patchNode(busyNode, set("/protected", "true"))
	return []decision{
		{"enrolled", nil, &commands.DeleteNode{Node: enrolled}, "NodeDeleted{Node:enrolled}"},
		{"with an allocation, in maintenance", steps{maintenance(busyNode, true, "")}, &commands.DeleteNode{Node: busyNode},
			"NodeAllocationReleased{Allocation:deployed}, NodeDeleted{Node:busyNode}"},
		{"with an allocation", nil, &commands.DeleteNode{Node: busyNode}, "node_associated{Node:busyNode Instance:deployed}"},
		{"active", adopt, &commands.DeleteNode{Node: fresh}, "node_state{Node:fresh State:active}"},
		{"protected", steps{protect}, &commands.DeleteNode{Node: busyNode}, "node_protected{Node:busyNode}"},
	}
}

// nodeStateDecisions are about the life of nodes, and their traits.
func nodeStateDecisions() []decision {
	action := func(id ledger.UUID, target, state string) string {
		return rejected(demand.CodeNodeAction, demand.Facts{Node: &id, Name: target, State: state})
	}
	manageable := steps{node(fresh)}
	active := append(slices.Clone(manageable), verb(fresh, "adopt"))
	runs := append(slices.Clone(active), patchNode(fresh, set("/instance_uuid", quote(instance))))
	retired := append(slices.Clone(manageable), patchNode(fresh, set("/retired", "true")))
	retiredActive := append(slices.Clone(active), patchNode(fresh, set("/retired", "true")))
	protect := steps{patchNode(busyNode, set("/protected", "true"))}
	undeployed := "NodeAllocationReleased{Allocation:deployed}, NodeDescribed{Node:busyNode Description:{Driver:fake " +
		"ResourceClass:metal Owner:p}}, " + becomes("busyNode", "available")
	rows := []decision{
		{"manage, and its power is off", nil, verb(enrolled, "manage"), becomes("enrolled", "manageable")},
		{"manage what is available", nil, verb(idleNode, "manage"), becomes("idleNode", "manageable")},
		{"provide", manageable, verb(fresh, "provide"), becomes("fresh", "available")},
		{"adopt", manageable, verb(fresh, "adopt"), becomes("fresh", "active")},
		{"active", nil, verb(idleNode, "active"), becomes("idleNode", "active")},
		{"deploy", nil, verb(idleNode, "deploy"), becomes("idleNode", "active")},
		{"rebuild", nil, verb(busyNode, "rebuild"), becomes("busyNode", "active")},
		{"deleted", nil, verb(busyNode, "deleted"), undeployed},
		{"undeploy", nil, verb(busyNode, "undeploy"), undeployed},
		{"deleted, with an instance alone", runs, verb(fresh, "deleted"),
			"NodeInstanceSet{Node:fresh}, " + becomes("fresh", "available")},
		{"deleted, and retired", retiredActive, verb(fresh, "deleted"), becomes("fresh", "manageable")},
		{"provide, and retired", retired, verb(fresh, "provide"), "node_retired{Node:fresh State:manageable}"},
		{"active, in maintenance", steps{maintenance(idleNode, true, "")}, verb(idleNode, "active"),
			"node_maintenance{Node:idleNode State:available}"},
		{"rebuild, in maintenance", steps{maintenance(busyNode, true, "")}, verb(busyNode, "rebuild"),
			"node_maintenance{Node:busyNode State:active}"},
		{"deleted, and protected", protect, verb(busyNode, "deleted"), "node_protected{Node:busyNode}"},
		{"rebuild, and protected", protect, verb(busyNode, "rebuild"), "node_protected{Node:busyNode}"},
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
	is := func(state string) string {
		return happens(ledger.NodeStateSet{Node: idleNode, ProvisionState: ledger.NodeAvailable, PowerState: state})
	}
	fan := maintenance(idleNode, true, "fan")
	return []decision{
		{"on", nil, power(idleNode, "power on"), is("power on")},
		{"rebooting", nil, power(idleNode, "rebooting"), is("power on")},
		{"soft rebooting", nil, power(idleNode, "soft rebooting"), is("power on")},
		{"off", nil, power(idleNode, "power off"), nothing},
		{"softly off", nil, power(idleNode, "soft power off"), nothing},
		{"no such target", nil, power(idleNode, "sleep"), "node_action{Node:idleNode State:available Name:sleep}"},

		{"in", nil, fan, "NodeStateSet{Node:idleNode ProvisionState:available PowerState:power off Maintenance:true " +
			"MaintenanceReason:fan}"},
		{"out, and no reason any more", steps{fan}, maintenance(idleNode, false, "fan"), becomes("idleNode", "available")},
		{"in again", steps{fan}, fan, nothing},
		{"a reason too long", nil, maintenance(idleNode, true, strings.Repeat("x", ledger.MaxMaintenanceReasonBytes+1)),
			invalid("reason")},
		{"a reason that is no text", nil, maintenance(idleNode, true, "\xff"), invalid("reason")},
	}
}

func nodeTraits() (rows []decision) {
	replaced := func(names ...string) string {
		return happens(ledger.NodeTraitsReplaced{Node: idleNode, Traits: names})
	}
	replace := func(names ...string) *commands.ReplaceNodeTraits {
		return &commands.ReplaceNodeTraits{Node: idleNode, Traits: names}
	}
	many := make([]string, ledger.MaxNodeTraits+1)
	for i := range many {
		many[i] = fmt.Sprintf("CUSTOM_%02d", i)
	}
	tooMany := "invalid{Field:traits Node:idleNode}"
	rows = []decision{
		{"sorted, each once", nil, replace(used, "HW_CPU_X86_AVX", none, used), replaced(none, used, "HW_CPU_X86_AVX")},
		{"none", nil, replace(), replaced()},
		{"as they are", nil, replace(used), nothing},
		{"as many as there may be", nil, replace(many[1:]...), replaced(many[1:]...)},
		{"too many", nil, replace(many...), tooMany},
		{"one more", nil, &commands.AddNodeTrait{Node: idleNode, Trait: none}, replaced(none, used)},
		{"one that it has", nil, &commands.AddNodeTrait{Node: idleNode, Trait: used}, nothing},
		{"one too many", steps{replace(many[1:]...)}, &commands.AddNodeTrait{Node: idleNode, Trait: many[0]}, tooMany},
		{"its last", nil, &commands.RemoveNodeTrait{Node: idleNode, Trait: used}, replaced()},
		{"one that it lacks", nil, &commands.RemoveNodeTrait{Node: idleNode, Trait: none},
			"node_trait_not_found{Node:idleNode Name:CUSTOM_NONE}"},
	}
	for about, name := range map[string]string{
		"neither custom nor standard": "GOLD", "small letters": "CUSTOM_gold", "a prefix alone": "CUSTOM_",
	} {
		wrong := rejected(demand.CodeInvalid, demand.Facts{Field: "traits", Name: name})
		rows = append(rows,
			decision{about, nil, replace(name), wrong},
			decision{about, nil, &commands.AddNodeTrait{Node: idleNode, Trait: name}, wrong},
		)
	}
	return rows
}

type wish = commands.NodeRequest

// request asks for a node, of class metal if for no other one.
func request(r wish) *commands.RequestNodeAllocation { return requestAs(fresh, r) }

func requestAs(allocation ledger.UUID, r wish) *commands.RequestNodeAllocation {
	r.ResourceClass = cmp.Or(r.ResourceClass, "metal")
	return &commands.RequestNodeAllocation{Allocation: allocation, NodeRequest: r}
}

func requests() (rows []decision) {
	rows = []decision{
		{"all that can be said", nil, request(wish{
			Name: "n", Traits: []string{used, none}, Owner: "p", Extra: `{"a":1}`,
			CandidateNodes: []ledger.UUID{idleNode, busyNode},
		}), "AllocationRequested{Allocation:fresh Name:n ResourceClass:metal Owner:p Traits:[CUSTOM_USED CUSTOM_NONE] " +
			`CandidateNodes:[idleNode busyNode] Extra:{"a":1}}`},
		{"uuid taken", nil, requestAs(waiting, wish{}), "node_allocation_exists{Name:waiting}"},
		{"name taken", nil, request(wish{Name: "waiting"}), "node_allocation_exists{Name:waiting}"},
		{"candidates that are not there", nil,
			request(wish{CandidateNodes: []ledger.UUID{lostNode, idleNode, noNode, lostNode}}),
			"node_unknown{Names:[lostNode noNode]}"},
		{"no uuid", nil, requestAs(ledger.NilUUID, wish{}), invalid("allocation")},
		{"no class", nil, &commands.RequestNodeAllocation{Allocation: fresh}, invalid("resource_class")},
		{"no such trait", nil, request(wish{Traits: []string{"GOLD"}}), "invalid{Field:traits Name:GOLD}"},
	}
	long, many := strings.Repeat("é", ledger.MaxOwnerRunes+1), make([]ledger.UUID, ledger.MaxCandidateNodes+1)
	for about, c := range map[string]struct {
		asked wish
		want  string
	}{
		"class too long":      {wish{ResourceClass: long}, invalid("resource_class")},
		"owner too long":      {wish{Owner: long}, invalid("owner")},
		"too many traits":     {wish{Traits: make([]string, 1001)}, invalid("traits")},
		"too many candidates": {wish{CandidateNodes: many}, invalid("candidate_nodes")},
		"name with a blank":   {wish{Name: "a b"}, "invalid{Field:name Name:a b}"},
	} {
		also := &commands.BackfillNodeAllocation{Node: busyNode, NewAllocation: fresh, NodeRequest: c.asked}
		rows = append(rows, decision{about, nil, request(c.asked), c.want}, decision{about, nil, also, c.want})
	}
	return rows
}

// choices are nodes for a requested allocation, or the reasons why there is none.
func choices() (rows []decision) {
	row := func(about, want string, asked wish, before ...commands.Command) {
		rows = append(rows, decision{about, append(before, request(asked)), choose(fresh, 7), want})
	}
	fails := func(why string) string { return "AllocationFailed{Allocation:fresh LastError:" + why + "}" }
	unfit := func(why, exclusion string) string {
		return fails("Failed to process allocation fresh: " + why + ". Exclusions:[" +
			"{Reason:not in provision state available Nodes:2} {Reason:has an instance Nodes:1} " +
			"{Reason:power state is not known Nodes:1} {Reason:" + exclusion + "}]")
	}
	const given = `NodeAllocated{Allocation:fresh Node:idleNode InstanceInfo:{"traits":[]} Seed:7 Free:1}`

	row("the one that is free", given, wish{})
	row("of the owner", given, wish{Owner: "p"})
	row("with a trait", strings.Replace(given, "[]", `["CUSTOM_USED"]`, 1), wish{Traits: []string{used}})
	row("a candidate", given, wish{CandidateNodes: []ledger.UUID{busyNode, idleNode, idleNode}})
	row("the one of its name", given, wish{Name: "n"}, patchNode(idleNode, set("/name", `"n"`)))
	row("not the one of its name, which is not free", given, wish{Name: "enrolled"})
	row("of no class", fails("Failed to process allocation fresh: no available nodes match the resource class none. "+
		"Exclusions:[{Reason:no node has the resource class}]"), wish{ResourceClass: "none"})
	row("of another owner", unfit("no available nodes match the resource class metal",
		"neither owned nor leased by the owner Nodes:1"), wish{Owner: "q"})
	row("without the trait", unfit("no suitable nodes have the requested traits CUSTOM_NONE, CUSTOM_USED",
		"lacks a trait Nodes:1"), wish{Traits: []string{none, used}})
	row("no candidate", unfit("none of the requested nodes are available and match the resource class metal",
		"candidate that is not available or of another class Nodes:2"),
		wish{CandidateNodes: []ledger.UUID{busyNode, enrolled}})
	row("its uuid runs somewhere", fails("Instance fresh is already associated with a node, it cannot be associated with "+
		"this other node idleNode"), wish{}, patchNode(idleNode, set("/instance_uuid", quote(fresh))))
	row("with too much said about its instance", fails("Unexpected exception during allocation: instance_info: "+
		"ledger: a document takes at most 65536 bytes, not 65548"), wish{}, fullInfo(idleNode))
	return append(rows,
		decision{"got one already", nil, choose(deployed, 1), nothing},
		decision{"failed already", nil, choose(failed, 1), nothing},
		decision{"not there", nil, choose(noNode, 1), nothing},
		decision{"no uuid", nil, &commands.ChooseNode{Seed: 1}, invalid("allocation")},
	)
}

// fullInfo leaves no room in the information about a node's instance.
func fullInfo(node ledger.UUID) commands.Command {
	return patchNode(node, set("/instance_info", `{"a":"`+strings.Repeat("x", ledger.MaxDocumentBytes-8)+`"}`))
}

// backfills are allocations of nodes that are already in use.
func backfills() (rows []decision) {
	active := steps{
		node(noNode), &commands.ReplaceNodeTraits{Node: noNode, Traits: []string{used}}, verb(noNode, "adopt"),
	}
	runs := append(slices.Clone(active), patchNode(noNode, set("/instance_uuid", quote(instance))))
	elsewhere := append(slices.Clone(active), patchNode(idleNode, set("/instance_uuid", quote(instance))))
	row := func(about string, want string, before steps, allocation ledger.UUID, asked wish) {
		c := &commands.BackfillNodeAllocation{
			Node: noNode, Allocation: allocation, NewAllocation: fresh, NodeRequest: asked,
		}
		rows = append(rows, decision{about, before, c, want})
	}
	taken := func(allocation string) string {
		return "AllocationRequested{Allocation:" + allocation + " ResourceClass:metal}, " +
			"NodeAllocated{Allocation:" + allocation + ` Node:noNode InstanceInfo:{"traits":[]}}`
	}
	row("nothing runs there", taken("fresh"), active, ledger.NilUUID, wish{})
	row("what runs there", taken("instance"), runs, ledger.NilUUID, wish{})
	row("a uuid, and all that is so", "AllocationRequested{Allocation:instance Name:n ResourceClass:metal "+
		"Traits:[CUSTOM_USED] CandidateNodes:[noNode]}, NodeAllocated{Allocation:instance Node:noNode "+
		`InstanceInfo:{"traits":["CUSTOM_USED"]}}`, active, instance, wish{
		Name: "n", ResourceClass: "metal", Traits: []string{used}, CandidateNodes: []ledger.UUID{noNode},
	})

	fails := func(allocation, why string) string {
		return "AllocationRequested{Allocation:" + allocation + " ResourceClass:metal}, " +
			"AllocationFailed{Allocation:" + allocation + " LastError:" + why + "}"
	}
	row("nothing is so", "AllocationRequested{Allocation:fresh ResourceClass:gold Traits:[CUSTOM_NONE] "+
		"CandidateNodes:[idleNode]}, AllocationFailed{Allocation:fresh LastError:Failed to process allocation fresh: "+
		"Cannot backfill an allocation for node noNode: "+
		`Node must be in the "active" state, but the current state is "manageable"; `+
		"Resource class metal does not match the requested resource class gold; "+
		"List of traits ['CUSTOM_USED'] does not match the requested traits ['CUSTOM_NONE']; "+
		"Candidate nodes must be empty or contain the target node, but got ['idleNode'].}", active[:2], ledger.NilUUID,
		wish{ResourceClass: "gold", Traits: []string{none}, CandidateNodes: []ledger.UUID{idleNode}})
	row("another one runs there", fails("fresh", "Node noNode is associated with instance instance."), runs, fresh, wish{})
	row("it runs elsewhere", fails("instance", "Instance instance is already associated with a node, it cannot be "+
		"associated with this other node noNode"), elsewhere, instance, wish{})

	row("uuid taken", "node_allocation_exists{Name:waiting}", active, waiting, wish{})
	row("candidates that are not there", "node_unknown{Names:[lostNode]}", active, ledger.NilUUID,
		wish{CandidateNodes: []ledger.UUID{lostNode}})
	row("too much said about the instance", invalid("instance_info"), append(slices.Clone(active), fullInfo(noNode)),
		ledger.NilUUID, wish{})
	return append(rows,
		decision{"not there", nil, &commands.BackfillNodeAllocation{Node: lostNode, NewAllocation: fresh},
			"node_unknown{Names:[lostNode]}"},
		decision{"no node's uuid", nil, &commands.BackfillNodeAllocation{NewAllocation: fresh}, invalid("node")},
		decision{"no new uuid", nil, &commands.BackfillNodeAllocation{Node: noNode}, invalid("new_allocation")},
	)
}

func changedAllocations() []decision {
	patch := func(id ledger.UUID, ops ...commands.PatchOperation) *commands.UpdateNodeAllocation {
		return &commands.UpdateNodeAllocation{Allocation: id, Patch: ops}
	}
	return []decision{
		{"a name", nil, patch(waiting, set("/name", `"n"`)), "NodeAllocationUpdated{Allocation:waiting Name:n}"},
		{"no name", nil, patch(waiting, unset("/name")), "NodeAllocationUpdated{Allocation:waiting}"},
		{"as it is", nil, patch(waiting, set("/name", `"waiting"`)), nothing},
		{"name taken", nil, patch(waiting, set("/name", `"deployed"`)), "node_allocation_exists{Name:deployed}"},
		{"name with a blank", nil, patch(waiting, set("/name", `"a b"`)), "invalid{Field:name Name:a b}"},
		{"what cannot change", nil, patch(waiting, set("/owner", `"q"`)), "invalid{Field:patch Name:owner}"},
		{"below the name", nil, patch(waiting, set("/name/a", `"q"`)), "invalid{Field:patch Name:name}"},

		{"waiting", nil, releaseNode(waiting), "NodeAllocationReleased{Allocation:waiting}"},
		{"of an available node", steps{choose(waiting, 1)}, releaseNode(waiting),
			"NodeAllocationReleased{Allocation:waiting}"},
		{"of an active node", nil, releaseNode(deployed), "node_state{Node:busyNode State:active}"},
		{"of an active node in maintenance", steps{maintenance(busyNode, true, "")}, releaseNode(deployed),
			"NodeAllocationReleased{Allocation:deployed}"},
	}
}

// chassisDecisions are about chassis.
func chassisDecisions() []decision {
	long := ptr(strings.Repeat("é", ledger.MaxChassisDescriptionRunes+1))
	create := func(description *string, extra ledger.Document) *commands.CreateChassis {
		return &commands.CreateChassis{
			Chassis: fresh, ChassisFields: commands.ChassisFields{Description: description, Extra: extra},
		}
	}
	return []decision{
		{"new", nil, create(ptr("rack"), `{"a":1}`),
			`ChassisCreated{Chassis:fresh Description:{Description:rack Extra:{"a":1}}}`},
		{"taken", nil, &commands.CreateChassis{Chassis: fullChassis}, "chassis_exists{Chassis:fullChassis}"},
		{"description too long", nil, create(long, ""), invalid("description")},
		{"no uuid", nil, &commands.CreateChassis{}, invalid("chassis")},
		{"a description", nil, patchChassis(fullChassis, set("/description", `"rack"`), set("/extra/a", "1")),
			`ChassisDescribed{Chassis:fullChassis Description:{Description:rack Extra:{"a":1}}}`},
		{"as it is", nil, patchChassis(fullChassis, unset("/description")), nothing},
		{"description too long", nil, patchChassis(fullChassis, set("/description", `"`+*long+`"`)), invalid("description")},
		{"empty", nil, &commands.DeleteChassis{Chassis: emptyChassis}, "ChassisDeleted{Chassis:emptyChassis}"},
		{"with a node", nil, &commands.DeleteChassis{Chassis: fullChassis}, "chassis_not_empty{Chassis:fullChassis}"},
	}
}

// batchDecisions carry several commands out, or none.
func batchDecisions(w *world) []decision {
	create := &commands.CreateProvider{Provider: fresh, Name: "new"}
	stock := &commands.CreateInventory{Provider: fresh, Inventory: units(vcpu, 2)}
	take := allocations(allocate(ledgertest.ID(2, 100), fresh, vcpu, 2))
	same := &commands.RenameProvider{Provider: host, Name: "host"}
	many := slices.Repeat(steps{same}, commands.MaxBatch+1)
	return []decision{
		{"each after the ones before it", nil, batch(create, same, stock, take), happens(
			ledger.ProviderCreated{Provider: fresh, Name: "new"},
			ledger.InventorySet{Provider: fresh, Generation: 1, Inventory: record(vcpu, 2)},
			replaced(take.Allocations[0]), advanced(fresh, 2))},
		{"nothing to do for any", nil, batch(same, same), nothing},
		{"as many as there may be", nil, batch(many[1:]...), nothing},
		{"none if one is rejected", nil, batch(create, &commands.DeleteProvider{Provider: rack}),
			"provider_has_child{Provider:rack Name:host Command:1}"},
		{"none if one is not well-formed", nil, batch(create, &commands.DeleteProvider{}),
			"invalid{Field:provider Command:1}"},
		{"a consumer twice", nil,
			batch(&commands.ReleaseConsumer{Consumer: holder}, allocations(allocate(holder, host, vcpu, 2))),
			"invalid{Field:consumer Command:1}"},
		{"empty", nil, batch(), invalid("commands")},
		{"a batch", nil, batch(batch(create)), invalid("commands")},
		{"too many", nil, batch(many...), invalid("commands")},
	}
}

// TestDanglingChassis: in logs from before Allot had chassis, nodes may name
// missing ones. Such a node can change and leave its chassis. If a chassis of
// that uuid is made, the node is in it.
func TestDanglingChassis(t *testing.T) {
	w := &world{Scratch: commands.NewScratch(ledger.NewState()), t: t}
	created := ledger.NodeCreated{Node: enrolled, ProvisionState: "enroll", Description: ledger.NodeDescription{
		Driver: "fake", Details: ledger.Document(`{"chassis_uuid":` + quote(fullChassis) + `}`),
	}}
	w.State().Begin()
	ledgertest.OK(t, w.State().Apply(1, &ledger.Record{Time: 1, Events: []ledger.Event{created}}))
	for _, c := range []struct {
		command commands.Command
		code    demand.Code
	}{
		{patchNode(enrolled, set("/extra/a", "1")), ""}, {patchNode(enrolled, unset("/chassis_uuid")), ""},
		{patchNode(enrolled, commands.PatchOperation{
			Op: "replace", Path: "/chassis_uuid", Value: commands.PatchValue(quote(fullChassis)),
		}), ""},
		{&commands.DeleteChassis{Chassis: fullChassis}, demand.CodeChassisNotFound},
	} {
		if got := w.decide(c.command); got.code != c.code {
			t.Errorf("%+v: %s", c.command, got)
		}
	}
	w.accept(&commands.CreateChassis{Chassis: fullChassis})
	if got := w.decide(&commands.DeleteChassis{Chassis: fullChassis}); got.code != demand.CodeChassisNotEmpty {
		t.Errorf("a chassis with a node: %s", got)
	}
}
