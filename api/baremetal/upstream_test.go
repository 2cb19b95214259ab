package baremetal_test

import (
	"fmt"
	"strings"
	"testing"
)

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

// request asks for an allocation.
func request(body string, want int, has string) step {
	return step{do: "POST /v1/allocations " + body, want: want, has: has}
}

// allocated is an active allocation of the only node.
func allocated() []step {
	return all(node(n1, "n1", "bm"), []step{
		request(`{"uuid":"`+a1+`","resource_class":"bm","name":"al"}`, 201, ""), {do: settle},
		{do: "GET /v1/allocations/al", want: 200, has: `"state":"active" & "node_uuid":"` + n1 + `"`},
	})
}

// deployed is a node that is active without an allocation.
func deployed(more ...step) []step {
	return all(node(n1, "n1", "bm"), more, []step{{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202}})
}

func patchTo(id, patch string, want int, has string) step {
	return step{do: "PATCH /v1/allocations/" + id + " [" + patch + "]", want: want, has: has}
}

// The senders: a member of project p, one of another project, a reader of p.
const (
	member   = "u:p member,reader"
	stranger = "u:q member,reader"
	reader   = "u:p reader"
	roleless = "u:p none"
	unscoped = ": reader"
)

// upstream are the tests of upstream Ironic's allocations API
// (ironic/tests/unit/api/controllers/v1/test_allocation.py), as requests and answers: those of one world together, but
// for those that try one rule twice. What its conductor decides is decided by commands, whose tests have it.
var upstream = map[string][]step{
	"nothing": {
		{do: "GET /v1/allocations", want: 200, has: `{"allocations":[]}`},
		{version: "1.14", do: "GET /v1/allocations", want: 404},
		{who: roleless, do: "GET /v1/allocations", want: 403},
		{who: unscoped, do: "GET /v1/allocations", want: 403},
		{who: reader, do: "GET /v1/allocations?owner=q", want: 403},
		{who: stranger, do: "GET /v1/allocations?owner=p", want: 403},
		{version: "1.59", do: "GET /v1/allocations?owner=p", want: 406},
		{do: "GET /v1/allocations?sort_key=foo", want: 400}, {do: "GET /v1/allocations?sort_key=extra", want: 400},
		{do: "GET /v1/allocations?sort_key=candidate_nodes", want: 400},
		{do: "GET /v1/allocations?sort_key=traits", want: 400}, {do: "GET /v1/allocations?node=banana", want: 400},
		{do: "GET /v1/node/" + n1 + "/allocation", want: 404},
		patchTo("no", `{"op":"add","path":"/name","value":"x"}`, 404, ""),
		{version: "1.50", do: `POST /v1/allocations {"resource_class":"bm"}`, want: 405},
		{version: "1.59", do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 406},
		{who: member, do: `POST /v1/allocations {"resource_class":"bm","owner":"q"}`, want: 403,
			has: "not matching the requestor Project ID p"},
		{who: reader, do: `POST /v1/allocations {"resource_class":"bm"}`, want: 403},
		{who: stranger, do: `POST /v1/allocations {"resource_class":"bm","owner":"p"}`, want: 403},
		request(`{"name":"al"}`, 400, "resource_class"),
		request(`{"resource_class":"`+strings.Repeat("f", 81)+`"}`, 400, "too long"),
		request(`{"resource_class":"bm","traits":["CUSTOM_GPU","FOO_BAR"]}`, 400, "FOO_BAR"),
		request(`{"resource_class":"bm","candidate_nodes":["invalid-format"]}`, 400, "invalid-format"),
		request(`{"resource_class":"bm","candidate_nodes":["this/is/not a/node/name"]}`, 400, ""),
		request(`{"resource_class":"bm","candidate_nodes":["`+n1+`","`+n2+`"]}`, 400, n1+", "+n2),
		request(`{"resource_class":"bm","name":"aa:bb_cc"}`, 400, "aa:bb_cc"),
		request(`{"resource_class":"bm","node_uuid":"`+n1+`"}`, 400, ""), request(`{"node":"n1"}`, 400, "n1"),
		{do: "GET /v1/allocations", want: 200, has: `{"allocations":[]}`},
	},
	"one": {
		named(a1, "al"), {do: settle},
		{do: "GET /v1/allocations/" + a1, want: 200, hasNot: `"node_id"`,
			has: `"uuid":"` + a1 + `" & "name":"al" & "extra":{} & "node_uuid":null & "owner":null`},
		{version: "1.90", do: "GET /v1/allocations/" + a1 + ".json", want: 200, has: a1},
		{do: "GET /v1/allocations/" + a1 + ".json", want: 404},
		{do: "GET /v1/allocations/al?fields=resource_class,extra", want: 200, hasNot: `"uuid" & "name"`,
			has: `{"extra":{},"resource_class":"none","links":`},
		{do: "GET /v1/allocations/al?fields=uuid,spongebob", want: 400, has: "spongebob"},
		{version: "none", do: "GET /v1/allocations/al", want: 404},
		{do: "GET /v1/allocations/al", want: 200, has: `"http://example.com/v1/allocations/` + a1 +
			`","rel":"self" & "http://example.com/allocations/` + a1 + `","rel":"bookmark"`},
		{do: "GET /allocations/" + a1, want: 200, has: a1},
		request(`{"resource_class":"bm","name":"al"}`, 409, ""),
		{do: "GET /v1/allocations", want: 200, has: a1, hasNot: `"bm"`},
		{version: "1.56", do: `PATCH /v1/allocations/al [{"op":"add","path":"/extra/a","value":1}]`, want: 405},
		patchTo("al", `{"op":"replace","path":"/name","value":"[test]"}`, 400, "[test]"),
		patchTo("al", `{"op":"remove","path":"/uuid"}`, 400, "/uuid"),
		patchTo("al", `{"op":"remove","path":"/extra/no"}`, 400, "/extra/no"),
		patchTo("al", `{"op":"add","path":"/extra/foo","value":"bar"}`, 200, `"extra":{"foo":"bar"}`),
		patchTo("al", `{"op":"remove","path":"/extra/foo"}`, 200, `"extra":{}`),
		patchTo("al", `{"op":"replace","path":"/name","value":"other"}`, 200, `"name":"other"`),
		{do: "GET /v1/allocations/other", want: 200, has: `"updated_at":"20`}, {do: "GET /v1/allocations/al", want: 404},
		// Upstream reports an internal error to listeners of notifications. Here a rejected request leaves no trace.
		named(a2, "bl"),
		patchTo("other", `{"op":"add","path":"/extra/a","value":1},{"op":"replace","path":"/name","value":"bl"}`, 409, "bl"),
		{do: "GET /v1/allocations/other", want: 200, has: `"extra":{}`},
		patchTo(a1, `{"op":"replace","path":"/name","value":null}`, 200, `"name":null`),
		patchTo(a2, `{"op":"remove","path":"/name"}`, 200, `"name":null`),
		named(a3, "pg.json"), {version: "1.90", do: "GET /v1/allocations/pg.json.json", want: 200, has: a3},
		{version: "1.14", do: "DELETE /v1/allocations/" + a1, want: 405},
		{do: "DELETE /v1/allocations/" + a1, want: 204}, {do: "GET /v1/allocations/" + a1, want: 404},
		{version: "1.90", do: "DELETE /v1/allocations/pg.json.json", want: 204}, named(a3, "cl"),
		{do: "DELETE /v1/allocations/cl", want: 204}, {do: "GET /v1/allocations", want: 200, hasNot: a3},
	},
	"five": { // of which a page has three
		named(a1, "al1"), named(a2, "al2"), named(a3, "al3"), request(`{"resource_class":"none","name":"al4"}`, 201, ""),
		request(`{"resource_class":"none","name":"al5"}`, 201, ""),
		{do: "GET /v1/allocations", want: 200, has: "al3 & limit=3 & marker=" + a3, hasNot: "al4"},
		{do: "GET /v1/allocations?fields=name&limit=2", want: 200, has: "marker=" + a2, hasNot: `"uuid"`},
		{do: "GET /v1/allocations?sort_key=name&sort_dir=desc&limit=1", want: 200, has: `"name":"al5"`, hasNot: `"al1"`},
	},
	"of owners": {
		create(a1, `,"owner":"p","name":"mine"`), create(a2, `,"owner":"q","name":"theirs"`),
		{who: reader, do: "GET /v1/allocations", want: 200, has: "mine", hasNot: "theirs"},
		{do: "GET /v1/allocations?owner=p", want: 200, has: a1, hasNot: a2},
		{version: "1.59", do: "GET /v1/allocations/" + a1, want: 200, hasNot: "owner"},
		{version: "1.59", do: "GET /v1/allocations", want: 200, hasNot: "owner"},
		{do: "GET /v1/allocations?fields=owner", want: 200, has: `"owner":"p"`},
		patchTo(a1, `{"op":"replace","path":"/owner","value":"q"}`, 400, "/owner"),
		{who: member, do: `POST /v1/allocations {"resource_class":"bm"}`, want: 201, has: `"owner":"p"`},
		{who: "v:p member,reader", do: `POST /v1/allocations {"resource_class":"bm","owner":null}`, want: 201, has: `"owner":"p"`},
		{version: "1.59", who: member, do: `POST /v1/allocations {"uuid":"` + a3 + `","resource_class":"bm"}`, want: 201,
			hasNot: "owner"},
		{do: "GET /v1/allocations/" + a3, want: 200, has: `"owner":"p"`},
	},
	"active": all(allocated(), []step{
		named(a2, "bad"), {do: settle},
		{do: "GET /v1/allocations?state=error", want: 200, has: "bad", hasNot: a1},
		{do: "GET /v1/allocations?state=active", want: 200, has: a1, hasNot: "bad"},
		{do: "GET /v1/allocations?node=" + n1, want: 200, has: a1, hasNot: a2},
		{do: "GET /v1/nodes/" + n1 + "/allocation", want: 200, has: `{"uuid":"` + a1, hasNot: `"allocations"`},
		{version: "1.51", do: "GET /v1/nodes/n1/allocation", want: 404},
		{do: "GET /v1/nodes/n1/allocation?fields=name,extra", want: 200, has: `"name":"al" & "extra"`, hasNot: `"uuid"`},
		{do: "GET /v1/nodes/n1/allocation/" + a1, want: 405, has: "Allow=DELETE, GET"},
		{do: `POST /v1/nodes/n1/allocation {}`, want: 405, has: "Allow=DELETE, GET"},
		{version: "1.51", do: "DELETE /v1/nodes/n1/allocation", want: 404}, {do: "GET /v1/allocations/al", want: 200},
		{do: "DELETE /v1/nodes/n1/allocation", want: 204}, {do: "GET /v1/allocations/al", want: 404},
		{do: "GET /v1/nodes/n1/allocation", want: 404}, {do: "DELETE /v1/nodes/n1/allocation", want: 404},
	}),
	// Nothing is locked here; the nearest case to a node that is, is a node in use.
	"deployed": all(allocated(), []step{
		{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
		{do: "DELETE /v1/allocations/al", want: 409, has: "because the node is active"},
	}),
	"created": all(node(n1, "n1", "other"), node(n2, "n2", "other"), []step{
		request(`{"uuid":"`+a1+`","resource_class":"bm"}`, 201, `"state":"allocating" & "node_uuid":null & "last_error":null & `+
			`"traits":[] & "candidate_nodes":[] & "extra":{} & "name":null & "updated_at":null & Location=http://example.com/v1/allocations/`+a1),
		request(`{"resource_class":"bm","candidate_nodes":["n2","`+n1+`","n2"]}`, 201,
			`"candidate_nodes":["`+n2+`","`+n1+`","`+n2+`"]`),
		request(`{"resource_class":"bm","extra":{"str":"foo","int":123,"float":0.1,"bool":true,"list":[1,2],"none":null,"dict":{"cat":"meow"}}}`, 201,
			`"str":"foo" & "int":123 & "float":0.1 & "bool":true & "list":[1,2] & "none":null & "dict":{"cat":"meow"}`),
		request(`{"resource_class":"`+strings.Repeat("f", 80)+`"}`, 201, ""),
		request(`{"resource_class":"bm","traits":["CUSTOM_GPU","CUSTOM_FOO_BAR","HW_CPU_X86_VMX"]}`, 201,
			`"traits":["CUSTOM_GPU","CUSTOM_FOO_BAR","HW_CPU_X86_VMX"]`),
	}),
	"backfilled": all(deployed(), []step{
		{version: "1.57", do: `POST /v1/allocations {"node":"n1"}`, want: 400},
		{do: `POST /v1/allocations {"node":"` + n1 + `","resource_class":"bm"}`, want: 201, hasNot: `"node":`,
			has: `"node_uuid":"` + n1 + `" & "state":"active"`},
	}),
	"backfilled with its instance": all(
		deployed(step{do: fmt.Sprintf(`PATCH /v1/nodes/n1 [{"op":"add","path":"/instance_uuid","value":%q}]`, a3), want: 200}),
		[]step{request(`{"node":"n1"}`, 201, `"uuid":"`+a3+`" & "state":"active"`)},
	),
}

// TestUpstream plays upstream's tests of the API.
func TestUpstream(t *testing.T) {
	for name, steps := range upstream {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if name == "five" {
				w.handler.MaxLimit = 3
			}
			w.play(t, steps)
		})
	}
}
