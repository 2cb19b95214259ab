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
	33: {
		"storage_interface",
	}, 37: {"traits"}, 38: {"rescue_interface"}, 40: {"bios_interface"}, 42: {"fault"}, 44: {"deploy_step"},
	46: {
		"conductor_group",
	}, 47: {"automated_clean"}, 48: {"protected", "protected_reason"}, 49: {"conductor"}, 50: {"owner"},
	51: {"description"}, 52: {"allocation_uuid"}, 61: {"retired", "retired_reason"}, 65: {"lessee"}, 66: {"network_data"},
	75: {"boot_mode", "secure_boot"}, 82: {"shard"}, 83: {"parent_node"}, 86: {"firmware_interface"}, 87: {"service_step"},
}

// settable are the fields that clients may set, each with a valid value.
var settable = map[string]string{
	"network_interface": `"x"`, "resource_class": `"bm"`, "boot_interface": `"x"`, "vendor_interface": `"x"`,
	"storage_interface": `"x"`,
	"rescue_interface":  `"x"`, "bios_interface": `"x"`, "conductor_group": `"x"`, "automated_clean": "true",
	"owner":       `"p"`,
	"description": `"x"`, "retired": "false", "lessee": `"p"`, "network_data": "{}", "shard": `"s"`,
	"parent_node": "null", "firmware_interface": `"x"`,
}

// TestFieldsByVersion: below its microversion a field is not shown, and a client
// that names it gets 406; from its microversion on it exists.
func TestFieldsByVersion(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{{do: `POST /v1/nodes {"driver":"d","uuid":"` + n1 + `"}`, want: 201}})
	path := "/v1/nodes/" + n1
	for since, fields := range fieldsSince {
		for _, field := range fields {
			below, from := fmt.Sprintf("1.%d", since-1), fmt.Sprintf("1.%d", since)
			steps := []step{
				{version: below, do: "GET " + path, want: 200, hasNot: `"` + field + `":`},
				{version: from, do: "GET " + path, want: 200, has: `"` + field + `":`},
			}
			if since > 8 { // where clients can name fields
				steps = append(steps, step{version: below, do: "GET " + path + "?fields=" + field, want: 406},
					step{version: from, do: "GET " + path + "?fields=" + field, want: 200})
			}
			if value, can := settable[field]; can {
				patch := fmt.Sprintf(`PATCH %s [{"op":"add","path":"/%s","value":%s}]`, path, field, value)
				post := fmt.Sprintf(`POST /v1/nodes {"driver":"d","%s":%s}`, field, value)
				steps = append(steps, step{version: below, do: patch, want: 406}, step{version: from, do: patch, want: 200},
					step{version: below, do: post, want: 406}, step{version: from, do: post, want: 201})
			}
			w.play(t, steps)
		}
	}
	for filter, since := range map[string]int{
		"provision_state=enroll": 9, "driver=d": 16, "resource_class=bm": 21, "fault=power+failure": 42, "conductor_group=x": 46,
		"conductor=x": 49, "owner=p": 50,
		"description_contains=x": 51, "retired=true": 61, "lessee=p": 65, "shard=s": 82, "sharded=true": 82,
		"parent_node=" + n1: 83, "include_children=true": 83,
	} {
		w.play(t, []step{
			{version: fmt.Sprintf("1.%d", since-1), do: "GET /v1/nodes?" + filter, want: 406},
			{version: fmt.Sprintf("1.%d", since), do: "GET /v1/nodes?" + filter, want: 200},
		})
	}
}

// TestNodeFilters lists by shard, conductor, fault and family.
func TestNodeFilters(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{do: `POST /v1/nodes {"driver":"d","name":"one","uuid":"` + n1 + `","shard":"s1"}`, want: 201},
		{
			do: `POST /v1/nodes {"driver":"d","name":"two","shard":"s2","parent_node":"one"}`, want: 201,
			has: `"parent_node":"` + n1 + `"`,
		},
		{do: `POST /v1/nodes {"driver":"d","name":"three"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","parent_node":"none"}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","parent_node":"two"}`, want: 400},
		{do: `PATCH /v1/nodes/one [{"op":"add","path":"/parent_node","value":"one"}]`, want: 400},
	})
	for filter, want := range map[string]string{
		"": "one three", "include_children=true": "one two three", "parent_node=one": "two", "parent_node=" + n1: "two",
		"shard=s1":                          "one",
		"shard=s1,s2&include_children=True": "one two", "sharded=true": "one", "sharded=false": "three", "conductor=x": "",
		"fault=power+failure": "",
	} {
		var has, hasNot []string
		for _, name := range []string{"one", "two", "three"} {
			if strings.Contains(want, name) {
				has = append(has, `"name":"`+name+`"`)
			} else {
				hasNot = append(hasNot, `"name":"`+name+`"`)
			}
		}
		w.play(
			t,
			[]step{
				{do: "GET /v1/nodes?" + filter, want: 200, has: strings.Join(has, " & "), hasNot: strings.Join(hasNot, " & ")},
			},
		)
	}
	w.play(t, []step{
		{do: "GET /v1/nodes?parent_node=unknown", want: 400}, {do: "GET /v1/nodes?sharded=perhaps", want: 400},
		{do: "GET /v1/nodes?include_children=", want: 400},
		{do: "GET /v1/nodes?fault=bogus", want: 400, has: `Unrecognized fault \\\"bogus\\\"`},
	})
}

