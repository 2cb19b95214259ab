package baremetal_test

import "testing"

// TestRetiredAndProtected checks Ironic's rules: an available node cannot be
// retired, only a deployed node can be protected, a reason needs its flag and is
// removed with it, and a retired node does not become available.
func TestRetiredAndProtected(t *testing.T) {
	patch := func(name, value string) string { return `[{"op":"add","path":"/` + name + `","value":` + value + `}]` }
	both := func(flag string) string {
		return `[{"op":"add","path":"/` + flag + `","value":"True"},{"op":"add","path":"/` + flag + `_reason","value":"old"}]`
	}
	w := newWorld(t)
	w.play(t, all(node(n1, "n1", "bm"), []step{
		{do: `POST /v1/nodes {"driver":"d","protected":true}`, want: 400, has: "Cannot specify protected"},
		{do: `POST /v1/nodes {"driver":"d","protected_reason":"x"}`, want: 400},
		{do: `POST /v1/nodes {"driver":"d","retired_reason":"x"}`, want: 400, has: "only be set when retired is True"},
		{
			do: `POST /v1/nodes {"driver":"d","name":"n3","retired":"yes","retired_reason":"x"}`, want: 201,
			has: `"retired":true`,
		},
		{do: `POST /v1/nodes {"driver":"d","retired":"perhaps"}`, want: 400, has: "Unrecognized value"},
		{version: "1.61", do: "PUT /v1/nodes/n3/states/provision " + `{"target":"manage"}`, want: 202},
		{do: "PUT /v1/nodes/n3/states/provision " + `{"target":"provide"}`, want: 400, has: "retired"},

		{do: "PATCH /v1/nodes/n1 " + patch("retired", "true"), want: 409, has: "retired"},
		{do: "PATCH /v1/nodes/n1 " + patch("retired", `"True"`), want: 409},
		{do: "PATCH /v1/nodes/n1 " + patch("protected", `"True"`), want: 409, has: "allowed states are"},
		{do: "PATCH /v1/nodes/n1 " + patch("protected", `"perhaps"`), want: 400, has: "Unrecognized value"},
		{do: "PATCH /v1/nodes/n1 " + patch("protected_reason", `"x"`), want: 400, has: "only be set when protected is True"},
		{do: "PATCH /v1/nodes/n1 " + patch("retired_reason", `"x"`), want: 400},
		{do: "PATCH /v1/nodes/n1 " + patch("automated_clean", `"False"`), want: 200, has: `"automated_clean":false`},
		{do: "PATCH /v1/nodes/n1 " + patch("maintenance", `"on"`), want: 200, has: `"maintenance":true`},
		{do: "PATCH /v1/nodes/n1 " + patch("maintenance", `0`), want: 200, has: `"maintenance":false`},

		{do: `POST /v1/allocations {"resource_class":"bm","name":"a"}`, want: 201}, {do: settle},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"active"}`, want: 202},
		{do: "PATCH /v1/nodes/n1 " + both("protected"), want: 200, has: `"protected":true & "protected_reason":"old"`},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"deleted"}`, want: 403},
		{
			do: `PATCH /v1/nodes/n1 [{"op":"remove","path":"/protected"}]`, want: 200,
			has: `"protected":false & "protected_reason":null`,
		},
		{do: "PATCH /v1/nodes/n1 " + both("retired"), want: 200, has: `"retired":true & "retired_reason":"old"`},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"deleted"}`, want: 202},
		{do: "GET /v1/nodes/n1", want: 200, has: `"provision_state":"manageable" & "instance_uuid":null`},
		{do: `POST /v1/allocations {"resource_class":"bm","name":"b"}`, want: 201}, {do: settle},
		{do: "GET /v1/allocations/b", want: 200, has: `"state":"error"`},
		{do: "PATCH /v1/nodes/n1 " + patch("retired", `"false"`), want: 200, has: `"retired":false & "retired_reason":null`},
		{do: `PUT /v1/nodes/n1/states/provision {"target":"provide"}`, want: 202},
	}))
}
