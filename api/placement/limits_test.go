package placement_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestLimits: limits are set and shown with what is used, now and then, and hold
// for everything that allocates, with a refusal that Placement's clients know.
func TestLimits(t *testing.T) {
	t.Parallel()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	h := handler(l)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 100})
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("Openstack-Api-Version", "placement 1.39")
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	expect := func(w *httptest.ResponseRecorder, status int, texts ...string) {
		t.Helper()
		for _, text := range append(texts, "") {
			if w.Code != status || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%d %s, not %d with %q", w.Code, w.Body, status, text)
			}
		}
	}
	allocation := func(project string, amount int) string {
		return fmt.Sprintf(`{"allocations":{"%s":{"resources":{"VCPU":%d}}},"project_id":"%s","user_id":"u",
			"consumer_generation":null,"consumer_type":"INSTANCE"}`, host, amount, project)
	}
	put := func(project string, amount int) *httptest.ResponseRecorder {
		return ask("PUT", "/allocations/"+commandstest.NewID().String(), allocation(project, amount))
	}
	expect(put("p", 4), 204)
	before := l.Views.Checkpoint().Sequence
	expect(ask("PUT", "/limits", `{"resource_class":"VCPU","limit":6}`), 204)
	expect(ask("PUT", "/limits", `{"project_id":"top","resource_class":"VCPU","limit":8}`), 204)
	expect(ask("PUT", "/limits", `{"project_id":"q","consumer_type":"INSTANCE","limit":1}`), 204)
	for _, project := range []string{"p", "q"} {
		expect(ask("PUT", "/projects/"+project, `{"parent_id":"top"}`), 204)
	}
	expect(ask("PUT", "/projects/top", `{"parent_id":"q"}`), 409, "below top already")
	expect(ask("PUT", "/limits", `{"resource_class":"CUSTOM_NONE","limit":6}`), 400)
	expect(ask("PUT", "/limits", `{"resource_class":"VCPU"}`), 400)
	expect(ask("PUT", "/limits", `{"resource_class":"VCPU","limit":-1}`), 400)

	expect(put("p", 3), 409, "allot.over_limit", "its limit is 6, and with those below it 4 are used")
	expect(put("q", 5), 409, "allot.over_limit", "project top", "its limit is 8")
	expect(put("q", 4), 204)
	expect(put("q", 1), 409, "allot.over_limit")
	expect(ask("POST", "/claims", fmt.Sprintf(`{"requests":["resources=VCPU:3"],"consumers":[{"consumer_uuid":"%s","project_id":"p",
		"user_id":"u","consumer_type":"INSTANCE","consumer_generation":null}]}`, commandstest.NewID())), 409, "allot.over_limit")

	expect(ask("GET", "/limits", ""), 200,
		`{"resource_class":"VCPU","limit":6}`, `{"project_id":"top","resource_class":"VCPU","limit":8,"used":8}`,
		`{"project_id":"q","consumer_type":"INSTANCE","limit":1,"used":1}`, `{"project_id":"p","parent_id":"top"}`)
	expect(ask("GET", "/limits?project_id=p", ""), 200, `"limits":[{"project_id":"p","resource_class":"VCPU","limit":6,"used":4}]`)
	expect(ask("GET", fmt.Sprint("/limits?at=", before), ""), 200, `{"limits":[],"projects":[]}`)
	expect(ask("PUT", "/limits", `{"resource_class":"VCPU","limit":null}`), 204)
	expect(ask("GET", "/limits?project_id=p", ""), 200, `"limits":[]`)
	commandstest.CheckReplay(t, l)
}
