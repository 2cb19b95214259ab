package commands_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func nodeProviders(on bool) *commands.SetNodeProviders {
	return &commands.SetNodeProviders{On: on, Limit: 100}
}

const (
	metal   = "CUSTOM_METAL" // the class of the nodes' inventories
	noOwner = "00000000-0000-0000-0000-000000000000"
)

// whole is the inventory that a node's provider has.
func whole(class string, reserved int64) []ledger.InventoryRecord {
	return []ledger.InventoryRecord{
		{Class: class, Total: 1, Reserved: reserved, MinUnit: 1, MaxUnit: 1, StepSize: 1, Ratio: 1},
	}
}

func inventories(provider ledger.UUID, generation int64, list []ledger.InventoryRecord) ledger.Event {
	return ledger.InventoriesReplaced{Provider: provider, Generation: generation, Inventories: list}
}

// one is a node, as the inventory of its provider.
func one(node ledger.UUID, generation, reserved int64) ledger.Event {
	return inventories(node, generation, whole(metal, reserved))
}

// consumes makes a node's consumer the given allocation.
func consumes(allocation, node ledger.UUID, project string) ledger.Event {
	return ledger.AllocationsReplaced{
		Consumer: allocation, Project: project, User: noOwner, Type: "BAREMETAL",
		Allocations: []ledger.AllocationRecord{{Provider: node, Class: metal, Amount: 1}},
	}
}

// turnedOn is about nodes that are providers, too, as all below. When they are turned on, the providers of the
// enrolled, the idle and the busy node are at generation 1, 2 and 2.
func turnedOn() []decision {
	providerOf := func(id ledger.UUID) ledger.Event {
		return ledger.ProviderCreated{Provider: id, Name: id.String()}
	}
	first := happens("NodeProvidersSet{On:true}", providerOf(enrolled), "ClassCreated{ID:10002 Name:CUSTOM_METAL}",
		one(enrolled, 1, 1))
	all := happens(first, providerOf(idleNode), one(idleNode, 1, 0),
		"ProviderTraitsReplaced{Provider:idleNode Generation:2 Traits:[CUSTOM_USED]}",
		providerOf(busyNode), one(busyNode, 1, 0), consumes(deployed, busyNode, noOwner), advanced(busyNode, 2))
	return []decision{
		{"on", nil, nodeProviders(true), all},
		{"on, one node at a time", nil, &commands.SetNodeProviders{On: true, Limit: 1}, first},
		{"on again", steps{nodeProviders(true)}, nodeProviders(true), nothing},
		{"off", steps{nodeProviders(true)}, nodeProviders(false), "NodeProvidersSet{}"},
		{"off again", nil, nodeProviders(false), nothing},
		{"no nodes at a time", nil, &commands.SetNodeProviders{On: true}, invalid("limit")},
	}
}