// TestOldTraits: below the microversion of traits each method has the answer of
// Ironic's router.
func TestOldTraits(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + n1 + `"}`, want: 201},
		{version: "1.36", do: "GET /v1/nodes/" + n1 + "/traits", want: 406},
		{version: "1.36", do: "PUT /v1/nodes/" + n1 + `/traits {"traits":[]}`, want: 405},
		{version: "1.36", do: "PUT /v1/nodes/" + n1 + "/traits/CUSTOM_A", want: 405},
		{version: "1.36", do: "DELETE /v1/nodes/" + n1 + "/traits", want: 404},
		{version: "1.36", do: "DELETE /v1/nodes/" + n1 + "/traits/CUSTOM_A", want: 404},
		{version: "1.37", do: "GET /v1/nodes/" + n1 + "/traits", want: 200},
	})
}

// TestShards counts the nodes of each shard, the largest first, for clients that
// see all nodes.
func TestShards(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{do: "GET /v1/shards", want: 200, has: `{"shards":[]}`},
		{do: `POST /v1/nodes {"driver":"d","shard":"b"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","shard":"a"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","shard":"b"}`, want: 201},
		{
			version: "1.82", do: "GET /v1/shards", want: 200,
			has: `[{"name":"b","count":2},{"name":"None","count":1},{"name":"a","count":1}]`,
		},
		{version: "1.82", do: "GET /v1", want: 200, has: "/v1/shards/"},
		{version: "1.81", do: "GET /v1", want: 200, hasNot: "shards"},
		{version: "1.81", do: "GET /v1/shards", want: 404},
		{do: "GET /v1/shards/b", want: 404},
		{do: "POST /v1/shards {}", want: 405},
		{who: "p member", do: "GET /v1/shards", want: 403},
	})
	if r := w.sendSystem("GET", "/v1/shards", ""); r.Code != 200 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}

// TestNewestVersion: the newest microversion is the last before one that changes
// what is served.
func TestNewestVersion(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{
		{version: "1.93", do: "GET /v1/nodes", want: 200}, {version: "1.94", do: "GET /v1/nodes", want: 200},
		{version: "1.95", do: "GET /v1/nodes", want: 406, has: "[1.1, 1.94]"},
	})
}

// TestAdoptedProvider: a provider that existed before its node becomes the node's
// and keeps its name. One that is used in another way is refused.
func TestAdoptedProvider(t *testing.T) {
	w := newWorld(t)
	if rejection := w.nodeProviders(t, true); rejection != nil {
		t.Fatal(rejection)
	}
	for i, class := range map[int]string{1: "CUSTOM_BM", 2: "VCPU"} {
		body := fmt.Sprintf(`{"name":"rack%d","uuid":"%s"}`, i, doorNode(i))
		if r := w.placement("POST", "/resource_providers", body); r.Code != 200 {
			t.Fatal(r.Code, r.Body)
		}
		if class != "VCPU" {
			w.placement("PUT", "/resource_classes/"+class, "")
		}
		body = fmt.Sprintf(`{"resource_provider_generation":0,"inventories":{"%s":{"total":8}}}`, class)
		if r := w.placement("PUT", "/resource_providers/"+doorNode(i)+"/inventories", body); r.Code != 200 {
			t.Fatal(r.Code, r.Body)
		}
	}
	hold := fmt.Sprintf(
		`{"allocations":{"%s":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
		doorNode(2),
	)
	if r := w.placement("PUT", "/allocations/"+doorOwner(1), hold); r.Code != 204 {
		t.Fatal(r.Code, r.Body)
	}
	w.play(t, all(node(doorNode(1), "n1", "bm"), []step{
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + doorNode(2) + `","resource_class":"bm"}`, want: 409},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"manage"}`, want: 202},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"adopt"}`, want: 202},
	}))
	w.doorsAgree(t, "the adoption")
	if r := w.placement("GET", "/resource_providers/"+doorNode(1), ""); !strings.Contains(
		r.Body.String(), `"name":"rack1"`,
	) {
		t.Errorf("%s", r.Body)
	}
}

// TestSystemReader sees everything, and changes nothing.
func TestSystemReader(t *testing.T) {
	w := newWorld(t)
	w.play(t, []step{{do: `POST /v1/nodes {"driver":"d","name":"one","owner":"p"}`, want: 201}})
	for _, path := range []string{"/v1/nodes", "/v1/nodes/one", "/v1/allocations"} {
		if r := w.sendSystem("GET", path, ""); r.Code != 200 ||
			path != "/v1/allocations" && !strings.Contains(r.Body.String(), `"one"`) {
			t.Errorf("%s: %d %s", path, r.Code, r.Body)
		}
	}
	if r := w.sendSystem("DELETE", "/v1/nodes/one", ""); r.Code != 403 {
		t.Errorf("%d %s", r.Code, r.Body)
	}
}
