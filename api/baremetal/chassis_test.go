package baremetal_test

import (
	"strings"
	"testing"
)

const (
	c1 = "cccccccc-0000-4000-8000-000000000001"
	c2 = "cccccccc-0000-4000-8000-000000000002"
	c3 = "cccccccc-0000-4000-8000-000000000003"
)

// TestChassis: Ironic's own tests of chassis, from
// ironic/tests/unit/api/controllers/v1/test_chassis.py, and how nodes come into a
// chassis and out of it.
func TestChassis(t *testing.T) {
	rack := []step{
		{do: `POST /v1/chassis {"uuid":"` + c1 + `","description":"rack 1","extra":{"row":[1,{"u":42}]}}`, want: 201},
	}
	three := all(rack, []step{
		{
			do: `POST /v1/chassis {"uuid":"` + c2 + `","description":"a"}`, want: 201,
		}, {do: `POST /v1/chassis {"uuid":"` + c3 + `","description":"b"}`, want: 201},
	})
	filled := all(three, []step{
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + n1 + `","chassis_uuid":"` + c1 + `"}`, want: 201,
			has: `"chassis_uuid":"` + c1 + `"`},
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + n2 + `","chassis_uuid":"` + c1 + `"}`, want: 201},
		{do: `POST /v1/nodes {"driver":"d","uuid":"` + n3 + `","chassis_uuid":null}`, want: 201, has: `"chassis_uuid":null`},
	})
	patch := func(op string) string { return "PATCH /v1/nodes/" + n1 + " [{" + op + "}]" }
	into := func(chassis string) string {
		return patch(`"op":"replace","path":"/chassis_uuid","value":"` + chassis + `"`)
	}
	for name, steps := range map[string][]step{
		"create and show": all(rack, []step{
			{do: "GET /v1/chassis/" + c1, want: 200, has: `"uuid":"` + c1 + `" & "description":"rack 1" & "extra":{"row":[1,{"u":42}]} & "updated_at":null & "nodes":[{"href":"http://example.com/v1/chassis/` + c1 + `/nodes","rel":"self"}`},
			{do: "GET /v1/chassis/cccccccc000040008000000000000001", want: 200},
			{do: "GET /v1/chassis/" + c2, want: 404, has: "Chassis " + c2 + " could not be found."},
			{do: "GET /v1/chassis/rack", want: 400, has: "Expected UUID"},
			{do: `POST /v1/chassis {"uuid":"` + c1 + `"}`, want: 409, has: "A chassis with UUID " + c1 + " already exists."},
			{do: `POST /v1/chassis {}`, want: 201, has: `"description":null & "extra":{}`},
			{do: `POST /v1/chassis {"uuid":null,"description":null,"extra":null}`, want: 201},
		}),
		"bad bodies": {
			{do: `POST /v1/chassis {"uuid":"rack"}`, want: 400}, {do: `POST /v1/chassis {"colour":"red"}`, want: 400},
			{do: `POST /v1/chassis {"description":1}`, want: 400}, {do: `POST /v1/chassis {"extra":[]}`, want: 400},
			{do: `POST /v1/chassis {"description":"` + strings.Repeat("ä", 256) + `"}`, want: 400},
			{do: `POST /v1/chassis {"description":"` + strings.Repeat("ä", 255) + `"}`, want: 201},
			{do: `PUT /v1/chassis {}`, want: 405}, {do: `GET /v1/chassis/` + c1 + `/ports`, want: 404},
		},
		"patch": all(rack, []step{
			{do: `PATCH /v1/chassis/` + c1 + ` [{"op":"replace","path":"/description","value":"rack 2"},{"op":"add","path":"/extra/k","value":"v"}]`, want: 200, has: `"description":"rack 2" & "k":"v"`, hasNot: `"updated_at":null`},
			{do: `PATCH /v1/chassis/` + c1 + ` [{"op":"remove","path":"/extra"},{"op":"remove","path":"/description"}]`, want: 200, has: `"description":null & "extra":{}`},
			{do: `PATCH /v1/chassis/` + c1 + ` [{"op":"replace","path":"/uuid","value":"` + c2 + `"}]`, want: 400},
			{do: `PATCH /v1/chassis/` + c1 + ` [{"op":"remove","path":"/extra/none"}]`, want: 400},
			{do: `PATCH /v1/chassis/` + c1 + ` [{"op":"replace","path":"/description","value":"` + strings.Repeat("x", 256) + `"}]`, want: 400},
			{do: `PATCH /v1/chassis/` + c2 + ` []`, want: 404}, {do: `PATCH /v1/chassis/rack []`, want: 404},
		}),
		"delete": all(filled, []step{
			{do: "DELETE /v1/chassis/" + c1, want: 400, has: "Cannot complete the requested action because chassis " + c1 + " contains nodes."},
			{do: "DELETE /v1/chassis/" + c2, want: 204}, {do: "GET /v1/chassis/" + c2, want: 404},
			{do: "DELETE /v1/chassis/" + c2, want: 404},
			{do: "DELETE /v1/chassis/rack", want: 400}, {do: "DELETE /v1/nodes/" + n1, want: 204},
			{do: "DELETE /v1/nodes/" + n2, want: 204},
			{do: "DELETE /v1/chassis/" + c1, want: 204}, {do: "GET /v1/chassis", want: 200, has: c3, hasNot: c1},
		}),
		"lists": all(three, []step{
			{do: "GET /v1/chassis", want: 200, has: c1 + " & " + c2 + ` & "description":"rack 1" & "links"`, hasNot: `"extra"`},
			{do: "GET /v1/chassis/detail", want: 200, has: `"extra":{"row"`},
			{do: "GET /v1/chassis?detail=True", want: 200, has: `"extra":{"row"`},
			{do: "GET /v1/chassis?fields=uuid,extra", want: 200, has: `"extra":{"row"`, hasNot: `"description"`},
			{do: "GET /v1/chassis?fields=uuid&fields=extra", want: 200, has: `"extra":{"row"`},
			{do: "GET /v1/chassis?fields=colour", want: 400}, {do: "GET /v1/chassis?fields=uuid&detail=True", want: 400},
			{do: "GET /v1/chassis/detail?fields=uuid", want: 400},
			{do: "GET /v1/chassis/" + c1 + "?fields=nodes", want: 200, has: `"nodes"`, hasNot: `"uuid":`},
			{do: "GET /v1/chassis?limit=2", want: 200, has: `"next":"http://example.com/v1/chassis?sort_key=id&sort_dir=asc&limit=2&marker=` + c2 + `"`, hasNot: c3},
			{do: "GET /v1/chassis?limit=2&marker=" + c2, want: 200, has: c3, hasNot: `"next"`},
			{do: "GET /v1/chassis?sort_key=description&sort_dir=desc&limit=1", want: 200, has: c1},
			{do: "GET /v1/chassis?sort_key=extra", want: 400},
			{do: "GET /v1/chassis?marker=" + n1, want: 404}, {do: "GET /v1/chassis?limit=0", want: 400},
			{do: "GET /v1/chassis?colour=red", want: 400},
		}),
		"nodes": all(filled, []step{
			{do: "GET /v1/chassis/" + c1 + "/nodes", want: 200, has: n1 + " & " + n2, hasNot: n3},
			{do: "GET /v1/chassis/" + c1 + "/nodes/detail", want: 200, has: `"chassis_uuid":"` + c1 + `"`, hasNot: n3},
			{do: "GET /v1/chassis/" + c1 + "/nodes?limit=1", want: 200, has: `/v1/nodes?sort_key=id&sort_dir=asc&chassis_uuid=` + c1 + `&limit=1&marker=` + n1},
			{do: "GET /v1/nodes?chassis_uuid=" + c1, want: 200, has: n1 + " & " + n2, hasNot: n3},
			{do: "GET /v1/nodes?chassis_uuid=" + c2, want: 200, hasNot: n1}, {do: "GET /v1/nodes?chassis_uuid=" + n1, want: 404},
			{do: "GET /v1/nodes?chassis_uuid=rack", want: 400}, {do: "GET /v1/chassis/rack/nodes", want: 400},
			{do: "GET /v1/chassis/" + n1 + "/nodes", want: 404},
			{do: "GET /v1/chassis/" + c1 + "/nodes?chassis_uuid=" + c2, want: 400},
			{do: `POST /v1/nodes {"driver":"d","chassis_uuid":"` + n1 + `"}`, want: 400, has: "Chassis " + n1 + " could not be found."},
			{do: `POST /v1/nodes {"driver":"d","chassis_uuid":"rack"}`, want: 400, has: "Expected UUID"},
			{do: into(c2), want: 200, has: `"chassis_uuid":"` + c2 + `"`},
			{do: into(n1), want: 400}, {do: into("rack"), want: 400},
			{do: "GET /v1/chassis/" + c2 + "/nodes", want: 200, has: n1},
			{version: "1.24", do: patch(`"op":"remove","path":"/chassis_uuid"`), want: 406},
			{version: "1.24", do: patch(`"op":"replace","path":"/chassis_uuid","value":null`), want: 406},
			{version: "1.25", do: patch(`"op":"remove","path":"/chassis_uuid"`), want: 200, has: `"chassis_uuid":null`},
			{version: "1.24", do: patch(`"op":"replace","path":"/chassis_uuid","value":null`), want: 200},
			{do: "GET /v1/chassis/" + c2 + "/nodes", want: 200, hasNot: n1},
		}),
		"versions": all(rack, []step{
			{version: "1.1", do: `POST /v1/chassis {"uuid":"` + c2 + `"}`, want: 201},
			{version: "1.1", do: "GET /v1/chassis/" + c2, want: 200},
			{version: "1.7", do: "GET /v1/chassis?fields=uuid", want: 406},
			{version: "1.8", do: "GET /v1/chassis?fields=uuid", want: 200},
			{version: "1.7", do: "GET /v1/chassis/" + c1 + "?fields=uuid", want: 406},
			{version: "1.42", do: "GET /v1/chassis?detail=True", want: 400},
			{version: "1.43", do: "GET /v1/chassis?detail=True", want: 200},
		}),
		"who": all(filled, []step{
			{who: reader, do: "GET /v1/chassis", want: 403}, {who: member, do: "GET /v1/chassis/" + c1, want: 403},
			{who: member, do: "GET /v1/chassis/" + n1, want: 403},
			{who: member, do: "POST /v1/chassis {}", want: 403}, {who: member, do: "PATCH /v1/chassis/" + c1 + " []", want: 403},
			{who: member, do: "DELETE /v1/chassis/" + c3, want: 403}, {who: reader, do: "GET /v1/chassis/detail", want: 403},
			{do: `PATCH /v1/nodes/` + n1 + ` [{"op":"add","path":"/owner","value":"p"}]`, want: 200},
			{who: reader, do: "GET /v1/nodes?chassis_uuid=" + c1, want: 200, has: n1, hasNot: n2},
			{who: reader, do: "GET /v1/nodes?chassis_uuid=" + c2, want: 200, hasNot: n1},
			{who: reader, do: "GET /v1/nodes?chassis_uuid=" + n1, want: 200, hasNot: `"uuid"`},
			// A client that may not see chassis cannot find out which exist.
			{who: "u:p manager,reader", do: into(c2), want: 400, has: "Chassis " + c2 + " could not be found."},
			{who: "u:p manager,reader", do: into(a1), want: 400, has: "Chassis " + a1 + " could not be found."},
		}),
		"dry runs and the past": all(filled, []step{
			{do: `POST /v1/chassis?dry_run=true {"uuid":"` + a1 + `"}`, want: 200, has: "ChassisCreated"},
			{do: "GET /v1/chassis/" + a1, want: 404},
			{do: "DELETE /v1/chassis/" + c3 + "?dry_run=1", want: 200, has: "ChassisDeleted"},
			{do: "DELETE /v1/chassis/" + c3, want: 204},
			{do: "GET /v1/chassis/" + c3 + "?at=4", want: 200, has: `"description":"b"`},
			{do: "GET /v1/chassis?at=2", want: 200, has: c1, hasNot: c2}, {do: "GET /v1/chassis?at=4", want: 200, has: c3},
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).play(t, steps)
		})
	}
}