// turnedOnAgain shows how changes from the time without node providers are
// handled or refused.
func turnedOnAgain() (rows []decision) {
	row := func(about string, c *commands.SetNodeProviders, want string, meanwhile ...commands.Command) {
		before := append(steps{nodeProviders(true), nodeProviders(false)}, meanwhile...)
		rows = append(rows, decision{about, before, c, want})
	}
	on := ledger.NodeProvidersSet{On: true}
	left := nodeProviders(true)
	left.Left = []ledger.UUID{idleNode, enrolled}
	delete := &commands.DeleteNode{Node: enrolled}
	takes := allocations(allocate(fresh, idleNode, metal, 1))
	row("an allocation ended", nodeProviders(true), happens(on, removed(deployed)),
		maintenance(busyNode, true, ""),
		releaseNode(deployed))
	row("a node was deleted", left, happens(on, ledger.ProviderDeleted{Provider: enrolled}), delete)
	row("a node was deleted, and is not known to be left", nodeProviders(true), happens(on), delete)
	row("a node was deleted that is held", left, happens(on), takes, &commands.DeleteNode{Node: idleNode})
	row("a node changed", nodeProviders(true), happens(on, one(idleNode, 3, 1)),
		maintenance(idleNode, true, ""))
	row("a node was taken in Placement", nodeProviders(true), happens(on), takes)
	onlyOne := &commands.SetNodeProviders{On: true, Limit: 1, Left: []ledger.UUID{enrolled, busyNode}}
	row("more nodes were deleted than go at a time", onlyOne, happens(on, ledger.ProviderDeleted{Provider: enrolled}),
		delete, maintenance(busyNode, true, ""),
		releaseNode(deployed), &commands.ReleaseConsumer{Consumer: deployed},
		&commands.DeleteNode{Node: busyNode})

	refused := func(why string) string { return "provider_in_use{Names:[" + why + "]}" }
	two := &commands.UpdateInventory{Provider: idleNode, Inventory: units(metal, 2)}
	second := ledgertest.ID(2, 100)
	row("a node was given to two", nodeProviders(true),
		refused("node idleNode has allocation waiting, and consumer fresh in Placement"),
		takes, choose(waiting, 1))
	row("an instance, and another consumer", nodeProviders(true),
		refused("node idleNode has instance instance, and consumer fresh in Placement"),
		takes, patchNode(idleNode, set("/instance_uuid", quote(instance))))
	row("two consumers", nodeProviders(true),
		refused("node idleNode has consumer fresh, and consumer "+second.String()+" in Placement"),
		two, takes, allocations(allocate(second, idleNode, metal, 1)))
	row("more than the node", nodeProviders(true),
		refused("consumer fresh holds 2 CUSTOM_METAL of node idleNode, which is one of CUSTOM_METAL"),
		two, allocations(allocate(fresh, idleNode, metal, 2)))
	row("an allocation that holds something else", nodeProviders(true),
		refused("consumer waiting, which would be the allocation of node idleNode, holds other resources"),
		allocations(allocate(waiting, host, vcpu, 2)), choose(waiting, 1))
	row("a provider with the name of a node", nodeProviders(true),
		refused("provider spare has the name that node fresh needs"),
		&commands.RenameProvider{Provider: spare, Name: fresh.String()}, node(fresh))
	var many steps // nodes whose names other providers have, of which 50 are listed
	var names []string
	for i := range byte(60) {
		provider, id := ledgertest.ID(1, 100+i), ledgertest.ID(5, 100+i)
		many = append(many, &commands.CreateProvider{Provider: provider, Name: id.String()}, node(id))
		names = append(names, fmt.Sprintf("provider %s has the name that node %s needs", provider, id))
	}
	row("more conflicts than are listed", nodeProviders(true), refused(strings.Join(names[:50], " ")), many...)
	return rows
}

