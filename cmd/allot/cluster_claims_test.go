package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// TestReplicasOfWaitingClaims: claims that wait outlive their leader. What is freed
// while nobody leads is given by the next one to those whose turn it is, once to each;
// every replica says the same of them, also one that comes back; and they are cancelled
// through any.
func TestReplicasOfWaitingClaims(t *testing.T) {
	t.Parallel()
	r := launchReplicas(t, "--cluster-wait", "40s") // an election takes long beside other tests
	was := r.leader()
	through := (was + 1) % 3
	s := r.list[through]
	const host, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	hold := func(provider, project string, amount int) string {
		id := uuid.NewString()
		s.must(http.StatusNoContent, "PUT", "/allocations/"+id, fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": %d}}},
			"project_id": %q, "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`, provider, amount, project))
		return id
	}
	for _, provider := range []string{host, other} {
		s.must(http.StatusOK, "POST", "/resource_providers", fmt.Sprintf(`{"name": %q, "uuid": %[1]q}`, provider))
		s.must(http.StatusOK, "PUT", "/resource_providers/"+provider+"/inventories",
			`{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}`)
	}
	hold(other, "rich", 3)
	hold(other, "poor", 1)
	four := hold(host, "holder", 4)

	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	type waiter struct {
		id    ledger.UUID
		claim *commands.Claim
	}
	waiters := make(map[string]waiter)
	c := client.New(dial(t, "nats://"+r.nats[through]), client.Options{})
	for _, one := range []struct {
		name, project string
		priority      int64
	}{
		{"rich", "rich", 0}, {"cancelled before", "poor", 9}, {"poor 1", "poor", 0}, {"poor 2", "poor", 0}, {"poor 3", "poor", 0},
		{"low", "poor", -1}, {"urgent", "rich", 5}, {"cancelled after", "poor", -9},
	} {
		w := waiter{ledger.UUID(uuid.New()), &commands.Claim{
			For: []commands.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: one.project, User: "u"}},
			Requests: []commands.CandidateRequest{
				{Groups: []commands.RequestGroup{{Resources: map[string]int64{"VCPU": 1}}}},
			},
			Wait: 7 * 24 * 3600, Priority: one.priority,
		}}
		result, err := c.SubmitAs(ctx, w.id, w.claim)
		if err != nil || result.Waiting == nil {
			t.Fatalf("%s: %+v %v", one.name, result, err)
		}
		waiters[one.name] = w
	}
	path := func(name string) string { return "/claims/waiting/" + waiters[name].id.String() }
	s.must(http.StatusNoContent, "DELETE", path("cancelled before"), "")

	r.lose(was)
	s.must(http.StatusNoContent, "DELETE", "/allocations/"+four, "") // it waits for the next leader

	state := func(s *server, name string) (w wire.WaitingClaim) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.must(http.StatusOK, "GET", path(name), "")), &w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	granted := func(s *server) (names []string) {
		t.Helper()
		records := make(map[string]ledger.Address)
		for name := range waiters {
			if w := state(s, name); w.State == ledger.WaitGranted {
				at, err := ledger.ParseAddress(w.Record)
				if err != nil {
					t.Fatal(err)
				}
				records[name], names = at, append(names, name)
			}
		}
		slices.SortFunc(names, func(a, b string) int {
			return 2*int(int64(records[a].Sequence)-int64(records[b].Sequence)) + records[a].Index - records[b].Index
		})
		return names
	}
	await := func(want ...string) {
		t.Helper()
		for len(granted(s)) < len(want) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		for i, s := range r.list {
			if s == nil {
				continue
			}
			if got := granted(s); !slices.Equal(got, want) {
				t.Errorf("replica %d: granted in the order %q, not %q", i+1, got, want)
			}
			for name := range waiters {
				if got, want := s.must(200, "GET", path(name), ""), r.list[through].must(200, "GET", path(name), ""); got != want {
					t.Errorf("%s: replica %d says %s, and %d %s", name, i+1, got, through+1, want)
				}
			}
		}
	}
	// rich has 3 of 4, and poor 1: poor comes until it has as much.
	await("urgent", "poor 1", "poor 2", "poor 3")

	now := r.leader()
	follower := 3 - was - now
	s, through = r.list[follower], follower
	allot(t, true, "claims", "cancel", waiters["cancelled after"].id.String(), "--http", s.http)
	allot(t, false, "claims", "cancel", waiters["cancelled after"].id.String(), "--http", r.list[now].http)
	r.begin(was)
	if !r.list[was].waitServing() {
		t.Fatalf("replica %d does not come back:\n%s", was+1, r.list[was].logs)
	}
	await("urgent", "poor 1", "poor 2", "poor 3")
	grow := `{"resource_provider_generation": %d, "inventories": {"VCPU": {"total": 20}}}`
	var provider struct {
		Generation uint64 `json:"generation"`
	}
	if err := json.Unmarshal([]byte(r.list[was].must(200, "GET", "/resource_providers/"+host, "")), &provider); err != nil {
		t.Fatal(err)
	}
	r.list[was].must(http.StatusOK, "PUT", "/resource_providers/"+host+"/inventories", fmt.Sprintf(grow, provider.Generation))
	await("urgent", "poor 1", "poor 2", "poor 3", "rich", "low")

	for i, s := range r.list {
		c := client.New(dial(t, "nats://"+r.nats[i]), client.Options{})
		for name, w := range waiters {
			consumer := w.claim.For[0].Consumer.String()
			history := s.must(200, "GET", "/audit/history?consumer="+consumer, "")
			times, want := strings.Count(history, `"address":`), 1
			result, err := c.SubmitAs(ctx, w.id, w.claim)
			if strings.HasPrefix(name, "cancelled") {
				want = 0
				if err == nil {
					t.Errorf("%s: sent again to replica %d: %+v", name, i+1, result)
				}
			} else if err != nil || !result.Repeated || len(result.Claimed) != 1 {
				t.Errorf("%s: sent again to replica %d: %+v %v", name, i+1, result, err)
			}
			if times != want {
				t.Errorf("%s: replica %d: given %d times, not %d: %s", name, i+1, times, want, history)
			}
		}
		if usages := s.must(200, "GET", "/resource_providers/"+host+"/usages", ""); !strings.Contains(usages, `"VCPU":6`) &&
			!strings.Contains(usages, `"VCPU": 6`) {
			t.Errorf("replica %d: %s", i+1, usages)
		}
		if list := s.must(200, "GET", "/claims/waiting", ""); strings.Contains(list, `"waiting"`) {
			t.Errorf("replica %d: somebody waits on: %s", i+1, list)
		}
	}
}
