package commands_test

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// aboutNothing has commands name what is not there, or nothing.
func aboutNothing() (rows []decision) {
	type named = func(ledger.UUID) commands.Command
	name := func(field string, missing ledger.UUID, want string, list ...named) {
		for _, command := range list {
			rows = append(rows,
				decision{"not there", nil, command(missing), want},
				decision{"no uuid", nil, command(ledger.NilUUID), invalid(field)})
		}
	}
	one := units(vcpu, 1)
	name("provider", gone, noProvider(gone),
		func(id ledger.UUID) commands.Command { return &commands.RenameProvider{Provider: id, Name: "new"} },
		func(id ledger.UUID) commands.Command { return &commands.ReparentProvider{Provider: id, Parent: rack} },
		func(id ledger.UUID) commands.Command {
			return &commands.UpdateProvider{Rename: commands.RenameProvider{Provider: id, Name: "new"}}
		},
		func(id ledger.UUID) commands.Command { return &commands.DeleteProvider{Provider: id} },
		func(id ledger.UUID) commands.Command { return &commands.ReplaceInventories{Provider: id} },
		func(id ledger.UUID) commands.Command { return &commands.CreateInventory{Provider: id, Inventory: one} },
		func(id ledger.UUID) commands.Command { return &commands.UpdateInventory{Provider: id, Inventory: one} },
		func(id ledger.UUID) commands.Command { return &commands.DeleteInventory{Provider: id, Class: vcpu} },
		func(id ledger.UUID) commands.Command { return &commands.DeleteInventories{Provider: id} },
		func(id ledger.UUID) commands.Command { return &commands.ReplaceProviderTraits{Provider: id} },
		func(id ledger.UUID) commands.Command { return &commands.ReplaceProviderAggregates{Provider: id} },
		func(id ledger.UUID) commands.Command { return &commands.ReplaceProviderCounters{Provider: id} },
	)
	name("consumer", fresh, "consumer_not_found{Consumer:fresh}",
		func(id ledger.UUID) commands.Command { return &commands.ReleaseConsumer{Consumer: id} },
		func(id ledger.UUID) commands.Command { return &commands.ConfirmReservation{Consumer: id} },
		func(id ledger.UUID) commands.Command { return &commands.CancelReservation{Consumer: id} },
	)
	name("node", lostNode, "node_not_found{Node:lostNode}",
		func(id ledger.UUID) commands.Command { return patchNode(id) },
		func(id ledger.UUID) commands.Command { return &commands.DeleteNode{Node: id} },
		func(id ledger.UUID) commands.Command {
			return verb(id, "manage")
		},
		func(id ledger.UUID) commands.Command {
			return &commands.SetNodePowerState{Node: id, Target: "power on"}
		},
		func(id ledger.UUID) commands.Command {
			return &commands.SetNodeMaintenance{Node: id, Maintenance: true}
		},
		func(id ledger.UUID) commands.Command { return &commands.ReplaceNodeTraits{Node: id} },
		func(id ledger.UUID) commands.Command { return &commands.AddNodeTrait{Node: id, Trait: used} },
		func(id ledger.UUID) commands.Command { return &commands.RemoveNodeTrait{Node: id, Trait: used} },
	)
	name("allocation", noNode, "node_allocation_not_found{Allocation:noNode}",
		func(id ledger.UUID) commands.Command { return &commands.UpdateNodeAllocation{Allocation: id} },
		func(id ledger.UUID) commands.Command { return releaseNode(id) },
	)
	name("chassis", noChassis, "chassis_not_found{Chassis:noChassis}",
		func(id ledger.UUID) commands.Command { return &commands.UpdateChassis{Chassis: id} },
		func(id ledger.UUID) commands.Command { return &commands.DeleteChassis{Chassis: id} },
	)
	return rows
}
