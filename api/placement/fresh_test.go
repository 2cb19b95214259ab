package placement_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

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
	_, h := inMemory(t)
	fresh := &asked{ahead: 3}
	h.Fresh = fresh
	request := httptest.NewRequest(http.MethodGet, "/resource_providers", nil)
	request.Header.Set(rest.MinSequenceHeader, "1")
	w := serve(h, request)
	if w.Code != http.StatusOK || fresh.ahead >= 0 || fresh.times != 0 {
		t.Errorf("%d when it is ahead for %d more looks, after %d questions", w.Code, fresh.ahead+1, fresh.times)
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
			l, h := inMemory(t)
			fresh := &asked{}
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
