package placement_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
)

// pathNames fills in the parameters of the document's paths.
var pathNames = strings.NewReplacer(
	"{uuid}", "11111111-1111-4111-8111-111111111111", "{consumer_uuid}", "22222222-2222-4222-8222-222222222222",
	"{name}", "CUSTOM_X", "{resource_class}", "VCPU",
)

// TestPolicySeesWhatIsAnswered: with a policy that compares every project with
// the client's own, every route decides by the value of project_id that the
// handler uses, however often and in whatever form it is given.
func TestPolicySeesWhatIsAnswered(t *testing.T) {
	t.Parallel()
	_, h := inMemory(t)
	var rules strings.Builder
	api := regexp.MustCompile("^(placement|allot:(claims|limits|preferences|counters|topologies)):")
	for _, name := range policy.Names() {
		if api.MatchString(name) {
			rules.WriteString(name + ": project_id:%(project_id)s\n")
		}
	}
	paths := served(t)["paths"].(map[string]any)
	own, err := policy.Load([]byte(rules.String()), false)
	if err != nil {
		t.Fatal(err)
	}
	h.Policy = own
	ask := func(method, target string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, strings.NewReader("{}"))
		r.Header.Set("X-Auth-Token", "user:mine")
		return serve(h, r)
	}
	for path, item := range paths {
		for method := range item.(map[string]any) {
			method, target := strings.ToUpper(method), pathNames.Replace(path)
			if path == "/" || method == "PARAMETERS" {
				continue // open to everybody, or not a method
			}
			for query, mine := range map[string]bool{
				"project_id=mine": true, "project_id=theirs&project_id=mine": true, "project_id=theirs": false,
				"project_id=mine&project_id=theirs": false, "project_id=mine&project%5Fid=theirs": false,
				"project_id=mine&x=%zz": false, "project_id=mine&project_id=": false, "": false,
			} {
				if answer := ask(method, target+"?"+query); (answer.Code == http.StatusForbidden) == mine {
					t.Errorf("%s %s?%s: %d %s", method, target, query, answer.Code, answer.Body)
				}
			}
		}
	}
}

// TestUsagesOfOneProject: a request for the usages of several projects gets those
// of one, which is the one that the policy checks.
func TestUsagesOfOneProject(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	provider := l.Provider(t, "n", commands.Inventory{Class: "VCPU", Total: 100})
	for project, amount := range map[string]int64{"mine": 1, "theirs": 7} {
		c := commandstest.Allocate(commandstest.NewID(), provider, "VCPU", amount)
		c.Allocations[0].Project = project
		l.Accept(t, c)
	}
	for query, want := range map[string]string{
		"project_id=mine": `"VCPU":1`, "project_id=theirs&project_id=mine": `"VCPU":1`,
		"project_id=mine&project_id=theirs": "Policy does not allow", "project_id=theirs": "Policy does not allow",
	} {
		r := httptest.NewRequest("GET", "/usages?"+query, nil)
		r.Header.Set("X-Auth-Token", "user:mine")
		r.Header.Set("X-Roles", "reader")
		w := serve(h, r)
		if !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), `"VCPU":7`) {
			t.Errorf("%s: %d %s; want %s", query, w.Code, w.Body, want)
		}
	}
}

// TestFiltersAreBounded: all aggregates that fit into a URL are looked up, and
// more filters are refused, also in searches for candidates.
func TestFiltersAreBounded(t *testing.T) {
	t.Parallel()
	_, h := inMemory(t)
	aggregates := strings.Repeat("&member_of=11111111-1111-4111-8111-111111111111", 64<<10/47)
	traits, one := strings.Repeat(",!A", 64<<10/3)[1:], strings.Repeat("1", 32)
	for target, want := range map[string]int{
		"/resource_providers?name=x" + aggregates: 200, "/resource_providers?required=" + traits: 400,
		"/resource_providers?resources=" + strings.Repeat(",VCPU:1", 64<<10/7)[1:]: 400,
		"/resource_providers?member_of=in:" + strings.Repeat(one+",", 3000) + one:  400,
		"/allocation_candidates?resources=VCPU:1&required=" + traits:               400,
	} {
		w := send(h, "GET", target, "")
		if w.Code != want || want != http.StatusOK && !strings.Contains(w.Body.String(), "there may be 2048") {
			t.Errorf("%.60s: %d %.300s", target, w.Code, w.Body)
		}
	}
}
