package placement_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestPreferences: preferences are set, shown with what they were before, now and
// then, and removed; claims and requests for candidates refer to them.
func TestPreferences(t *testing.T) {
	t.Parallel()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := handler(l)
	small := l.Provider(t, "small", commands.Inventory{Class: "VCPU", Total: 8})
	l.Accept(t, commandstest.Allocate(commandstest.NewID(), small, "VCPU", 4))
	l.Provider(t, "large", commands.Inventory{Class: "VCPU", Total: 80})
	expect := func(method, path, body string, status int, texts ...string) {
		t.Helper()
		w := send(h, method, path, body)
		for _, text := range append(texts, "") {
			if w.Code != status || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s %s: %d %s, not %d with %q", method, path, w.Code, w.Body, status, text)
			}
		}
	}
	before := l.Views.Checkpoint().Sequence
	expect("GET", "/preferences", "", 200, `{"preferences":[]}`)
	expect("GET", "/preferences/gold", "", 404)
	expect("PUT", "/preferences/gold", `{"prefer":{"order":"pack"}}`, 204)
	first := l.Views.Checkpoint().Sequence
	expect("PUT", "/preferences/gold", `{"prefer":{"order":"spread"}}`, 204)
	expect("PUT", "/preferences/of.all", `{"prefer":{}}`, 204)
	expect("GET", "/preferences", "", 200, fmt.Sprintf(
		`{"preferences":[{"name":"gold","prefer":{"order":"spread"},"sequence":%d},{"name":"of.all","prefer":{},`, first+1))
	expect("GET", fmt.Sprint("/preferences?at=", before), "", 200, `{"preferences":[]}`)
	expect("GET", fmt.Sprint("/preferences/gold?at=", before), "", 404)
	expect("GET", fmt.Sprint("/preferences/gold?at=", first), "", 200, `"prefer":{"order":"pack"},"versions":[{"sequence":`)
	expect("GET", "/preferences/gold", "", 200, fmt.Sprintf(
		`"versions":[{"sequence":%d,"prefer":{"order":"spread"}},{"sequence":%d,"prefer":{"order":"pack"}}]`, first+1, first))
	for _, bad := range []string{
		`{"prefer":{"order":"best"}}`, `{"prefer":{"name":"gold"}}`, `{"prefer":{"weights":{"CUSTOM_NO":1}}}`,
		`{"prefer":{"traits":{"CUSTOM_NO":1}}}`, `{"prefer":{"seed":1}}`, `{}`, `{"prefer":[]}`,
	} {
		expect("PUT", "/preferences/gold", bad, 400)
	}
	expect("PUT", "/preferences/gold", `{"prefer":{"weights":{"VCPU":1e308}}}`, 400, "greater than the maximum")
	expect("PUT", "/preferences/gold", `{"prefer":{"weights":{"VCPU":1e999}}}`, 400, "out of range")
	expect("PUT", "/preferences/a%20b", `{"prefer":{}}`, 400)

	claim := func(name string) string {
		return fmt.Sprintf(`{"requests":["resources=VCPU:1"],"consumers":[{"consumer_uuid":"%s","project_id":"p","user_id":"u",
			"consumer_type":"INSTANCE","consumer_generation":null}],"prefer":{"name":"%s"}}`, commandstest.NewID(), name)
	}
	expect("POST", "/claims", claim("gold"), 200, `"claimed"`)
	expect("POST", "/claims", claim("silver"), 400, "no preference silver")
	ask := "/allocation_candidates?resources=VCPU:1&limit=1&prefer=" + url.QueryEscape(`{"name":"gold"}`)
	expect("GET", fmt.Sprint(ask, "&at=", first), "", 200, `{"allocation_requests":[{"allocations":{"`+small.String())
	expect("GET", strings.Replace(ask, "gold", "silver", 1), "", 400, "no preference silver")
	expect("PUT", "/preferences/gold", `{"prefer":null}`, 204)
	expect("GET", "/preferences/gold", "", 200, `"prefer":null`)
	expect("POST", "/claims", claim("gold"), 400, "no preference gold")
	commandstest.CheckReplay(t, l)
}