// nodesAsProviders shows the consequences of changes of nodes for their
// providers.
func nodesAsProviders() (rows []decision) {
	row := func(about string, c commands.Command, want string, before ...commands.Command) {
		rows = append(rows, decision{"providers, too: " + about, append(steps{nodeProviders(true)}, before...), c, want})
	}
	create := func(id ledger.UUID, class *string, instance *ledger.UUID) *commands.CreateNode {
		return &commands.CreateNode{Node: id, NodeFields: commands.NodeFields{
			Driver: ptr("fake"), ResourceClass: class, InstanceUUID: instance,
		}}
	}
	const provider = "ProviderCreated{Provider:fresh Name:fresh}"
	takes := allocations(allocate(fresh, idleNode, metal, 1))
	inUse := "provider_in_use{Provider:idleNode Node:idleNode Classes:[CUSTOM_METAL]}"
	runs := func(id ledger.UUID) commands.Command { return patchNode(idleNode, set("/instance_uuid", quote(id))) }
	gold := patchNode(idleNode, set("/resource_class", `"gold"`))
	row("a new class", create(fresh, ptr("new.class ß"), nil), happens(
		"NodeCreated{Node:fresh Description:{Driver:fake ResourceClass:new.class ß} ProvisionState:enroll}", provider,
		"ClassCreated{ID:10003 Name:CUSTOM_NEW_CLASS__}", inventories(fresh, 1, whole("CUSTOM_NEW_CLASS__", 1))))
	row("no class", create(fresh, nil, nil),
		happens("NodeCreated{Node:fresh Description:{Driver:fake} ProvisionState:enroll}", provider))
	row("a name that is taken", create(fresh, nil, nil), "provider_exists{Node:fresh}",
		&commands.RenameProvider{Provider: spare, Name: fresh.String()})
	row("a provider of that uuid, of which something else is allocated", create(host, ptr("metal"), nil),
		"inventory_in_use{Provider:host Classes:[VCPU]}")
	row("a provider of that uuid, which others hold", create(host, ptr("metal"), &instance),
		"provider_in_use{Provider:host Node:host Instance:instance}")
	row("available", verb(noNode, "provide"), happens(becomes("noNode", "available"), one(noNode, 2, 0)), node(noNode))
	row("in maintenance", maintenance(idleNode, true, ""), happens(
		"NodeStateSet{Node:idleNode ProvisionState:available PowerState:power off Maintenance:true}", one(idleNode, 3, 1)))
	row("a trait that is new", &commands.AddNodeTrait{Node: idleNode, Trait: none},
		"NodeTraitsReplaced{Node:idleNode Traits:[CUSTOM_NONE CUSTOM_USED]}, TraitCreated{Name:CUSTOM_NONE}, "+
			"ProviderTraitsReplaced{Provider:idleNode Generation:3 Traits:[CUSTOM_NONE CUSTOM_USED]}")
	row("another class", gold, happens(
		"NodeDescribed{Node:idleNode Description:{Driver:fake ResourceClass:gold Owner:p}}",
		"ClassCreated{ID:10003 Name:CUSTOM_GOLD}", inventories(idleNode, 3, whole("CUSTOM_GOLD", 0))))
	row("another class of what a consumer holds", gold, "inventory_in_use{Provider:idleNode Classes:[CUSTOM_METAL]}", takes)
	row("another class of what an instance runs on", gold, "node_state{Node:idleNode State:available}", runs(instance))
	row("an instance", runs(instance), happens("NodeInstanceSet{Node:idleNode Instance:instance}", one(idleNode, 3, 1)))
	row("the consumer is the instance", runs(fresh), "NodeInstanceSet{Node:idleNode Instance:fresh}", takes)
	row("the consumer is another", runs(instance),
		"provider_in_use{Provider:idleNode Node:idleNode Instance:instance}", takes)
	row("deleted", &commands.DeleteNode{Node: enrolled},
		"NodeDeleted{Node:enrolled}, ProviderDeleted{Provider:enrolled}")
	row("deleted, with its allocation", &commands.DeleteNode{Node: busyNode},
		"NodeAllocationReleased{Allocation:deployed}, NodeDeleted{Node:busyNode}, "+
			"ConsumerRemoved{Consumer:deployed}, ProviderDeleted{Provider:busyNode}", maintenance(busyNode, true, ""))
	row("deleted, and a consumer holds it", &commands.DeleteNode{Node: idleNode}, inUse, takes)
	row("deleted, and a provider is below it", &commands.DeleteNode{Node: enrolled},
		"provider_in_use{Provider:enrolled Node:enrolled}",
		&commands.ReparentProvider{Provider: spare, Parent: enrolled})
	return rows
}

