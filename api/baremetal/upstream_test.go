package baremetal_test

import (
	"strings"
	"testing"
)

// Tests of upstream Ironic's allocations API, under their names there
// (ironic/tests/unit/api/controllers/v1/test_allocation.py), as requests and answers.

const (
	n1 = "11111111-0000-4000-8000-000000000001"
	n2 = "11111111-0000-4000-8000-000000000002"
	n3 = "11111111-0000-4000-8000-000000000003"
	a1 = "aaaaaaaa-0000-4000-8000-000000000001"
	a2 = "aaaaaaaa-0000-4000-8000-000000000002"
	a3 = "aaaaaaaa-0000-4000-8000-000000000003"
)

// create requests an allocation that fails, because no node has its class.
func create(id, more string) step {
	return step{do: `POST /v1/allocations {"uuid":"` + id + `","resource_class":"none"` + more + `}`, want: 201}
}

func named(id, name string) step { return create(id, `,"name":"`+name+`"`) }

func five() []step {
	var steps []step
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		steps = append(steps, create(strings.TrimSuffix(a1, "1")+n, `,"name":"al`+n+`"`))
	}
	return steps
}

// allocated is an active allocation of the only node.
func allocated() []step {
	return all(node(n1, "n1", "bm"), []step{
		{do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm","name":"al"}`, want: 201},
		{do: settle},
		{do: "GET /v1/allocations/al", want: 200, has: `"state":"active" & "node_uuid":"` + n1 + `"`},
	})
}

// deployed is a node that is active without an allocation.
func deployed(more ...step) []step {
	return all(
		node(n1, "n1", "bm"), more, []step{{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202}},
	)
}

func patchTo(id, patch string, want int, has string) step {
	return step{do: "PATCH /v1/allocations/" + id + " " + patch, want: want, has: has}
}

// The senders: a member of project p, one of another project, a reader of p.
const (
	member   = "u:p member,reader"
	stranger = "u:q member,reader"
	reader   = "u:p reader"
	roleless = "u:p none"
	unscoped = ": reader"
)

var upstreamLists = map[string][]step{
	"empty": {{do: "GET /v1/allocations", want: 200, has: `{"allocations":[]}`}},
	"get_one": {named(a1, "al"), {do: "GET /v1/allocations/" + a1, want: 200,
		has: `"uuid":"` + a1 + `" & "name":"al" & "extra":{} & "node_uuid":null & "owner":null`, hasNot: `"node_id"`}},
	"get_one_with_json": {
		named(a1, "al"), {version: "1.90", do: "GET /v1/allocations/" + a1 + ".json", want: 200, has: a1},
	},
	"get_one_with_json_not_found": {named(a1, "al"), {do: "GET /v1/allocations/" + a1 + ".json", want: 404}},
	"get_one_with_double_json": {
		named(a1, "pg.json"), {version: "1.90", do: "GET /v1/allocations/pg.json.json", want: 200, has: a1},
	},
	"get_one_custom_fields": {
		named(a1, "al"),
		{
			do: "GET /v1/allocations/al?fields=resource_class,extra", want: 200,
			has: `{"extra":{},"resource_class":"none","links":`, hasNot: `"uuid" & "name"`,
		},
	},
	"get_custom_fields_invalid_fields": {
		named(a1, "al"), {do: "GET /v1/allocations/al?fields=uuid,spongebob", want: 400, has: "spongebob"},
	},
	"get_one_invalid_api_version": {
		named(a1, "al"), {version: "none", do: "GET /v1/allocations/al", want: 404},
	},
	"links": {
		named(a1, "al"),
		{
			do: "GET /v1/allocations/al", want: 200,
			has: `"http://example.com/v1/allocations/` + a1 + `","rel":"self" & "http://example.com/allocations/` + a1 + `","rel":"bookmark"`,
		},
		{do: "GET /allocations/" + a1, want: 200, has: a1},
	},
	"collection_links_default_limit": append(
		five(), step{do: "GET /v1/allocations", want: 200, has: "al3 & limit=3 & marker=" + a3, hasNot: "al4"},
	), // with max_limit 3
	"get_collection_pagination_no_uuid": append(
		five(), step{do: "GET /v1/allocations?fields=name&limit=2", want: 200, has: "marker=" + a2, hasNot: `"uuid"`},
	),
	"allocation_get_all_invalid_api_version":        {{version: "1.14", do: "GET /v1/allocations", want: 404}},
	"allocation_get_all_forbidden":                  {{who: roleless, do: "GET /v1/allocations", want: 403}},
	"allocation_get_all_forbidden_no_project":       {{who: unscoped, do: "GET /v1/allocations", want: 403}},
	"allocation_get_all_forbid_owner_proj_mismatch": {{who: reader, do: "GET /v1/allocations?owner=q", want: 403}},
	"allocation_get_all_non_admin": {create(a1, `,"owner":"p","name":"mine"`), create(a2, `,"owner":"q","name":"theirs"`),
		{who: reader, do: "GET /v1/allocations", want: 200, has: "mine", hasNot: "theirs"}},
	"sort_key_invalid": {
		{do: "GET /v1/allocations?sort_key=foo", want: 400}, {do: "GET /v1/allocations?sort_key=extra", want: 400},
		{do: "GET /v1/allocations?sort_key=candidate_nodes", want: 400},
		{do: "GET /v1/allocations?sort_key=traits", want: 400},
	},
	"sort_key_allowed": {
		named(a1, "b"), named(a2, "a"),
		{do: "GET /v1/allocations?sort_key=name&limit=1", want: 200, has: `"name":"a"`, hasNot: `"name":"b"`},
	},
	"get_all_by_state": all(allocated(), []step{named(a2, "bad"), {do: settle},
		{
			do: "GET /v1/allocations?state=error", want: 200, has: "bad", hasNot: a1,
		}, {do: "GET /v1/allocations?state=active", want: 200, has: a1, hasNot: "bad"}}),
	"get_all_by_owner": {
		create(a1, `,"owner":"p"`), create(a2, `,"owner":"q"`),
		{do: "GET /v1/allocations?owner=p", want: 200, has: a1, hasNot: a2},
	},
	"get_all_by_owner_not_allowed":          {{version: "1.59", do: "GET /v1/allocations?owner=p", want: 406}},
	"get_all_by_owner_not_allowed_mismatch": {{who: stranger, do: "GET /v1/allocations?owner=p", want: 403}},
	"get_all_by_node_uuid": all(
		allocated(), []step{named(a2, "bad"), {do: "GET /v1/allocations?node=" + n1, want: 200, has: a1, hasNot: a2}},
	),
	"get_all_by_non_existing_node": {{do: "GET /v1/allocations?node=banana", want: 400}},
	"get_by_node_resource": all(
		allocated(),
		[]step{{do: "GET /v1/nodes/" + n1 + "/allocation", want: 200, has: `{"uuid":"` + a1, hasNot: `"allocations"`}},
	),
	"get_by_node_resource_invalid_api_version": all(
		allocated(), []step{{version: "1.51", do: "GET /v1/nodes/n1/allocation", want: 404}},
	),
	"get_by_node_resource_with_fields": all(
		allocated(),
		[]step{
			{do: "GET /v1/nodes/n1/allocation?fields=name,extra", want: 200, has: `"name":"al" & "extra"`, hasNot: `"uuid"`},
		},
	),
	"get_by_node_resource_and_id": all(
		allocated(), []step{{do: "GET /v1/nodes/n1/allocation/" + a1, want: 405, has: "Allow=DELETE, GET"}},
	),
	"by_node_resource_not_existed": all(
		node(n1, "n1", "bm"),
		[]step{{do: "GET /v1/node/" + n1 + "/allocation", want: 404}, {do: "GET /v1/nodes/n1/allocation", want: 404}},
	),
	"owner_hidden_in_lower_version": {
		create(a1, `,"owner":"p"`), {version: "1.59", do: "GET /v1/allocations/" + a1, want: 200, hasNot: "owner"},
		{version: "1.59", do: "GET /v1/allocations", want: 200, hasNot: "owner"},
	},
	"get_owner_field": {
		create(a1, `,"owner":"p"`), {do: "GET /v1/allocations?fields=owner", want: 200, has: `"owner":"p"`},
	},
}

var upstreamPatches = map[string][]step{
	"update_not_allowed": {
		named(a1, "al"),
		{version: "1.56", do: `PATCH /v1/allocations/al [{"op":"add","path":"/extra/a","value":1}]`, want: 405},
	},
	"update_not_found": {patchTo("no", `[{"op":"add","path":"/name","value":"x"}]`, 404, "")},
	"add": {
		named(a1, "al"), patchTo("al", `[{"op":"add","path":"/extra/foo","value":"bar"}]`, 200, `"extra":{"foo":"bar"}`),
	},
	"replace_invalid_name": {
		named(a1, "al"), patchTo("al", `[{"op":"replace","path":"/name","value":"[test]"}]`, 400, "[test]"),
	},
	"replace_singular": {
		named(a1, "al"), patchTo("al", `[{"op":"replace","path":"/name","value":"other"}]`, 200, `"name":"other"`),
		{do: "GET /v1/allocations/other", want: 200, has: `"updated_at":"20`}, {do: "GET /v1/allocations/al", want: 404},
	},
	"replace_name_with_none": {
		named(a1, "al"), patchTo("al", `[{"op":"replace","path":"/name","value":null}]`, 200, `"name":null`),
	},
	// Upstream reports an internal error to listeners of notifications. Here a
	// rejected request leaves no trace.
	"update_error": {
		named(a1, "al"), named(a2, "bl"),
		patchTo("al", `[{"op":"add","path":"/extra/a","value":1},{"op":"replace","path":"/name","value":"bl"}]`, 409, "bl"),
		{do: "GET /v1/allocations/al", want: 200, has: `"extra":{}`},
	},
	"remove_uuid": {named(a1, "al"), patchTo("al", `[{"op":"remove","path":"/uuid"}]`, 400, "/uuid")},
	"remove_singular": {
		create(a1, `,"name":"al","extra":{"a":"b"}`), patchTo(a1, `[{"op":"remove","path":"/extra/a"}]`, 200, `"extra":{}`),
		patchTo(a1, `[{"op":"remove","path":"/name"}]`, 200, `"name":null`),
	},
	"remove_non_existent_property_fail": {
		named(a1, "al"), patchTo("al", `[{"op":"remove","path":"/extra/no"}]`, 400, "/extra/no"),
	},
	"update_owner_not_acceptable": {
		create(a1, `,"owner":"p"`), patchTo(a1, `[{"op":"replace","path":"/owner","value":"q"}]`, 400, "/owner"),
	},
}

var upstreamPosts = map[string][]step{
	"create_allocation": {{do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm"}`, want: 201,
		has: `"state":"allocating" & "node_uuid":null & "last_error":null & "traits":[] & "candidate_nodes":[] & "extra":{} & "name":null & "updated_at":null & Location=http://example.com/v1/allocations/` + a1}},
	"invalid_api_version": {
		{version: "1.50", do: `POST /v1/allocations {"resource_class":"bm"}`, want: 405},
	},
	"error": {
		named(a1, "al"), {do: `POST /v1/allocations {"resource_class":"bm","name":"al"}`, want: 409},
		{do: "GET /v1/allocations", want: 200, has: a1, hasNot: `"bm"`},
	},
	"with_candidate_nodes": all(
		node(n1, "n1", "bm"),
		node(n2, "n2", "bm"),
		[]step{
			{
				do: `POST /v1/allocations {"resource_class":"bm","candidate_nodes":["n2","` + n1 + `","n2"]}`, want: 201,
				has: `"candidate_nodes":["` + n2 + `","` + n1 + `","` + n2 + `"]`,
			},
		},
	),
	"valid_extra": {
		{
			do:   `POST /v1/allocations {"resource_class":"bm","extra":{"str":"foo","int":123,"float":0.1,"bool":true,"list":[1,2],"none":null,"dict":{"cat":"meow"}}}`,
			want: 201,
			has:  `"str":"foo" & "int":123 & "float":0.1 & "bool":true & "list":[1,2] & "none":null & "dict":{"cat":"meow"}`,
		},
	},
	"no_mandatory_field_resource_class": {{do: `POST /v1/allocations {"name":"al"}`, want: 400, has: "resource_class"}},
	"resource_class_too_long": {
		{do: `POST /v1/allocations {"resource_class":"` + strings.Repeat("f", 81) + `"}`, want: 400, has: "too long"},
		{do: `POST /v1/allocations {"resource_class":"` + strings.Repeat("f", 80) + `"}`, want: 201},
	},
	"with_traits": {
		{
			do:   `POST /v1/allocations {"resource_class":"bm","traits":["CUSTOM_GPU","CUSTOM_FOO_BAR","HW_CPU_X86_VMX"]}`,
			want: 201, has: `"traits":["CUSTOM_GPU","CUSTOM_FOO_BAR","HW_CPU_X86_VMX"]`,
		},
	},
	"invalid_trait": {
		{do: `POST /v1/allocations {"resource_class":"bm","traits":["CUSTOM_GPU","FOO_BAR"]}`, want: 400, has: "FOO_BAR"},
	},
	"invalid_candidate_node_format": {
		{
			do: `POST /v1/allocations {"resource_class":"bm","candidate_nodes":["invalid-format"]}`, want: 400,
			has: "invalid-format",
		},
	},
	"candidate_node_not_found": {
		{
			do: `POST /v1/allocations {"resource_class":"bm","candidate_nodes":["` + n1 + `","` + n2 + `"]}`, want: 400,
			has: n1 + ", " + n2,
		},
	},
	"candidate_node_invalid": {
		{do: `POST /v1/allocations {"resource_class":"bm","candidate_nodes":["this/is/not a/node/name"]}`, want: 400},
	},
	"name_invalid": {
		{do: `POST /v1/allocations {"resource_class":"bm","name":"aa:bb_cc"}`, want: 400, has: "aa:bb_cc"},
	},
	"by_node_not_allowed": all(
		node(n1, "n1", "bm"), []step{{do: `POST /v1/nodes/n1/allocation {}`, want: 405, has: "Allow=DELETE, GET"}},
	),
	"node_uuid_not_allowed": {
		{do: `POST /v1/allocations {"resource_class":"bm","node_uuid":"` + n1 + `"}`, want: 400},
	},
	"owner_not_allowed": {
		{version: "1.59", do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 406},
	},
	"owner_not_my_project_id": {
		{
			who: member, do: `POST /v1/allocations {"resource_class":"bm","owner":"q"}`, want: 403,
			has: "not matching the requestor Project ID p",
		},
	},
	"owner_auto_filled": {
		{who: member, do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, has: `"owner":"p"`},
	},
	"backfill": all(
		deployed(),
		[]step{
			{
				do: `POST /v1/allocations {"node":"` + n1 + `","resource_class":"bm"}`, want: 201,
				has: `"node_uuid":"` + n1 + `" & "state":"active"`, hasNot: `"node":`,
			},
		},
	),
	"backfill_copy_instance_uuid": all(
		deployed(step{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/instance_uuid","value":"` + a3 + `"}]`, want: 200}),
		[]step{{do: `POST /v1/allocations {"node":"n1"}`, want: 201, has: `"uuid":"` + a3 + `" & "state":"active"`}},
	),
	"backfill_node_not_found": {{do: `POST /v1/allocations {"node":"n1"}`, want: 400, has: "n1"}},
	"backfill_not_allowed": all(
		deployed(), []step{{version: "1.57", do: `POST /v1/allocations {"node":"n1"}`, want: 400}},
	),
	"restricted_older_version": {
		{
			version: "1.59", who: member, do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm"}`, want: 201,
			hasNot: "owner",
		},
		{do: "GET /v1/allocations/" + a1, want: 200, has: `"owner":"p"`},
	},
	"restricted_forbidden": {{who: reader, do: `POST /v1/allocations {"resource_class":"bm"}`, want: 403}},
	"restricted_deprecated_without_owner": {
		{
			who: "v:p member,reader", do: `POST /v1/allocations {"resource_class":"bm","owner":null}`, want: 201,
			has: `"owner":"p"`,
		},
	},
	"restricted_mismatch_owner": {
		{who: stranger, do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 403},
	},
}

var upstreamDeletes = map[string][]step{
	"by_id": {
		create(a1, ""), {do: "DELETE /v1/allocations/" + a1, want: 204}, {do: "GET /v1/allocations/" + a1, want: 404},
	},
	// Nothing is locked here; the nearest case is a node in use.
	"node_locked": all(
		allocated(),
		[]step{
			{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
			{do: "DELETE /v1/allocations/al", want: 409, has: "because the node is active"},
		},
	),
	"invalid_api_version": {
		create(a1, ""), {version: "1.14", do: "DELETE /v1/allocations/" + a1, want: 405},
	},
	"by_name": {
		named(a1, "al"), {do: "DELETE /v1/allocations/al", want: 204}, {do: "GET /v1/allocations", want: 200, hasNot: a1},
	},
	"by_name_with_json": {
		named(a1, "al"), {version: "1.90", do: "DELETE /v1/allocations/al.json", want: 204},
		{do: "GET /v1/allocations/al", want: 404},
	},
	"by_node": all(
		allocated(), []step{{do: "DELETE /v1/nodes/n1/allocation", want: 204}, {do: "GET /v1/allocations/al", want: 404}},
	),
	"by_node_not_existed": all(
		node(n1, "n1", "bm"), []step{{do: "DELETE /v1/nodes/n1/allocation", want: 404}},
	),
	"by_node_invalid_api_version": all(
		allocated(),
		[]step{{version: "1.51", do: "DELETE /v1/nodes/n1/allocation", want: 404}, {do: "GET /v1/allocations/al", want: 200}},
	),
}

// TestUpstream plays upstream's tests of the API, but for those that try one rule twice. What its conductor decides is
// decided by commands, whose tests have it.
func TestUpstream(t *testing.T) {
	for group, tests := range map[string]map[string][]step{
		"list": upstreamLists, "patch": upstreamPatches, "post": upstreamPosts, "delete": upstreamDeletes,
	} {
		for name, steps := range tests {
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				if name == "collection_links_default_limit" {
					w.handler.MaxLimit = 3
				}
				w.play(t, steps)
			})
		}
	}
}
