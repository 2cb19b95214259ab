package baremetal_test

import (
	"fmt"
	"regexp"
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
	w := newWorld(t)
	w.play(t, []step{{do: `POST /v1/nodes {"driver":"d","uuid":"` + n1 + `"}`, want: 201}})
	path := "/v1/nodes/" + n1
	// since plays a request below and from a microversion.
	since := func(minor int, do string, want int) {
		t.Helper()
		w.play(t, []step{
			{version: fmt.Sprintf("1.%d", minor-1), do: do, want: 406},
			{version: fmt.Sprintf("1.%d", minor), do: do, want: want},
		})
	}
	for minor, fields := range fieldsSince {
		for _, field := range fields {
			w.play(t, []step{
				{version: fmt.Sprintf("1.%d", minor-1), do: "GET " + path, want: 200, hasNot: `"` + field + `":`},
				{version: fmt.Sprintf("1.%d", minor), do: "GET " + path, want: 200, has: `"` + field + `":`},
			})
			if minor > 8 { // where clients can name fields
				since(minor, "GET "+path+"?fields="+field, 200)
			}
			if value, can := settable[field]; can {
				since(minor, fmt.Sprintf(`PATCH %s [{"op":"add","path":"/%s","value":%s}]`, path, field, value), 200)
				since(minor, fmt.Sprintf(`POST /v1/nodes {"driver":"d","%s":%s}`, field, value), 201)
			}
		}
	}
	for filter, minor := range map[string]int{
		"provision_state=enroll": 9, "driver=d": 16, "resource_class=bm": 21, "fault=power+failure": 42, "conductor_group=x": 46,
		"conductor=x": 49, "owner=p": 50, "description_contains=x": 51, "retired=true": 61, "lessee=p": 65, "shard=s": 82,
		"sharded=true": 82, "parent_node=" + n1: 83, "include_children=true": 83,
	} {
		since(minor, "GET /v1/nodes?"+filter, 200)
	}
}

// TestNodeFilters lists by shard, conductor, fault and family.
func TestNodeFilters(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{do: `POST /v1/nodes {"driver":"d","name":"one","uuid":"` + n1 + `","shard":"s1"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","name":"two","shard":"s2","parent_node":"one"}`, want: 201,
			has: `"parent_node":"` + n1 + `"`},
		{do: `POST /v1/nodes {"driver":"d","name":"three"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","parent_node":"none"}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","parent_node":"two"}`, want: 400},
		{do: `PATCH /v1/nodes/one [{"op":"add","path":"/parent_node","value":"one"}]`, want: 400},
		{do: `PATCH /v1/nodes/one [{"op":"add","path":"/automated_clean","value":"Yes"}]`, want: 200, has: `_clean":true`},
		{do: `PATCH /v1/nodes/one [{"op":"add","path":"/maintenance","value":0}]`, want: 200, has: `"maintenance":false`},
		{do: "GET /v1/nodes/one/states", want: 200, has: `"provision_state":"enroll" & "target_provision_state":null`},
		{do: "GET /v1/nodes?instance_uuid=x", want: 400}, {do: "GET /v1/nodes?parent_node=unknown", want: 400},
		{do: "GET /v1/nodes?sharded=perhaps", want: 400}, {do: "GET /v1/nodes?include_children=", want: 400},
		{do: "GET /v1/nodes?fault=bogus", want: 400, has: `Unrecognized fault \\\"bogus\\\"`},
	})
	for filter, want := range map[string]string{
		"": "[one three]", "include_children=true": "[one two three]", "parent_node=one": "[two]",
		"parent_node=" + n1: "[two]", "shard=s1": "[one]", "shard=s1,s2&include_children=True": "[one two]",
		"sharded=true": "[one]", "sharded=false": "[three]",
		"conductor=x": "[]", "fault=power+failure": "[]", "instance_uuid=" + n3: "[]", "description_contains=x": "[]",
	} {
		answer, names := w.send("", "", "GET", "/v1/nodes?"+filter, ""), []string{}
		for _, found := range nameShown.FindAllStringSubmatch(answer.Body.String(), -1) {
			names = append(names, found[1])
		}
		if got := fmt.Sprint(names); answer.Code != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", filter, answer.Code, got, want)
		}
	}
}

var nameShown = regexp.MustCompile(`"name":"(\w+)"`)

// TestSortKeys: lists can be sorted by each key.
func TestSortKeys(t *testing.T) {
	w := newWorld(t)
	w.play(t, all(node(n1, "n1", "bm"), node(n2, "n2", "bm"), []step{create(a1, ""), create(a2, ""), {do: settle}}))
	for path, keys := range map[string]string{
		"allocations": "uuid name state owner resource_class last_error node_id created_at updated_at",
		"nodes":       "uuid name owner resource_class created_at updated_at provision_state driver maintenance",
	} {
		for key := range strings.FieldsSeq(keys) {
			w.play(t, []step{{do: "GET /v1/" + path + "?limit=1&sort_key=" + key, want: 200, has: `"next"`}})
		}
	}
}

const systemReader = "other reader of the system"

// TestSmallWorlds plays what needs a world of its own.
func TestSmallWorlds(t *testing.T) {
	one := step{do: `POST /v1/nodes {"driver":"d","name":"one","owner":"p"}`, want: 201}
	for name, steps := range map[string][]step{
		"below the microversion of traits each method has the answer of Ironic's router": {
			one,
			{version: "1.36", do: "GET /v1/nodes/one/traits", want: 406},
			{version: "1.36", do: `PUT /v1/nodes/one/traits {"traits":[]}`, want: 405},
			{version: "1.36", do: "PUT /v1/nodes/one/traits/CUSTOM_A", want: 405},
			{version: "1.36", do: "DELETE /v1/nodes/one/traits", want: 404},
			{version: "1.36", do: "DELETE /v1/nodes/one/traits/CUSTOM_A", want: 404},
			{version: "1.37", do: "GET /v1/nodes/one/traits", want: 200},
		},
		"the nodes of each shard are counted, the largest first, for clients that see all nodes": {
			{do: "GET /v1/shards", want: 200, has: `{"shards":[]}`},
			{do: `POST /v1/nodes {"driver":"d","shard":"b"}`, want: 201},
			{do: `POST /v1/nodes {"driver":"d"}`, want: 201},
			{do: `POST /v1/nodes {"driver":"d","shard":"a"}`, want: 201},
			{do: `POST /v1/nodes {"driver":"d","shard":"b"}`, want: 201},
			{version: "1.82", do: "GET /v1/shards", want: 200,
				has: `[{"name":"b","count":2},{"name":"None","count":1},{"name":"a","count":1}]`},
			{version: "1.82", do: "GET /v1", want: 200, has: "/v1/shards/"},
			{version: "1.81", do: "GET /v1", want: 200, hasNot: "shards"},
			{version: "1.81", do: "GET /v1/shards", want: 404}, {do: "GET /v1/shards/b", want: 404},
			{do: "POST /v1/shards {}", want: 405}, {who: "p member", do: "GET /v1/shards", want: 403},
			{who: systemReader, do: "GET /v1/shards", want: 200},
		},
		"the newest microversion is the last before one that changes what is served": {
			{version: "1.93", do: "GET /v1/nodes", want: 200}, {version: "1.94", do: "GET /v1/nodes", want: 200},
			{version: "1.95", do: "GET /v1/nodes", want: 406, has: "[1.1, 1.94]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).play(t, steps)
		})
	}
}