// consumersOfNodes shows the consequences of node allocations and instances for
// consumers.
func consumersOfNodes(w *world) (rows []decision) {
	row := func(about string, c commands.Command, want string, before ...commands.Command) {
		rows = append(rows, decision{"providers, too: " + about, append(steps{nodeProviders(true)}, before...), c, want})
	}
	choose := choose(waiting, 7)
	why := func(text, exclusions string) string {
		return "AllocationFailed{Allocation:waiting LastError:Failed to process allocation waiting: " + text + "." + exclusions + "}"
	}
	takes := allocations(allocate(fresh, idleNode, metal, 1))
	runs := patchNode(idleNode, set("/instance_uuid", quote(instance)))
	taken := allocations(allocate(instance, idleNode, metal, 1))
	row("a node is given", choose, happens(
		`NodeAllocated{Allocation:waiting Node:idleNode InstanceInfo:{"traits":[]} Seed:7 Free:1}`,
		consumes(waiting, idleNode, "p"), advanced(idleNode, 3)))
	row("a consumer holds the node", choose, why("no available nodes match the resource class metal",
		" Exclusions:[{Reason:not in provision state available Nodes:2} {Reason:has an instance Nodes:1} "+
			"{Reason:power state is not known Nodes:1} {Reason:held by a consumer in Placement Nodes:1}]"), takes)
	row("its uuid holds something else", choose, why("a consumer of the same uuid holds other resources", ""),
		allocations(allocate(waiting, host, vcpu, 2)))
	row("of a node in maintenance", releaseNode(deployed), happens("NodeAllocationReleased{Allocation:deployed}",
		removed(deployed), one(busyNode, 3, 1)), maintenance(busyNode, true, ""))
	backfill := &commands.BackfillNodeAllocation{Node: noNode, NewAllocation: fresh, NodeRequest: wish{Owner: "p"}}
	adopt := steps{node(noNode), verb(noNode, "adopt")}
	row("a node in use", backfill, happens("AllocationRequested{Allocation:fresh ResourceClass:metal Owner:p}",
		`NodeAllocated{Allocation:fresh Node:noNode InstanceInfo:{"traits":[]}}`, one(noNode, 2, 0),
		consumes(fresh, noNode, "p"), advanced(noNode, 3)), adopt...)
	row("a node in use by who holds something else", backfill, "node_is_provider{Consumer:holder Node:noNode}",
		append(slices.Clone(adopt), patchNode(noNode, set("/instance_uuid", quote(holder))))...)

	row("a node that is free", takes, happens(replaced(takes.Allocations[0]), advanced(idleNode, 3)))
	row("what runs on it", taken,
		happens(replaced(taken.Allocations[0]), advanced(idleNode, 4), one(idleNode, 5, 0)), runs)
	row("not what runs on it", takes, "capacity_exceeded{Provider:idleNode Consumer:fresh Node:idleNode Instance:instance "+
		"Class:CUSTOM_METAL Total:1 Reserved:1 Ratio:1 Asked:1}", runs)
	back := happens(removed(instance), one(idleNode, 6, 1))
	row("what runs on it leaves", &commands.ReleaseConsumer{Consumer: instance}, back, runs, taken)
	row("what runs on it leaves in time", &commands.CancelReservation{Consumer: instance}, back,
		runs, reserve(9, allocate(instance, idleNode, metal, 1)))

	const follows = "node_is_provider{Consumer:deployed Node:busyNode Allocation:deployed}"
	other := allocate(deployed, host, vcpu, 2)
	other.AnyGeneration = true
	classless := steps{
		&commands.CreateNode{Node: noNode, NodeFields: commands.NodeFields{Driver: ptr("fake")}},
		verb(noNode, "manage"), verb(noNode, "adopt"),
		&commands.BackfillNodeAllocation{Node: noNode, NewAllocation: fresh},
	}
	row("the consumer of an allocation", allocations(other), follows)
	row("the consumer of an allocation", &commands.ReleaseConsumer{Consumer: deployed}, follows)
	row("an allocation without a consumer", reserve(9, allocate(fresh, host, vcpu, 2)),
		"node_is_provider{Consumer:fresh Node:noNode Allocation:fresh}", classless...)
	row("the consumer of an allocation", reshape([]commands.ConsumerAllocations{other}, commands.ProviderInventories{
		Provider: spare, Generation: ptr[int64](0),
	}), follows)
	return rows
}

