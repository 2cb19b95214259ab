package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// TestLimits: limits are set and shown with what is used, now and then, and hold
// for everything that allocates, with a refusal that Placement's clients know.
func TestLimits(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 100})
	put := func(project string, amount, status int, texts ...string) {
		t.Helper()
		body := strings.NewReplacer(`"p"`, `"`+project+`"`, `"T"`, `"INSTANCE"`).Replace(taking(host, amount))
		expect(t, h, "PUT", "/allocations/"+commandstest.NewID().String(), body, status, texts...)
	}
	put("p", 4, 204)
	before := l.Views.Checkpoint().Sequence
	expect(t, h, "PUT", "/limits", `{"resource_class":"VCPU","limit":6}`, 204)
	expect(t, h, "PUT", "/limits", `{"project_id":"top","resource_class":"VCPU","limit":8}`, 204)
	expect(t, h, "PUT", "/limits", `{"project_id":"q","consumer_type":"INSTANCE","limit":1}`, 204)
	for _, project := range []string{"p", "q"} {
		expect(t, h, "PUT", "/projects/"+project, `{"parent_id":"top"}`, 204)
	}
	expect(t, h, "PUT", "/projects/top", `{"parent_id":"q"}`, 409, "below top already")
	expect(t, h, "PUT", "/limits", `{"resource_class":"CUSTOM_NONE","limit":6}`, 400)

	put("p", 3, 409, "allot.over_limit", "its limit is 6, and with those below it 4 are used")
	put("q", 4, 204)
	expect(t, h, "POST", "/claims", claim("resources=VCPU:3", ""), 409, "allot.over_limit")

	expect(t, h, "GET", "/limits", "", 200,
		`{"resource_class":"VCPU","limit":6}`, `{"project_id":"top","resource_class":"VCPU","limit":8,"used":8}`,
		`{"project_id":"q","consumer_type":"INSTANCE","limit":1,"used":1}`, `{"project_id":"p","parent_id":"top"}`)
	const above = `{"project_id":"top","resource_class":"VCPU","limit":8,"used":8}]`
	expect(t, h, "GET", "/limits?project_id=p", "", 200,
		`"limits":[{"project_id":"p","resource_class":"VCPU","limit":6,"used":4},`+above)
	expect(t, h, "GET", fmt.Sprint("/limits?at=", before), "", 200, `{"limits":[],"projects":[]}`)
	expect(t, h, "PUT", "/limits", `{"resource_class":"VCPU","limit":null}`, 204)
	expect(t, h, "GET", "/limits?project_id=p", "", 200, `"limits":[`+above)
	expect(t, h, "GET", "/limits?project_id=other", "", 200, `"limits":[]`)

	expect(t, h, "PUT", "/limits", `{"resource_class":"VCPU","limit":7}`, 204)
	was := l.Views.View().Sequence() - 1
	expect(t, h, "GET", "/limits/versions?resource_class=VCPU", "", 200,
		fmt.Sprintf(`{"versions":[{"sequence":%d,"limit":7},{"sequence":%d,"limit":null},{"sequence":`, was+1, was), `"limit":6}]}`)
	expect(t, h, "GET", fmt.Sprint("/limits/versions?resource_class=VCPU&at=", was), "", 200, fmt.Sprintf(`{"versions":[{"sequence":%d,"limit":null}`, was))
	expect(t, h, "GET", "/limits/versions?project_id=q&consumer_type=INSTANCE", "", 200, `"limit":1}]}`)
	expect(t, h, "GET", "/limits/versions", "", 400)
	expect(t, h, "GET", "/limits/versions?resource_class=VCPU&aggregate=x", "", 400)

	rack := commandstest.NewID()
	l.Accept(t, &commands.ReplaceProviderAggregates{Provider: host, Aggregates: []ledger.UUID{rack}})
	ofRack := func(most int) string {
		return fmt.Sprintf(`{"aggregate":"%s","resource_class":"VCPU","limit":%d}`, rack, most)
	}
	expect(t, h, "PUT", "/limits", ofRack(9), 204)
	then := l.Views.View().Sequence()
	put("r", 2, 409, "allot.over_limit", "its limit is 9, and 8 are used")
	put("r", 1, 204)
	expect(t, h, "GET", "/limits", "", 200, fmt.Sprintf(`{"resource_class":"VCPU","aggregate":"%s","limit":9,"used":9}`, rack))
	expect(t, h, "GET", fmt.Sprint("/limits?at=", then), "", 200, `"limit":9,"used":8}`)
	expect(t, h, "GET", "/limits?project_id=r", "", 200, `"limits":[{"project_id":"r","resource_class":"VCPU","limit":7,"used":1}]`)
	expect(t, h, "PUT", "/limits", ofRack(3), 204)
	expect(t, h, "GET", fmt.Sprintf("/limits/versions?resource_class=VCPU&aggregate=%s", rack), "", 200,
		fmt.Sprintf(`,"limit":3},{"sequence":%d,"limit":9}]}`, then))
	expect(t, h, "PUT", "/limits", strings.Replace(ofRack(3), `"limit"`, `"project_id":"p","limit"`, 1), 400)
	claims := func(count int) string {
		return fmt.Sprintf(`{"requests":["resources=VCPU:1"],"consumers":[{"consumer_uuid":"%s","project_id":"r","user_id":"u",
			"consumer_type":"INSTANCE","consumer_generation":null,"count":%d}]}`, host, count)
	}
	expect(t, h, "POST", "/claims", claims(1), 409, "allot.over_limit", "9 are used", rack.String())
	expect(t, h, "PUT", "/limits", strings.Replace(ofRack(0), ":0}", ":null}", 1), 204)
	expect(t, h, "POST", "/claims", claims(3), 200, host.String(), host.Derive("1").String(), host.Derive("2").String())
	commandstest.CheckReplay(t, l)
}
