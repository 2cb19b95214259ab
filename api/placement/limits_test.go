package placement_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
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
	const above = `{"project_id":"top","resource_class":"VCPU","limit":8,"used":8}]`
	expect(ask("GET", "/limits?project_id=p", ""), 200,
		`"limits":[{"project_id":"p","resource_class":"VCPU","limit":6,"used":4},`+above)
	expect(ask("GET", fmt.Sprint("/limits?at=", before), ""), 200, `{"limits":[],"projects":[]}`)
	expect(ask("PUT", "/limits", `{"resource_class":"VCPU","limit":null}`), 204)
	expect(ask("GET", "/limits?project_id=p", ""), 200, `"limits":[`+above)
	expect(ask("GET", "/limits?project_id=other", ""), 200, `"limits":[]`)

	expect(ask("PUT", "/limits", `{"resource_class":"VCPU","limit":7}`), 204)
	was := l.Views.View().Sequence() - 1
	expect(ask("GET", "/limits/versions?resource_class=VCPU", ""), 200,
		fmt.Sprintf(`{"versions":[{"sequence":%d,"limit":7},{"sequence":%d,"limit":null},{"sequence":`, was+1, was), `"limit":6}]}`)
	expect(ask("GET", fmt.Sprint("/limits/versions?resource_class=VCPU&at=", was), ""), 200, fmt.Sprintf(`{"versions":[{"sequence":%d,"limit":null}`, was))
	expect(ask("GET", "/limits/versions?project_id=q&consumer_type=INSTANCE", ""), 200, `"limit":1}]}`)
	expect(ask("GET", "/limits/versions?project_id=p&consumer_type=INSTANCE", ""), 200, `{"versions":[]}`)
	expect(ask("GET", "/limits/versions", ""), 400)
	expect(ask("GET", "/limits/versions?resource_class=CUSTOM_NONE", ""), 400, "CUSTOM_NONE")
	expect(ask("GET", "/limits/versions?resource_class=VCPU&aggregate=x", ""), 400)

	rack := commandstest.NewID()
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{rack}})
	ofRack := func(most int) string {
		return fmt.Sprintf(`{"aggregate":"%s","resource_class":"VCPU","limit":%d}`, rack, most)
	}
	expect(ask("PUT", "/limits", ofRack(9)), 204)
	then := l.Views.View().Sequence()
	expect(put("r", 2), 409, "allot.over_limit", "its limit is 9, and 8 are used")
	expect(put("r", 1), 204)
	expect(ask("GET", "/limits", ""), 200, fmt.Sprintf(`{"resource_class":"VCPU","aggregate":"%s","limit":9,"used":9}`, rack))
	expect(ask("GET", fmt.Sprint("/limits?at=", then), ""), 200, `"limit":9,"used":8}`)
	expect(ask("GET", "/limits?project_id=r", ""), 200, `"limits":[{"project_id":"r","resource_class":"VCPU","limit":7,"used":1}]`)
	expect(ask("PUT", "/limits", ofRack(3)), 204)
	expect(put("r", 1), 409, "allot.over_limit", "its limit is 3, and 9 are used")
	expect(ask("GET", fmt.Sprintf("/limits/versions?resource_class=VCPU&aggregate=%s", rack), ""), 200,
		fmt.Sprintf(`,"limit":3},{"sequence":%d,"limit":9}]}`, then))
	expect(ask("PUT", "/limits", strings.Replace(ofRack(3), `"limit"`, `"project_id":"p","limit"`, 1)), 400)
	claims := func(count int) string {
		return fmt.Sprintf(`{"requests":["resources=VCPU:1"],"consumers":[{"consumer_uuid":"%s","project_id":"r","user_id":"u",
			"consumer_type":"INSTANCE","consumer_generation":null,"count":%d}]}`, host, count)
	}
	expect(ask("POST", "/claims", claims(1)), 409, "allot.over_limit", "9 are used", rack.String())
	expect(ask("PUT", "/limits", strings.Replace(ofRack(0), ":0}", ":null}", 1)), 204)
	expect(ask("POST", "/claims", claims(0)), 400)
	expect(ask("POST", "/claims", claims(3)), 200, host.String(), host.Derive("1").String(), host.Derive("2").String())
	commandstest.CheckReplay(t, l)
}