// placementOfNodes shows which changes of nodes Placement's clients cannot make.
func placementOfNodes() (rows []decision) {
	isNode := "node_is_provider{Provider:idleNode Node:idleNode}"
	inventory := units(metal, 2)
	for _, c := range []commands.Command{
		&commands.DeleteProvider{Provider: idleNode}, &commands.DeleteInventories{Provider: idleNode},
		&commands.ReplaceInventories{Provider: idleNode}, &commands.ReplaceProviderTraits{Provider: idleNode},
		&commands.CreateInventory{Provider: idleNode, Inventory: inventory},
		&commands.UpdateInventory{Provider: idleNode, Inventory: inventory},
		&commands.DeleteInventory{Provider: idleNode, Class: metal},
		reshape(nil, commands.ProviderInventories{Provider: idleNode, Generation: ptr[int64](2)}),
	} {
		rows = append(rows, decision{"of a node", steps{nodeProviders(true)}, c, isNode})
	}
	rows = append(rows, driverOfNodes(isNode)...)
	return append(rows,
		decision{"of nodes", steps{nodeProviders(true)}, &commands.RenameResourceClass{Name: metal, NewName: none},
			"node_is_provider{Class:CUSTOM_METAL}"},
		decision{"of nodes, when they are not providers", steps{nodeProviders(true), nodeProviders(false)},
			&commands.RenameResourceClass{Name: metal, NewName: none}, "ClassRenamed{ID:10002 Name:CUSTOM_NONE}"},
	)
}

// driverOfNodes shows what nova's driver for bare metal may say about a node's provider:
// again what follows from the node, whatever of it is reserved, and traits beside the
// node's, which stay when the node's change.
func driverOfNodes(isNode string) (rows []decision) {
	reports := func(reserved, total int64) []commands.Inventory {
		return []commands.Inventory{{
			Class: metal, Total: total, Reserved: reserved,
			MinUnit: ptr[int64](1), MaxUnit: ptr[int64](1), StepSize: ptr[int64](1),
		}}
	}
	const avx = "CUSTOM_AVX"
	row := func(name string, c commands.Command, want string, before ...commands.Command) {
		rows = append(rows, decision{name, append(steps{nodeProviders(true), &commands.CreateTrait{Name: avx}}, before...), c,
			want})
	}
	for state, node := range map[string]ledger.UUID{"enrolled": enrolled, "idle": idleNode, "busy": busyNode} {
		for reserved := range int64(2) {
			name := fmt.Sprintf("the inventory of a node that is %s, %d reserved", state, reserved)
			row(name, &commands.ReplaceInventories{Provider: node, Inventories: reports(reserved, 1)}, nothing)
			row(name, &commands.UpdateInventory{Provider: node, Inventory: reports(reserved, 1)[0]}, nothing)
		}
	}
	row("a larger one", &commands.ReplaceInventories{Provider: idleNode, Inventories: reports(0, 2)}, isNode)
	row("an old one", &commands.ReplaceInventories{
		Provider: idleNode, Generation: ptr[int64](1), Inventories: reports(0, 1),
	}, "provider_conflict{Provider:idleNode Expected:2 Got:1}")
	own, more := &commands.ReplaceProviderTraits{Provider: idleNode, Traits: []string{used}}, []string{avx, used}
	with := &commands.ReplaceProviderTraits{Provider: idleNode, Traits: more}
	row("its traits again", own, nothing)
	row("more traits", with, happens(ledger.ProviderTraitsReplaced{Provider: idleNode, Generation: 3, Traits: more}))
	row("no more of them", own, "ProviderTraitsReplaced{Provider:idleNode Generation:4 Traits:[CUSTOM_USED]}", with)
	row("not the node's", &commands.ReplaceProviderTraits{Provider: idleNode, Traits: []string{avx}}, isNode, with)
	row("the node's change", &commands.ReplaceNodeTraits{Node: idleNode}, happens(
		ledger.NodeTraitsReplaced{Node: idleNode}, ledger.ProviderTraitsReplaced{
			Provider: idleNode, Generation: 4, Traits: []string{avx},
		}), with)
	return rows
}
