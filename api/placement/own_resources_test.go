package placement_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"
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

// TestTopologies: topologies are set, shown now and then, and removed; what is none is refused,
// and changes nothing.
func TestTopologies(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	block, rack := commandstest.NewID(), commandstest.NewID()
	members := func(rackIn string) string {
		return fmt.Sprintf(`{"levels":["block","rack"],"members":{"%s":{"level":"block","name":"b1"},
			"%s":{"level":"rack","name":"r1","parent":"%s"}}}`, block, rack, rackIn)
	}
	before := l.Views.Checkpoint().Sequence
	expect(t, h, "GET", "/topologies", "", 200, `{"topologies":[]}`)
	expect(t, h, "GET", "/topologies/fabric", "", 404, "No topology with name fabric")
	expect(t, h, "DELETE", "/topologies/fabric", "", 404, "No topology with name fabric")
	expect(t, h, "PUT", "/topologies/fabric", members(block.String()), 204)
	first := l.Views.Checkpoint().Sequence
	expect(t, h, "PUT", "/topologies/fabric", members(block.String()), 204)
	expect(t, h, "PUT", "/topologies/flat", `{"levels":["rack"],"members":{}}`, 204)
	for _, c := range []struct{ body, text string }{
		{members(rack.String()), "instead of"},
		{strings.Replace(members(block.String()), `"name":"b1"`, `"x":1,"name":"b1"`, 1), "Additional properties"},
		{`{"levels":["rack"],"members":{},"x":1}`, "Additional properties"},
		{`{"levels":["rack"]}`, "required"},
	} {
		expect(t, h, "PUT", "/topologies/fabric", c.body, 400, c.text)
	}
	expect(t, h, "PUT", "/topologies/a%20b", `{"levels":["rack"],"members":{}}`, 400)
	expect(t, h, "GET", "/topologies", "", 200, fmt.Sprintf(
		`{"topologies":[{"name":"fabric","levels":["block","rack"],"member_count":2,"sequence":%d},{"name":"flat",`, first))
	expect(t, h, "GET", fmt.Sprint("/topologies?at=", before), "", 200, `{"topologies":[]}`)
	expect(t, h, "GET", "/topologies/fabric", "", 200, `"levels":["block","rack"]`,
		fmt.Sprintf(`"%s":{"level":"block","name":"b1"}`, block),
		fmt.Sprintf(`"%s":{"level":"rack","name":"r1","parent":"%s"}`, rack, block),
		fmt.Sprintf(`"versions":[{"sequence":%d,"member_count":2}]`, first))
	expect(t, h, "DELETE", "/topologies/fabric", "", 204)
	expect(t, h, "GET", "/topologies/fabric", "", 404)
	expect(t, h, "GET", fmt.Sprint("/topologies/fabric?at=", first), "", 200, block.String())
	expect(t, h, "PUT", "/topologies/fabric", `{"levels":["rack"],"members":{}}`, 204)
	expect(t, h, "GET", "/topologies/fabric", "", 200, `"members":{}`,
		`"member_count":0},{"sequence":`, `"member_count":null},{"sequence":`)
}

// TestCounters sets the counters of a card and what its profiles draw, and shows what is left of them.
func TestCounters(t *testing.T) {
	t.Parallel()
	_, h := inMemory(t)
	const (
		card, one, two = "11111111-1111-4111-8111-111111111111", "11111111-1111-4111-8111-111111111112", "11111111-1111-4111-8111-111111111113"
		consumer       = "22222222-2222-4222-8222-22222222222"
		inventory      = `{"resource_provider_generation":0,"inventories":{"VGPU":{"total":7}}}`
	)
	gets := func(n, provider, amount string) (path, body string) {
		return "/allocations/" + consumer + n, `{"allocations":{"` + provider + `":{"resources":{"VGPU":` + amount +
			`}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`
	}
	first, firstBody := gets("1", one, "3")
	second, secondBody := gets("2", two, "3")
	counters := func(id string) string { return "/resource_providers/" + id + "/counters" }
	for _, step := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"POST", "/resource_providers", `{"name":"card","uuid":"` + card + `"}`, 200, ""},
		{"POST", "/resource_providers", `{"name":"one","uuid":"` + one + `","parent_provider_uuid":"` + card + `"}`, 200, ""},
		{"POST", "/resource_providers", `{"name":"two","uuid":"` + two + `","parent_provider_uuid":"` + card + `"}`, 200, ""},
		{"PUT", "/resource_providers/" + one + "/inventories", inventory, 200, ""},
		{"PUT", "/resource_providers/" + two + "/inventories", inventory, 200, ""},
		{"PUT", counters(one), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":1}}}`, 400, "has a counter SLICE to draw from"},
		{"PUT", counters(card), `{"resource_provider_generation":0,"counters":{"SLICE":7,"MODE":1}}`, 200, `"left":{"MODE":1,"SLICE":7}`},
		{"PUT", counters(card), `{"resource_provider_generation":0,"counters":{}}`, 409, "generation already changed"},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counter":{}}`, 400, "Additional properties"},
		{"PUT", counters(one), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":1,"MODE":"MIG"}}}`, 200, `"MODE":"MIG"`},
		{"PUT", counters(two), `{"resource_provider_generation":1,"draws":{"VGPU":{"SLICE":2,"MODE":"MIG"}}}`, 200, `"SLICE":2`},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counters":{"SLICE":7}}`, 409, "draw from its counter MODE"},
		{"PUT", first, firstBody, 204, ""},
		{"PUT", second, secondBody, 409, "would exceed the capacity"},
		{"GET", counters(card), "", 200, `"left":{"MODE":0,"SLICE":4}`},
		{"PUT", counters(card), `{"resource_provider_generation":1,"counters":{"SLICE":2,"MODE":1}}`, 200, `"SLICE":-1`},
		{"GET", counters(two), "", 200, `"draws":{"VGPU":{"MODE":"MIG","SLICE":2}}`},
		{"GET", counters(consumer + "9"), "", 404, ""},
	} {
		expect(t, h, step.method, step.path, step.body, step.status, step.has)
	}
}

// TestDevicesDocument sends the requests of docs/devices.md, and compares the answers.
func TestDevicesDocument(t *testing.T) {
	t.Parallel()
	text := commandstest.Must(os.ReadFile("../../docs/devices.md"))
	_, h := inMemory(t)
	sent := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		request := ""
		for line := range strings.Lines(block) {
			answer, ends := strings.CutPrefix(line, "-> ")
			if !ends {
				request += line
				continue
			}
			head, body, _ := strings.Cut(strings.TrimSpace(request), "\n")
			method, path, _ := strings.Cut(head, " ")
			number, has, _ := strings.Cut(strings.TrimSpace(answer), " ")
			status := commandstest.Must(strconv.Atoi(number))
			expect(t, h, method, path, body, status, has)
			request, sent = "", sent+1
		}
	}
	if sent < 15 {
		t.Errorf("the document has %d requests", sent)
	}
}
