package placement_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// asked counts questions to the leader, and does what makes the answer true.
type asked struct {
	times   int
	arrives func()
	ahead   int // how often it is asked whether it is ahead until it is not
}

// Fresh implements commands.Freshness.
func (a *asked) Fresh(context.Context) error {
	a.times++
	if a.arrives != nil {
		a.arrives()
	}
	return nil
}

// Ahead implements commands.Freshness.
func (a *asked) Ahead() bool {
	a.ahead--
	return a.ahead >= 0
}

// TestReadOfACommitIsNotAhead: a read that names the commit that it needs asks no leader, and
// waits until a leader is known to know all that is shown.
func TestReadOfACommitIsNotAhead(t *testing.T) {
	l, _ := overJetStream(t)
	h, fresh := handler(l), &asked{ahead: 3}
	h.Fresh = fresh
	request := httptest.NewRequest(http.MethodGet, "/resource_providers", nil)
	request.Header.Set("X-Auth-Token", "admin")
	request.Header.Set(rest.MinSequenceHeader, "1")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	if w.Code != http.StatusOK || fresh.ahead >= 0 || fresh.times != 0 {
		t.Errorf("%d when it is ahead for %d more looks, after %d questions", w.Code, fresh.ahead+1, fresh.times)
	}
}

// TestOneRoundTrip: on a server that follows, no write asks the leader anything
// before it submits its command. Every read asks once.
func TestOneRoundTrip(t *testing.T) {
	l, _ := overJetStream(t)
	h, fresh := handler(l), &asked{}
	h.Fresh = fresh
	node := l.Provider(t, "node", commands.Inventory{Class: "VCPU", Total: 10})
	provider := node.String()
	doomed := l.Provider(t, "doomed").String()
	consumer := ledger.UUID{7}.String()
	at := func(path string) string {
		return strings.NewReplacer(
			"{uuid}", provider, "{consumer_uuid}", consumer, "{resource_class}", "VCPU", "{project_id}", "p",
		).Replace(path)
	}
	allocations := `{"allocations":{"` + provider + `":{"resources":{"VCPU":1}}},` +
		`"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`
	done := map[string]bool{}
	for _, c := range []struct{ version, operation, path, body string }{
		{"1.39", "POST /resource_providers", "", `{"name":"new"}`},
		{"1.39", "PUT /resource_providers/{uuid}", "", `{"name":"renamed"}`},
		{"1.39", "DELETE /resource_providers/{uuid}", "/resource_providers/" + doomed, ""},
		{"1.39", "POST /resource_providers/{uuid}/inventories", "",
			`{"resource_class":"DISK_GB","total":5,"resource_provider_generation":GENERATION}`},
		{"1.39", "PUT /resource_providers/{uuid}/inventories/{resource_class}", "",
			`{"total":20,"resource_provider_generation":GENERATION}`},
		{"1.39", "DELETE /resource_providers/{uuid}/inventories/{resource_class}",
			"/resource_providers/" + provider + "/inventories/DISK_GB", ""},
		{"1.39", "PUT /resource_providers/{uuid}/inventories", "",
			`{"inventories":{"VCPU":{"total":9}},"resource_provider_generation":GENERATION}`},
		{"1.39", "PUT /resource_providers/{uuid}/aggregates", "",
			`{"aggregates":[],"resource_provider_generation":GENERATION}`},
		{"1.39", "PUT /resource_providers/{uuid}/counters", "",
			`{"counters":{"A":1},"resource_provider_generation":GENERATION}`},
		{"1.39", "PUT /traits/{name}", "/traits/CUSTOM_A", ""},
		{"1.39", "DELETE /traits/{name}", "/traits/CUSTOM_A", ""},
		{"1.39", "PUT /resource_providers/{uuid}/traits", "", `{"traits":[],"resource_provider_generation":GENERATION}`},
		{"1.39", "DELETE /resource_providers/{uuid}/traits", "", ""},
		{"1.39", "POST /resource_classes", "", `{"name":"CUSTOM_A"}`},
		{"1.2", "PUT /resource_classes/{name}", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_B"}`},
		{"1.39", "PUT /resource_classes/{name}", "/resource_classes/CUSTOM_C", ""},
		{"1.39", "DELETE /resource_classes/{name}", "/resource_classes/CUSTOM_C", ""},
		{"1.39", "PUT /allocations/{consumer_uuid}", "", allocations},
		{"1.39", "DELETE /allocations/{consumer_uuid}", "", ""},
		{"1.39", "POST /allocations", "", `{"` + consumer + `":` + allocations + `}`},
		{"1.39", "POST /reshaper", "", `{"inventories":{"{uuid}":{"inventories":{"VCPU":{"total":9}},` +
			`"resource_provider_generation":GENERATION}},"allocations":{}}`},
		{"1.39", "DELETE /allocations/{consumer_uuid}", "", ""},
		{"1.39", "DELETE /resource_providers/{uuid}/inventories", "", ""},
	} {
		path := c.path
		if path == "" {
			path = at(strings.SplitN(c.operation, " ", 2)[1])
		}
		method := strings.SplitN(c.operation, " ", 2)[0]
		p, _, err := l.Views.View().Provider(node)
		if err != nil {
			t.Fatal(err)
		}
		body := strings.ReplaceAll(at(c.body), "GENERATION", strconv.FormatInt(p.Generation, 10))
		fresh.times = 0
		w := sendAt(h, c.version, method, path, body)
		if w.Code >= 300 || fresh.times != 0 {
			t.Errorf("%s: %d after %d questions: %s", c.operation, w.Code, fresh.times, w.Body)
		}
		done[c.operation] = true
	}
	own := []string{"/claims", "/limits", "/limits/versions", "/projects/{project_id}", "/preferences", "/preferences/{name}",
		"/topologies", "/topologies/{name}",
		"/claims/waiting", "/claims/waiting/{claim}"} // of Allot, which have tests of their own
	for _, operation := range placement.Operations() {
		method, pattern, _ := strings.Cut(operation, " ")
		switch {
		case slices.Contains(own, pattern) || pattern == "/" || pattern == "/openapi.json":
		case method != "GET" && !done[operation]:
			t.Errorf("%s was not tried", operation)
		case method == "GET":
			fresh.times = 0
			w := send(h, method, at(pattern), "")
			if fresh.times != 1 && w.Code != http.StatusBadRequest {
				t.Errorf("%s: %d after %d questions", operation, w.Code, fresh.times)
			}
		}
	}
}

// TestOldViewRefusesNothing: a provider that only another server has seen so far is found
// by every write, and a provider that no server has is not.
func TestOldViewRefusesNothing(t *testing.T) {
	for _, c := range []struct{ method, below, body string }{
		{"PUT", "", `{"name":"renamed"}`},
		{"POST", "/inventories", `{"resource_class":"DISK_GB","total":5,"resource_provider_generation":0}`},
		{"PUT", "/inventories", `{"inventories":{"VCPU":{"total":9}},"resource_provider_generation":0}`},
		{"DELETE", "/inventories", ""},
		{"PUT", "/aggregates", `{"aggregates":[],"resource_provider_generation":0}`},
		{"PUT", "/traits", `{"traits":[],"resource_provider_generation":0}`},
		{"DELETE", "/traits", ""},
	} {
		t.Run(c.method+c.below, func(t *testing.T) {
			l, _ := overJetStream(t)
			h, fresh := handler(l), &asked{}
			h.Fresh = fresh
			id := ledger.UUID{9}
			path := "/resource_providers/" + id.String() + c.below
			if w := send(h, c.method, path, c.body); w.Code != http.StatusNotFound || fresh.times != 1 {
				t.Errorf("no provider: %d after %d questions: %s", w.Code, fresh.times, w.Body)
			}
			fresh.arrives = func() { l.Accept(t, &commands.CreateProvider{Provider: id, Name: "elsewhere"}) }
			if w := send(h, c.method, path, c.body); w.Code >= 300 || fresh.times != 2 {
				t.Errorf("of another server: %d after %d questions: %s", w.Code, fresh.times, w.Body)
			}
		})
	}
}
