package baremetal

import (
	"iter"
	"net/url"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// nodeSince are the fields that came with a microversion. Clients below it do not
// see them, and may not name them in bodies, patches, lists of fields or filters.
var nodeSince = map[string]version{
	"driver_internal_info": 3, "name": nodeNamesSince, "inspection_finished_at": 6, "inspection_started_at": 6,
	"clean_step":  7,
	"raid_config": 12, "target_raid_config": 12, "network_interface": 20, "resource_class": nodeResourceClass,
	"boot_interface": 31, "console_interface": 31, "deploy_interface": 31, "inspect_interface": 31,
	"management_interface": 31,
	"power_interface":      31, "raid_interface": 31, "vendor_interface": 31, "storage_interface": 33,
	"traits":           traitsSince,
	"rescue_interface": 38, "bios_interface": 40, "fault": 42, "deploy_step": 44, "conductor_group": nodeConductorGroups,
	"automated_clean": nodeAutomatedClean, "protected": nodeProtectedSince, "protected_reason": nodeProtectedSince,
	"conductor": nodeConductorSince, "owner": nodeOwnerSince, "description": nodeDescription,
	"allocation_uuid": allocationsSince, "retired": nodeRetiredSince, "retired_reason": nodeRetiredSince,
	"lessee": nodeLesseeSince, "network_data": nodeNetworkData, "boot_mode": nodeBootModeSince,
	"secure_boot": nodeBootModeSince,
	"shard":       nodeShardSince, "parent_node": 83, "firmware_interface": 86, "service_step": 87,
}

// filterSince are filters that came with another microversion than the field of
// the same name.
var filterSince = map[string]version{
	"provision_state": 9, "driver": 16, "description_contains": nodeDescription, "sharded": nodeShardSince,
	"include_children": 83,
}

// known refuses names that the client's microversion does not have.
func (r nodes) known(names iter.Seq[string], since ...map[string]version) error {
	for name := range names {
		if slices.ContainsFunc(since, func(since map[string]version) bool { return r.version < since[name] }) {
			return notAcceptable()
		}
	}
	return nil
}

// shortNodeFields are the fields in a list, if the client names none.
var shortNodeFields = []string{
	"uuid", "instance_uuid", "maintenance", "power_state", "provision_state", "name", "links",
}

// nodeFieldNames are the names of all fields of a node, in Ironic's order.
var nodeFieldNames = []string{
	"uuid", "created_at", "updated_at", "automated_clean", "bios_interface", "boot_interface", "boot_mode", "clean_step",
	"conductor_group", "console_enabled", "deploy_step", "description", "console_interface", "deploy_interface",
	"firmware_interface", "inspect_interface", "management_interface", "network_interface", "power_interface",
	"raid_interface", "rescue_interface", "storage_interface", "vendor_interface", "driver", "driver_info",
	"driver_internal_info", "extra", "fault", "inspection_finished_at", "inspection_started_at", "instance_info",
	"instance_uuid", "last_error", "lessee", "maintenance", "maintenance_reason", "name", "network_data", "owner",
	"parent_node", "power_state", "properties", "protected", "protected_reason", "provision_state",
	"provision_updated_at", "raid_config", "reservation", "resource_class", "retired", "retired_reason", "secure_boot",
	"service_step", "shard", "target_power_state", "target_provision_state", "target_raid_config", "traits", "links",
	"conductor", "allocation_uuid", "chassis_uuid", "ports", "states", "portgroups", "volume",
}

// describe returns a node in the form that clients see. Fields that only
// hardware could fill are null or empty.
func (r nodes) describe(n *ledger.Node, fields []string) (object, error) {
	details, err := n.Details.Object()
	if err != nil {
		return nil, err
	}
	path := "/nodes/" + n.UUID.String()
	values := m{
		"uuid": n.UUID, "created_at": timeText(n.CreatedAt), "updated_at": timeText(n.UpdatedAt), "driver": n.Driver,
		"driver_info": n.DriverInfo, "extra": n.Extra, "instance_info": n.InstanceInfo,
		"instance_uuid": uuidOrNull(n.Instance), "lessee": orNull(n.Lessee), "maintenance": n.Maintenance,
		"maintenance_reason": orNull(n.MaintenanceReason), "name": orNull(n.Name), "owner": orNull(n.Owner),
		"power_state": orNull(n.PowerState), "properties": n.Properties, "protected": n.Protected,
		"provision_state": n.ProvisionState, "provision_updated_at": timeText(n.ProvisionUpdatedAt),
		"resource_class": orNull(n.ResourceClass), "retired": details["retired"] == true, "traits": orEmpty(n.Traits),
		"allocation_uuid": uuidOrNull(n.Allocation), "conductor_group": valueOr(details["conductor_group"], ""),
		"network_data": valueOr(details["network_data"], m{}), "console_enabled": false,
		"links": r.links(path), "ports": r.links(path + "/ports"), "states": r.links(path + "/states"),
		"portgroups": r.links(path + "/portgroups"), "volume": r.links(path + "/volume"),
	}
	for _, name := range emptyFields {
		values[name] = m{}
	}
	if r.version < availableSince && n.ProvisionState == ledger.NodeAvailable {
		values["provision_state"] = nil // before, this state had no name
	}
	var doc object
	for _, name := range nodeFieldNames {
		value, own := values[name]
		if !own {
			value = details[name]
		}
		if r.version >= nodeSince[name] {
			doc = append(doc, member{name, value})
		}
	}
	return doc.only(fields), nil
}

// emptyFields are objects that only hardware could fill.
var emptyFields = []string{
	"clean_step", "deploy_step", "driver_internal_info", "raid_config", "service_step", "target_raid_config",
}

func valueOr(value, other any) any {
	if value == nil {
		return other
	}
	return value
}

func (r nodes) fields(values url.Values) ([]string, error) {
	asked, err := fields(values, nodeFieldNames)
	for _, name := range asked {
		if r.version < nodeSince[name] {
			return nil, notAcceptable()
		}
	}
	return asked, err
}
