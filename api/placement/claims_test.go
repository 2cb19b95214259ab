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
	w := send(h, "POST", "/claims", claim("resources=VCPU:3", `,"prefer":{"order":"pack","weights":{},"seed":18446744073709551615},"alternates":2`))
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
	one := got.Claimed[0]
	if len(one.Allocations) != 1 || len(one.Mappings) != 1 || len(one.Alternates) != 2 || one.Seed != 1<<64-1 ||
		one.Generation == 0 {
		t.Errorf("%s", w.Body)
	}
	reservation := commandstest.NewID()
	reserved := commandstest.Allocate(reservation, host, "VCPU", 2).Allocations
	l.Accept(t, &commands.Reserve{Seconds: 60, Projects: []string{"p"}, Allocations: reserved})
	from := func(request string, id ledger.UUID) string {
		return strings.Replace(claim(request, ""), `"project_id"`, fmt.Sprintf(`"from_reservation":%q,"project_id"`, id), 1)
	}
	for _, c := range []struct {
		body   string
		status int
		texts  []string
	}{
		{from("resources=VCPU:1", reservation), 200, []string{host.String()}},
		{eitherOf(`[["resources=VCPU:33"],["resources=VCPU:1"]]`, ""), 200, []string{`"alternative":1`, `"earlier":["nothing satisfied it"]`}},
		{claim("resources=VCPU:33", ""), 409, []string{"removed last by"}},
		{from("resources=VCPU:2", reservation), 409, []string{"from what is left of the reservation"}},
		{from("resources=VCPU:1", host), 409, []string{"allot.no_reservation"}},
		{eitherOf(`[["resources=VCPU:33"],["resources=VCPU:34"]]`, ""), 409, []string{"allot.no_candidates"}},
		{eitherOf(`[["resources=VCPU:1"]]`, `,"requests":["resources=VCPU:1"]`), 400, []string{"not both"}},
		{claim("resources=CUSTOM_NONE:1", ""), 400, []string{"No such resource class"}},
		{claim("resources=VCPU:1&limit=5", ""), 400, []string{"limit"}},
		{claim("resources=%zz", ""), 400, []string{"cannot be read"}},
		{claim("resources=VCPU:1", `,"prefer":{"order":"pack","weights":{"VCPU":1}}`), 400, []string{"contradicts"}},
		{claim("resources=VCPU:1", `,"prefer":{"weights":{"VCPU":1e999}}`), 400, []string{"out of range"}},
		{claim("resources=VCPU:1", `,"prefer":{"traits":{"A":NaN}}`), 400, []string{"Malformed JSON"}},
		{claim("resources=VCPU:1", `,"x":1`), 400, []string{"Additional properties"}},
		{claim("resources1=VCPU:1&resources2=VCPU:1", ""), 400, []string{"group_policy"}},
	} {
		expect(t, h, "POST", "/claims", c.body, c.status, c.texts...)
	}
}

// eitherOf is the body of a claim with alternatives.
func eitherOf(lists, more string) string {
	return strings.Replace(claim("x", more), `"requests":["x"]`, `"alternatives":`+lists, 1)
}
