package placement_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
)

// TestPreferences: preferences are set, shown with what they were before, now and
// then, and removed; claims and requests for candidates refer to them.
func TestPreferences(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	small := l.Provider(t, "small", commands.Inventory{Class: "VCPU", Total: 8})
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), small, "VCPU", 4))
	l.Provider(t, "large", commands.Inventory{Class: "VCPU", Total: 80})
	before := l.Views.Checkpoint().Sequence
	expect(t, h, "GET", "/preferences", "", 200, `{"preferences":[]}`)
	expect(t, h, "GET", "/preferences/gold", "", 404)
	expect(t, h, "PUT", "/preferences/gold", `{"prefer":{"order":"pack"}}`, 204)
	first := l.Views.Checkpoint().Sequence
	expect(t, h, "PUT", "/preferences/gold", `{"prefer":{"order":"spread"}}`, 204)
	expect(t, h, "PUT", "/preferences/of.all", `{"prefer":{}}`, 204)
	expect(t, h, "GET", "/preferences", "", 200, fmt.Sprintf(
		`{"preferences":[{"name":"gold","prefer":{"order":"spread"},"sequence":%d},{"name":"of.all","prefer":{},`, first+1))
	expect(t, h, "GET", fmt.Sprint("/preferences?at=", before), "", 200, `{"preferences":[]}`)
	expect(t, h, "GET", fmt.Sprint("/preferences/gold?at=", before), "", 404)
	expect(t, h, "GET", fmt.Sprint("/preferences/gold?at=", first), "", 200, `"prefer":{"order":"pack"},"versions":[{"sequence":`)
	expect(t, h, "GET", "/preferences/gold", "", 200, fmt.Sprintf(
		`"versions":[{"sequence":%d,"prefer":{"order":"spread"}},{"sequence":%d,"prefer":{"order":"pack"}}]`, first+1, first))
	for _, bad := range []string{`{"prefer":{"name":"gold"}}`, `{"prefer":{"weights":{"CUSTOM_NO":1}}}`, `{}`} {
		expect(t, h, "PUT", "/preferences/gold", bad, 400)
	}
	expect(t, h, "PUT", "/preferences/gold", `{"prefer":{"weights":{"VCPU":1e999}}}`, 400, "out of range")
	expect(t, h, "PUT", "/preferences/a%20b", `{"prefer":{}}`, 400)

	claim := func(name string) string { return claim("resources=VCPU:1", `,"prefer":{"name":"`+name+`"}`) }
	expect(t, h, "POST", "/claims", claim("gold"), 200, `"claimed"`)
	expect(t, h, "POST", "/claims", claim("silver"), 400, "no preference silver")
	ask := "/allocation_candidates?resources=VCPU:1&limit=1&prefer=" + url.QueryEscape(`{"name":"gold"}`)
	expect(t, h, "GET", fmt.Sprint(ask, "&at=", first), "", 200, `{"allocation_requests":[{"allocations":{"`+small.String())
	expect(t, h, "GET", strings.Replace(ask, "gold", "silver", 1), "", 400, "no preference silver")
	expect(t, h, "PUT", "/preferences/gold", `{"prefer":null}`, 204)
	expect(t, h, "GET", "/preferences/gold", "", 200, `"prefer":null`)
	expect(t, h, "POST", "/claims", claim("gold"), 400, "no preference gold")
	commandstest.CheckReplay(t, l)
}
