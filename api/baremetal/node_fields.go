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

// interfaceNames are the names in the fields NAME_interface, in Ironic's order.
var interfaceNames = []string{
	"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network", "power", "raid", "rescue",
	"storage", "vendor",
}

// describe returns a node in the form that clients see. Fields that only
// hardware could fill are null or empty.
func (r nodes) describe(n *ledger.Node, fields []string) (object, error) {
	details, err := n.Details.Object()
	if err != nil {
		return nil, err
	}
	id := n.UUID.String()
	path := "/nodes/" + id
	doc := object{
		{"uuid", n.UUID}, {"created_at", timeText(n.CreatedAt)}, {"updated_at", timeText(n.UpdatedAt)},
		{"automated_clean", details["automated_clean"]},
	}
	for _, name := range interfaceNames[:2] {
		doc = append(doc, member{name + "_interface", details[name+"_interface"]})
	}
	doc = append(
		doc,
		member{
			"boot_mode", nil,
		},
		member{"clean_step", m{}},
		member{"conductor_group", valueOr(details["conductor_group"], "")},
		member{"console_enabled", false},
		member{"deploy_step", m{}},
		member{"description", details["description"]},
	)
	for _, name := range interfaceNames[2:] {
		doc = append(doc, member{name + "_interface", details[name+"_interface"]})
	}
	doc = append(doc, object{
		{
			"driver", n.Driver,
		}, {"driver_info", n.DriverInfo}, {"driver_internal_info", m{}}, {"extra", n.Extra}, {"fault", nil},
		{"inspection_finished_at", nil}, {"inspection_started_at", nil}, {"instance_info", n.InstanceInfo},
		{"instance_uuid", uuidOrNull(n.Instance)}, {"last_error", nil}, {"lessee", orNull(n.Lessee)},
		{"maintenance", n.Maintenance}, {"maintenance_reason", orNull(n.MaintenanceReason)}, {"name", orNull(n.Name)},
		{
			"network_data", valueOr(details["network_data"], m{}),
		}, {"owner", orNull(n.Owner)}, {"parent_node", details["parent_node"]}, {"power_state", orNull(n.PowerState)},
		{"properties", n.Properties}, {"protected", n.Protected}, {"protected_reason", details["protected_reason"]},
		{"provision_state", n.ProvisionState}, {"provision_updated_at", timeText(n.ProvisionUpdatedAt)},
		{"raid_config", m{}}, {"reservation", nil}, {"resource_class", orNull(n.ResourceClass)},
		{"retired", details["retired"] == true}, {"retired_reason", details["retired_reason"]}, {"secure_boot", nil},
		{
			"service_step", m{},
		}, {"shard", details["shard"]},
		{"target_power_state", nil}, {"target_provision_state", nil}, {"target_raid_config", m{}},
		{"traits", orEmpty(n.Traits)}, {"links", r.links(path)}, {"conductor", nil},
		{"allocation_uuid", uuidOrNull(n.Allocation)}, {"chassis_uuid", details["chassis_uuid"]},
		{"ports", r.links(path + "/ports")}, {"states", r.links(path + "/states")},
		{"portgroups", r.links(path + "/portgroups")}, {"volume", r.links(path + "/volume")},
	}...)
	doc = slices.DeleteFunc(doc, func(m member) bool { return r.version < nodeSince[m.key] })
	if r.version < availableSince && n.ProvisionState == ledger.NodeAvailable {
		for i := range doc {
			if doc[i].key == "provision_state" {
				doc[i].value = nil // before, this state had no name
			}
		}
	}
	return doc.only(fields), nil
}

// valueOr returns a value, or another one if it is null.
func valueOr(value, other any) any {
	if value == nil {
		return other
	}
	return value
}

// nodeFieldNames are the names of all fields of a node.
var nodeFieldNames = func() []string {
	var names []string
	doc, err := nodes{&request{version: maxVersion}}.describe(&ledger.Node{}, nil)
	if err != nil {
		panic(err) // a node without details
	}
	for _, m := range doc {
		names = append(names, m.key)
	}
	return names
}()

func (r nodes) fields(values url.Values) ([]string, error) {
	asked, err := fields(values, nodeFieldNames)
	for _, name := range asked {
		if r.version < nodeSince[name] {
			return nil, notAcceptable()
		}
	}
	return asked, err
}
