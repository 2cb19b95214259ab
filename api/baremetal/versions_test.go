package baremetal_test

import (
	"fmt"
	"strings"
	"testing"
)

// fieldsSince are the fields of nodes by the microversion that introduced
// them, as Ironic has them.
var fieldsSince = map[int][]string{
	3: {"driver_internal_info"}, 5: {"name"}, 6: {"inspection_finished_at", "inspection_started_at"}, 7: {"clean_step"},
	12: {"raid_config", "target_raid_config"}, 20: {"network_interface"}, 21: {"resource_class"},
	31: {
		"boot_interface", "console_interface", "deploy_interface", "inspect_interface", "management_interface",
		"power_interface", "raid_interface", "vendor_interface",
	},
	33: {"storage_interface"}, 37: {"traits"}, 38: {"rescue_interface"}, 40: {"bios_interface"}, 42: {"fault"}, 44: {"deploy_step"},
	46: {"conductor_group"}, 47: {"automated_clean"}, 48: {"protected", "protected_reason"}, 49: {"conductor"}, 50: {"owner"},
	51: {"description"}, 52: {"allocation_uuid"}, 61: {"retired", "retired_reason"}, 65: {"lessee"}, 66: {"network_data"},
	75: {"boot_mode", "secure_boot"}, 82: {"shard"}, 83: {"parent_node"}, 86: {"firmware_interface"}, 87: {"service_step"},
}

// settable are the fields that clients may set, each with a valid value.
var settable = map[string]string{
	"network_interface": `"x"`, "resource_class": `"bm"`, "boot_interface": `"x"`, "vendor_interface": `"x"`,
	"storage_interface": `"x"`, "rescue_interface": `"x"`, "bios_interface": `"x"`, "conductor_group": `"x"`,
	"automated_clean": "true", "owner": `"p"`, "description": `"x"`, "retired": "false", "lessee": `"p"`,
	"network_data": "{}", "shard": `"s"`, "parent_node": "null", "firmware_interface": `"x"`,
}

// TestFieldsByVersion: below its microversion a field is not shown, and a client
// that names it gets 406; from its microversion on it exists.
func TestFieldsByVersion(t *testing.T) {
	var text strings.Builder
	fmt.Fprintf(&text, "POST /v1/nodes {\"driver\":\"d\",\"uuid\":%q}\n-> 201\n", n1)
	path := "/v1/nodes/" + n1
	// asked is a request with its answers below and from a microversion.
	asked := func(minor int, request, below, from string) {
		fmt.Fprintf(&text, "1.%d %s\n%s\n1.%d %[2]s\n%[5]s\n", minor-1, request, below, minor, from)
	}
	for minor, fields := range fieldsSince {
		for _, field := range fields {
			shown := `"` + field + `":`
			asked(minor, "GET "+path, "-> 200\n-> not "+shown, "-> 200 "+shown)
			if minor > 8 { // where clients can name fields
				asked(minor, "GET "+path+"?fields="+field, "-> 406", "-> 200")
			}
			if value, can := settable[field]; can {
				patch := fmt.Sprintf(`PATCH %s [{"op":"add","path":"/%s","value":%s}]`, path, field, value)
				asked(minor, patch, "-> 406", "-> 200")
				asked(minor, fmt.Sprintf(`POST /v1/nodes {"driver":"d","%s":%s}`, field, value), "-> 406", "-> 201")
			}
		}
	}
	for filter, minor := range map[string]int{
		"provision_state=enroll": 9, "driver=d": 16, "resource_class=bm": 21, "fault=power+failure": 42, "conductor_group=x": 46,
		"conductor=x": 49, "owner=p": 50, "description_contains=x": 51, "retired=true": 61, "lessee=p": 65, "shard=s": 82,
		"sharded=true": 82, "parent_node=" + n1: 83, "include_children=true": 83,
	} {
		asked(minor, "GET /v1/nodes?"+filter, "-> 406", "-> 200")
	}
	newWorld(t).play(t, text.String())
}
