package baremetal_test

import (
	"strings"
	"testing"
)

// The tests of upstream Ironic's allocations API, under their names there
// (ironic/tests/unit/api/controllers/v1/test_allocation.py and
// ironic/tests/unit/conductor/test_allocations.py), as requests and answers.

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
	"one": {named(a1, "al"), {do: "GET /v1/allocations", want: 200,
		has: `"uuid":"` + a1 + `" & "name":"al" & "extra":{} & "node_uuid":null & "owner":null`, hasNot: `"node_id" & "node":`}},
	"get_one": {named(a1, "al"), {do: "GET /v1/allocations/" + a1, want: 200,
		has: `"uuid":"` + a1 + `" & "name":"al" & "extra":{} & "node_uuid":null & "owner":null`, hasNot: `"node_id"`}},
	"get_one_with_json": {
		named(a1, "al"), {version: "1.90", do: "GET /v1/allocations/" + a1 + ".json", want: 200, has: a1},
	},
	"get_one_with_json_not_found": {named(a1, "al"), {do: "GET /v1/allocations/" + a1 + ".json", want: 404}},
	"get_one_with_json_in_name": {
		named(a1, "pg.json"), {do: "GET /v1/allocations/pg.json", want: 200, has: a1},
	},
	"get_one_with_double_json": {
		named(a1, "pg.json"), {version: "1.90", do: "GET /v1/allocations/pg.json.json", want: 200, has: a1},
	},
	"get_one_with_suffix": {named(a1, "pg.1"), {do: "GET /v1/allocations/pg.1", want: 200, has: a1}},
	"get_one_custom_fields": {
		named(a1, "al"),
		{
			do: "GET /v1/allocations/al?fields=resource_class,extra", want: 200,
			has: `{"extra":{},"resource_class":"none","links":`, hasNot: `"uuid" & "name"`,
		},
	},
	"get_collection_custom_fields": {
		named(a1, "al"),
		{
			do: "GET /v1/allocations?fields=uuid,extra", want: 200, has: `"uuid" & "extra" & "links"`,
			hasNot: `"name" & "resource_class"`,
		},
	},
	"get_custom_fields_invalid_fields": {
		named(a1, "al"), {do: "GET /v1/allocations/al?fields=uuid,spongebob", want: 400, has: "spongebob"},
	},
	"get_one_invalid_api_version": {
		named(a1, "al"), {version: "none", do: "GET /v1/allocations/al", want: 404},
	},
	"get_one_invalid_api_version_without_check": {{version: "none", do: "GET /v1/allocations/ba!na!na1", want: 404}},
	"many": append(
		five(), step{do: "GET /v1/allocations", want: 200, has: "al1 & al2 & al3 & al4 & al5", hasNot: "next"},
	),
	"links": {
		named(a1, "al"),
		{
			do: "GET /v1/allocations/al", want: 200,
			has: `"http://example.com/v1/allocations/` + a1 + `","rel":"self" & "http://example.com/allocations/` + a1 + `","rel":"bookmark"`,
		},
		{do: "GET /allocations/" + a1, want: 200, has: a1},
	},
	"collection_links": append(
		five(), step{do: "GET /v1/allocations?limit=3", want: 200, has: "al3 & limit=3 & marker=" + a3, hasNot: "al4"},
	),
	"collection_links_default_limit": append(
		five(), step{do: "GET /v1/allocations", want: 200, has: "al3 & limit=3 & marker=" + a3, hasNot: "al4"},
	), // with max_limit 3
	"collection_links_custom_fields": append(
		five(),
		step{
			do: "GET /v1/allocations?fields=uuid,extra&limit=3", want: 200, has: "fields=uuid,extra & limit=3 & marker=" + a3,
		},
	),
	"get_collection_pagination_no_uuid": append(
		five(), step{do: "GET /v1/allocations?fields=name&limit=2", want: 200, has: "marker=" + a2, hasNot: `"uuid"`},
	),
	"allocation_get_all_invalid_api_version":        {{version: "1.14", do: "GET /v1/allocations", want: 404}},
	"allocation_get_all_forbidden":                  {{who: roleless, do: "GET /v1/allocations", want: 403}},
	"allocation_get_all_forbidden_no_project":       {{who: unscoped, do: "GET /v1/allocations", want: 403}},
	"allocation_get_all_forbid_owner_proj_mismatch": {{who: reader, do: "GET /v1/allocations?owner=q", want: 403}},
	"allocation_get_all_non_admin": {create(a1, `,"owner":"p","name":"mine"`), create(a2, `,"owner":"q","name":"theirs"`),
		{who: reader, do: "GET /v1/allocations", want: 200, has: "mine", hasNot: "theirs"}},
	"sort_key": {
		named(a2, "x"), named(a1, "y"),
		{do: "GET /v1/allocations?sort_key=uuid&fields=name", want: 200, has: `"y","links"`},
		{do: "GET /v1/allocations?sort_key=uuid&limit=1", want: 200, has: `"name":"y"`, hasNot: `"name":"x"`},
	},
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
	"get_all_by_node_name": all(
		allocated(), []step{named(a2, "bad"), {do: "GET /v1/allocations?node=n1", want: 200, has: a1, hasNot: a2}},
	),
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
	"by_node_invalid_node": {{do: "GET /v1/node/" + n1 + "/allocation", want: 404}},
	"owner_hidden_in_lower_version": {
		create(a1, `,"owner":"p"`), {version: "1.59", do: "GET /v1/allocations/" + a1, want: 200, hasNot: "owner"},
		{version: "1.59", do: "GET /v1/allocations", want: 200, hasNot: "owner"},
	},
	"owner_null_field": {
		create(a1, ""), {do: "GET /v1/allocations/" + a1, want: 200, has: `"owner":null`},
	},
	"owner_present": {
		create(a1, `,"owner":"p"`), {do: "GET /v1/allocations/" + a1, want: 200, has: `"owner":"p"`},
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
	"add_non_existent": {named(a1, "al"), patchTo("al", `[{"op":"add","path":"/foo","value":"bar"}]`, 400, "/foo")},
	"add_multi": {
		named(a1, "al"),
		patchTo(
			"al", `[{"op":"add","path":"/extra/foo1","value":"bar1"},{"op":"add","path":"/extra/foo2","value":"bar2"}]`, 200,
			`"foo1":"bar1" & "foo2":"bar2"`,
		),
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
	"replace_multi": {
		create(a1, `,"extra":{"a":"1","b":"2","c":"3"}`),
		patchTo(a1, `[{"op":"replace","path":"/extra/b","value":"new"}]`, 200, `{"a":"1","b":"new","c":"3"}`),
	},
	"remove_uuid": {named(a1, "al"), patchTo("al", `[{"op":"remove","path":"/uuid"}]`, 400, "/uuid")},
	"remove_singular": {
		create(a1, `,"name":"al","extra":{"a":"b"}`), patchTo(a1, `[{"op":"remove","path":"/extra/a"}]`, 200, `"extra":{}`),
		patchTo(a1, `[{"op":"remove","path":"/name"}]`, 200, `"name":null`),
	},
	"remove_multi": {
		create(a1, `,"extra":{"a":"1","b":"2"}`),
		patchTo(a1, `[{"op":"remove","path":"/extra/b"}]`, 200, `"extra":{"a":"1"}`),
		patchTo(a1, `[{"op":"remove","path":"/extra"}]`, 200, `"extra":{}`),
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
	"doesnt_contain_id": {
		{do: `POST /v1/allocations {"resource_class":"bm","id":7}`, want: 400},
		{do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, hasNot: `"id":`},
	},
	"generate_uuid": {
		{do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, has: `{"uuid":"`},
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
	"with_no_extra": {
		{do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, has: `"extra":{}`},
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
	"name_ok": {
		{do: `POST /v1/allocations {"resource_class":"bm","name":"foo"}`, want: 201, has: `"name":"foo"`},
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
	"owner": {
		{do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 201, has: `"owner":"p"`},
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
	"backfill_with_name": all(
		deployed(),
		[]step{
			{do: `POST /v1/allocations {"node":"n1","name":"al"}`, want: 201, has: `"node_uuid":"` + n1 + `" & "name":"al"`},
		},
	),
	"backfill_without_resource_class": all(
		deployed(), []step{{do: `POST /v1/allocations {"node":"n1"}`, want: 201, has: `"resource_class":"bm"`}},
	),
	"backfill_copy_instance_uuid": all(
		deployed(step{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/instance_uuid","value":"` + a3 + `"}]`, want: 200}),
		[]step{{do: `POST /v1/allocations {"node":"n1"}`, want: 201, has: `"uuid":"` + a3 + `" & "state":"active"`}},
	),
	"backfill_node_not_found": {{do: `POST /v1/allocations {"node":"n1"}`, want: 400, has: "n1"}},
	"backfill_not_allowed": all(
		deployed(), []step{{version: "1.57", do: `POST /v1/allocations {"node":"n1"}`, want: 400}},
	),
	"restricted_normal": {
		{who: member, do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, has: `"owner":"p"`},
	},
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
	"restricted_with_owner": {
		{who: member, do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 201, has: `"owner":"p"`},
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
	"invalid_api_version_without_check": {{version: "1.14", do: "DELETE /v1/allocations/ba!na!na1", want: 405}},
	"by_name": {
		named(a1, "al"), {do: "DELETE /v1/allocations/al", want: 204}, {do: "GET /v1/allocations", want: 200, hasNot: a1},
	},
	"by_name_with_json": {
		named(a1, "al"), {version: "1.90", do: "DELETE /v1/allocations/al.json", want: 204},
		{do: "GET /v1/allocations/al", want: 404},
	},
	"by_name_with_json_not_found": {
		named(a1, "al"), {do: "DELETE /v1/allocations/al.json", want: 404}, {do: "GET /v1/allocations/al", want: 200},
	},
	"by_name_not_existed": {{do: "DELETE /v1/allocations/blah", want: 404, has: "blah"}},
	"by_node": all(
		allocated(), []step{{do: "DELETE /v1/nodes/n1/allocation", want: 204}, {do: "GET /v1/allocations/al", want: 404}},
	),
	"by_node_not_existed": all(
		node(n1, "n1", "bm"), []step{{do: "DELETE /v1/nodes/n1/allocation", want: 404}},
	),
	"invalid_node": {{do: "DELETE /v1/nodes/" + n1 + "/allocation", want: 404}},
	"by_node_invalid_api_version": all(
		allocated(),
		[]step{{version: "1.51", do: "DELETE /v1/nodes/n1/allocation", want: 404}, {do: "GET /v1/allocations/al", want: 200}},
	),
}

// fails is an allocation that gets no node of class bm.
func fails(more, lastError string) []step {
	return []step{
		{
			do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm"` + more + `}`, want: 201,
			has: `"state":"allocating"`,
		},
		{do: settle},
		{do: "GET /v1/allocations/" + a1, want: 200, has: `"state":"error" & "node_uuid":null & ` + lastError},
	}
}

func gets(more, node string) []step {
	return []step{
		{do: `POST /v1/allocations {"uuid":"` + a1 + `","resource_class":"bm"` + more + `}`, want: 201},
		{do: settle},
		{
			do: "GET /v1/allocations/" + a1, want: 200,
			has: `"state":"active" & "last_error":null & "node_uuid":"` + node + `"`,
		},
		{do: "GET /v1/nodes/" + node, want: 200, has: `"instance_uuid":"` + a1 + `" & "allocation_uuid":"` + a1 + `"`},
	}
}

func backfillFails(request, lastError string) []step {
	return []step{
		{do: `POST /v1/allocations {"uuid":"` + a1 + `",` + request + `}`, want: 409, has: lastError},
		{do: "GET /v1/allocations/" + a1, want: 200, has: `"state":"error" & "node_uuid":null & ` + lastError},
		{do: "GET /v1/nodes/n1", want: 200, has: `"allocation_uuid":null`},
	}
}

const noNode = "no available nodes match the resource class bm"

var upstreamConductor = map[string][]step{
	"create": fails("", noNode),
	"create_with_node_id": all(
		deployed(),
		[]step{{do: `POST /v1/allocations {"uuid":"` + a1 + `","node":"n1"}`, want: 201, has: `"state":"active"`}},
	),
	"destroy_without_node": {
		create(a1, ""), {do: "DELETE /v1/allocations/" + a1, want: 204}, {do: "GET /v1/allocations/" + a1, want: 404},
	},
	"destroy_with_node": all(allocated(), []step{{do: "DELETE /v1/allocations/al", want: 204},
		{do: "GET /v1/nodes/n1", want: 200, has: `"instance_uuid":null & "allocation_uuid":null`}}),
	"destroy_active_node": all(
		allocated(),
		[]step{{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
			{
				do: "DELETE /v1/allocations/al", want: 409,
			}, {do: "GET /v1/nodes/n1", want: 200, has: `"instance_uuid":"` + a1 + `"`}},
	),
	// Verbs take effect at once, so a node is never between two states.
	"destroy_transient_node": all(
		allocated(),
		[]step{{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202, has: "states"},
			{
				do: "GET /v1/nodes/n1/states", want: 200, has: `"provision_state":"active" & "target_provision_state":null`,
			}, {do: "DELETE /v1/nodes/n1/allocation", want: 409}},
	),
	"destroy_node_in_maintenance": all(
		allocated(),
		[]step{{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
			{do: `PUT /v1/nodes/n1/maintenance {}`, want: 202}, {do: "DELETE /v1/allocations/al", want: 204}},
	),
	// What a restart resumes is tested with the binary (TestKill9Allocations);
	// there is one writer, so nothing is orphaned.
	"resume_allocations": fails("", noNode),
	"check_orphaned":     all(node(n1, "n1", "bm"), gets("", n1)),
	"success":            all(node(n1, "n1", "bm"), gets("", n1)),
	"with_traits": all(
		node(n1, "n1", "bm"),
		node(n2, "n2", "bm"),
		[]step{
			{do: `PUT /v1/nodes/n1/traits {"traits":["CUSTOM_A"]}`, want: 204},
			{do: `PUT /v1/nodes/n2/traits {"traits":["CUSTOM_A","CUSTOM_B"]}`, want: 204},
		},
		gets(
			`,"traits":["CUSTOM_B","CUSTOM_A"]`, n2,
		),
		[]step{{do: "GET /v1/nodes/n2", want: 200, has: `"instance_info":{"traits":["CUSTOM_B","CUSTOM_A"]}`}},
	),
	"with_candidates": all(
		node(n1, "n1", "bm"), node(n2, "n2", "bm"), node(n3, "n3", "bm"), gets(`,"candidate_nodes":["n2"]`, n2),
	),
	"nodes_filtered_out": all(
		[]step{
			{do: `POST /v1/nodes {"driver":"d","name":"enrolled","resource_class":"bm"}`, want: 201},
			{version: "1.10", do: `POST /v1/nodes {"driver":"d","name":"powerless"}`, want: 201},
			{do: `PATCH /v1/nodes/powerless [{"op":"add","path":"/resource_class","value":"bm"}]`, want: 200},
			{do: "GET /v1/nodes/powerless", want: 200, has: `"provision_state":"available" & "power_state":null`},
		},
		node(n1, "n1", "other"),
		node(n2, "n2", "bm"),
		node(n3, "n3", "bm"),
		[]step{
			{do: `PUT /v1/nodes/n2/maintenance {"reason":"fan"}`, want: 202},
			{do: `PATCH /v1/nodes/n3 [{"op":"add","path":"/instance_uuid","value":"` + a3 + `"}]`, want: 200},
		},
		fails("", noNode),
	),
	"nodes_filtered_out_project": all(
		node(n1, "n1", "bm"), []step{{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/owner","value":"q"}]`, want: 200}},
		fails(`,"owner":"p"`, noNode),
	),
	// Nodes are not locked: the one writer decides one request after another.
	"nodes_locked": all(node(n1, "n1", "bm"), gets("", n1), []step{
		{do: `POST /v1/allocations {"uuid":"` + a2 + `","resource_class":"bm"}`, want: 201}, {do: settle},
		{do: "GET /v1/allocations/" + a2, want: 200, has: `"state":"error" & ` + noNode},
	}),
	"nodes_changed_after_lock": all(
		node(n1, "n1", "bm"),
		[]step{{do: `PATCH /v1/nodes/n1 [{"op":"replace","path":"/resource_class","value":"x"}]`, want: 200}},
		fails("", noNode),
	),
	"candidates_do_not_match": all(
		node(n1, "n1", "other"),
		fails(`,"candidate_nodes":["n1"]`, "none of the requested nodes are available and match the resource class bm"),
	),
	"name_match_first": all(
		node(n1, "n1", "bm"), node(n2, "node-2", "bm"), node(n3, "n3", "bm"), gets(`,"name":"node-2"`, n2),
	),
	"backfill_with_associated_node": all(
		deployed(step{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/instance_uuid","value":"` + a1 + `"}]`, want: 200}),
		[]step{{do: `POST /v1/allocations {"uuid":"` + a1 + `","node":"n1"}`, want: 201, has: `"state":"active"`}},
	),
	"backfill_unassociated_node": all(
		deployed(),
		[]step{
			{do: `POST /v1/allocations {"uuid":"` + a1 + `","node":"n1"}`, want: 201},
			{do: "GET /v1/nodes/n1", want: 200, has: `"instance_uuid":"` + a1 + `" & "allocation_uuid":"` + a1 + `"`},
		},
	),
	"backfill_candidate_nodes": all(
		deployed(), node(n2, "n2", "bm"),
		[]step{{do: `POST /v1/allocations {"node":"n1","candidate_nodes":["n2","n1"]}`, want: 201, has: `"state":"active"`}},
	),
	"backfill_without_resource_class": all(
		deployed(),
		[]step{{do: `POST /v1/allocations {"node":"n1"}`, want: 201, has: `"resource_class":"bm" & "state":"active"`}},
	),
	"backfill_node_associated_elsewhere": all(
		deployed(step{do: `PATCH /v1/nodes/n1 [{"op":"add","path":"/instance_uuid","value":"` + a3 + `"}]`, want: 200}),
		backfillFails(`"node":"n1"`, "is associated with instance "+a3),
	),
	"backfill_non_existing_node": {
		{do: `POST /v1/allocations {"uuid":"` + a1 + `","node":"` + n1 + `"}`, want: 400},
		{do: "GET /v1/allocations/" + a1, want: 404},
	},
	"backfill_uuid_on_other_node": all(
		deployed(), node(n2, "n2", "bm"),
		[]step{{do: `PATCH /v1/nodes/n2 [{"op":"add","path":"/instance_uuid","value":"` + a1 + `"}]`, want: 200}},
		backfillFails(`"node":"n1"`, "is already associated with a node"),
	),
	"backfill_class_mismatch": all(
		deployed(),
		backfillFails(`"node":"n1","resource_class":"other"`, "does not match the requested resource class other"),
	),
	"backfill_traits_mismatch": all(
		deployed(), backfillFails(`"node":"n1","traits":["CUSTOM_GPU"]`, "does not match the requested traits"),
	),
	"backfill_state_not_active": all(
		node(n1, "n1", "bm"), backfillFails(`"node":"n1"`, "but the current state is"),
	),
	"backfill_candidate_mismatch": all(
		deployed(), node(n2, "n2", "bm"),
		backfillFails(`"node":"n1","candidate_nodes":["n2"]`, "must be empty or contain the target node"),
	),
}

// TestUpstream plays every one of upstream's tests.
func TestUpstream(t *testing.T) {
	for group, c := range map[string]struct {
		tests map[string][]step
		count int
	}{
		"list": {upstreamLists, 44}, "patch": {upstreamPatches, 15}, "post": {upstreamPosts, 35},
		"delete": {upstreamDeletes, 12}, "conductor": {upstreamConductor, 29},
	} {
		if len(c.tests) != c.count {
			t.Errorf("%s: %d tests, upstream has %d", group, len(c.tests), c.count)
		}
		for name, steps := range c.tests {
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
