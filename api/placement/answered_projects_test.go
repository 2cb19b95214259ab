package placement_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/ledger/ledgertest"
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
	ledgertest.OK(t, err)
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
				if answer := ask(method, target+"?"+query); (answer.Code == http.StatusForbidden) == (mine && method == "GET") {
					t.Errorf("%s %s?%s: %d %s", method, target, query, answer.Code, answer.Body)
				}
			}
		}
	}
}
