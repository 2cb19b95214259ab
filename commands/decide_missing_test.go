package commands_test

import (
	"reflect"
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// aboutNothing has commands name what is not there, or nothing.
func aboutNothing() (rows []decision) {
	name := func(field string, missing ledger.UUID, want string, list ...commands.Command) {
		for _, c := range list {
			rows = append(rows,
				decision{"not there", nil, naming(c, field, missing), want},
				decision{"no uuid", nil, naming(c, field, ledger.NilUUID), invalid(strings.ToLower(field))})
		}
	}
	name("Provider", gone, "provider_not_found{Provider:gone}",
		&commands.RenameProvider{Name: "new"}, &commands.ReparentProvider{Parent: rack}, &commands.DeleteProvider{},
		&commands.UpdateProvider{Rename: commands.RenameProvider{Name: "new"}},
		&commands.ReplaceInventories{}, &commands.CreateInventory{Inventory: units(vcpu, 1)},
		&commands.UpdateInventory{Inventory: units(vcpu, 1)}, &commands.DeleteInventory{Class: vcpu},
		&commands.DeleteInventories{}, &commands.ReplaceProviderTraits{}, &commands.ReplaceProviderAggregates{},
		&commands.ReplaceProviderCounters{},
	)
	name("Consumer", fresh, "consumer_not_found{Consumer:fresh}",
		&commands.ReleaseConsumer{}, &commands.ConfirmReservation{}, &commands.CancelReservation{})
	name("Node", lostNode, "node_not_found{Node:lostNode}",
		&commands.UpdateNode{}, &commands.DeleteNode{}, &commands.SetNodeProvisionState{Target: "manage"},
		&commands.SetNodePowerState{Target: "power on"}, &commands.SetNodeMaintenance{Maintenance: true},
		&commands.ReplaceNodeTraits{}, &commands.AddNodeTrait{Trait: used}, &commands.RemoveNodeTrait{Trait: used},
	)
	name("Allocation", noNode, "node_allocation_not_found{Allocation:noNode}",
		&commands.UpdateNodeAllocation{}, &commands.ReleaseNodeAllocation{})
	name("Chassis", noChassis, "chassis_not_found{Chassis:noChassis}",
		&commands.UpdateChassis{}, &commands.DeleteChassis{})
	return rows
}

// naming returns a copy of a command that names an entity in a field.
func naming(c commands.Command, field string, id ledger.UUID) commands.Command {
	out := reflect.New(reflect.TypeOf(c).Elem())
	out.Elem().Set(reflect.ValueOf(c).Elem())
	if update, is := out.Interface().(*commands.UpdateProvider); is {
		update.Rename.Provider = id
	} else {
		out.Elem().FieldByName(field).Set(reflect.ValueOf(id))
	}
	return out.Interface().(commands.Command)
}
