package placement_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// TestClaims: POST /claims chooses, allocates and tells; and says in Placement's
// form of errors why it does not.
func TestClaims(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	var host ledger.UUID
	for i := range 4 {
		host = l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: int64(4 << i)})
	}
	body := func(request, more string) string {
		return fmt.Sprintf(`{"requests":["%s"],"consumers":[{"consumer_uuid":"%s","project_id":"p","user_id":"u",
			"consumer_type":"INSTANCE","consumer_generation":null}]%s}`, request, commandstest.NewID(), more)
	}
	w := send(h, "POST", "/claims", body("resources=VCPU:3", `,"prefer":{"order":"pack","weights":{},"seed":18446744073709551615},"alternates":2`))
	var got struct {
		Claimed []struct {
			Allocations map[string]any `json:"allocations"`
			Mappings    map[string]any `json:"mappings"`
			Seed        uint64         `json:"seed"`
			Alternates  []any          `json:"alternates"`
			Generation  uint64         `json:"consumer_generation"`
		} `json:"claimed"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got.Claimed) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	reservation := commandstest.NewID()
	l.Accept(t, &commands.Reserve{Seconds: 60, Projects: []string{"p"}, Allocations: []commands.ConsumerAllocations{{
		Consumer: reservation, Project: "r", User: "u",
		Resources: []commands.ProviderAllocation{{Provider: host, Class: "VCPU", Amount: 2}},
	}}})
	from := func(project, request string, id ledger.UUID) string {
		return strings.Replace(body(request, ""), `"project_id":"p"`, fmt.Sprintf(`"project_id":%q,"from_reservation":%q`, project, id), 1)
	}
	expect(t, h, "POST", "/claims", from("p", "resources=VCPU:1", reservation), 200, host.String())
	either := func(lists, more string) string {
		return strings.Replace(body("x", more), `"requests":["x"]`, `"alternatives":`+lists, 1)
	}
	second := either(`[["resources=VCPU:33"],["resources=VCPU:1"]]`, "")
	expect(t, h, "POST", "/claims", second, 200, `"alternative":1`, `"earlier":["nothing satisfied it"]`)
	one := got.Claimed[0]
	if len(one.Allocations) != 1 || len(one.Mappings) != 1 || len(one.Alternates) != 2 ||
		one.Seed != 1<<64-1 || one.Generation == 0 {
		t.Errorf("%s", w.Body)
	}
	for name, c := range map[string]struct {
		body   string
		status int
		text   string
	}{
		"nothing is left":       {body("resources=VCPU:33", ""), 409, "removed last by"},
		"more than is reserved": {from("p", "resources=VCPU:2", reservation), 409, "from what is left of the reservation"},
		"no reservation":        {from("p", "resources=VCPU:1", host), 409, "allot.no_reservation"},
		"no alternative":        {either(`[["resources=VCPU:33"],["resources=VCPU:34"]]`, ""), 409, "allot.no_candidates"},
		"both":                  {either(`[["resources=VCPU:1"]]`, `,"requests":["resources=VCPU:1"]`), 400, "not both"},
		"unknown class":         {body("resources=CUSTOM_NONE:1", ""), 400, "No such resource class"},
		"a limit":               {body("resources=VCPU:1&limit=5", ""), 400, "limit"},
		"no query":              {body("resources=%zz", ""), 400, "cannot be read"},
		"order and weights":     {body("resources=VCPU:1", `,"prefer":{"order":"pack","weights":{"VCPU":1}}`), 400, "contradicts"},
		"weight beyond floats":  {body("resources=VCPU:1", `,"prefer":{"weights":{"VCPU":1e999}}`), 400, "out of range"},
		"weight NaN":            {body("resources=VCPU:1", `,"prefer":{"traits":{"A":NaN}}`), 400, "Malformed JSON"},
		"unknown member":        {body("resources=VCPU:1", `,"x":1`), 400, "Additional properties"},
		"two groups, no policy": {body("resources1=VCPU:1&resources2=VCPU:1", ""), 400, "group_policy"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, h, "POST", "/claims", c.body, c.status, c.text) })
	}
}
