package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// TestClaimsWait: through the binary, claims wait over NATS and REST, survive a kill,
// are granted when something is freed, and the command line shows and cancels them.
func TestClaimsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	s := launch(t, dir, "--nats", address)
	const host, holder = "11111111-1111-4111-8111-111111111111", "aaaaaaaa-0000-4000-8000-000000000001"
	s.must(http.StatusOK, "POST", "/resource_providers", `{"name": "host", "uuid": "`+host+`"}`)
	s.must(http.StatusOK, "PUT", "/resource_providers/"+host+"/inventories",
		`{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 2}}}`)
	s.must(http.StatusNoContent, "PUT", "/allocations/"+holder, `{"allocations": {"`+host+`": {"resources": {"VCPU": 2}}},
		"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := client.New(dial(t, "nats://"+address), client.Options{})
	id := ledger.UUID(uuid.New())
	claim := &commands.Claim{
		For:      []commands.ClaimConsumer{{Consumer: ledger.UUID(uuid.New()), Project: "p", User: "u"}},
		Requests: []commands.CandidateRequest{{Groups: []commands.RequestGroup{{Resources: map[string]int64{"VCPU": 2}}}}}, Wait: 600,
	}
	begun := time.Now()
	result, err := c.SubmitAs(ctx, id, claim)
	if err != nil || result.Waiting == nil || result.Waiting.Claim != id || result.Waiting.Seconds != 600 {
		t.Fatalf("%+v %v", result, err)
	}
	answer := s.must(http.StatusAccepted, "POST", "/claims", `{"requests": ["resources=VCPU:1"], "wait": 600, "priority": -1,
		"consumers": [{"consumer_uuid": "`+uuid.NewString()+`", "project_id": "q", "user_id": "u",
		"consumer_type": "INSTANCE", "consumer_generation": null}]}`)
	var told struct{ Waiting wire.WaitingClaim }
	if err := json.Unmarshal([]byte(answer), &told); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	s.kill()
	metrics := freeAddress(t)
	s = launch(t, dir, "--nats", address, "--metrics", metrics)
	scraped := readMetrics(t, metrics)
	if n := scraped["allot_claims_waiting"]; n != 2 {
		t.Errorf("the metrics say that %v claims wait", n)
	}
	if age, most := scraped["allot_claims_oldest_waiting_seconds"], time.Since(begun).Seconds(); age <= 0 || age > most {
		t.Errorf("the oldest has waited %v of at most %v s", age, most)
	}
	ask := func(good bool, line string) string {
		t.Helper()
		return allot(t, good, append(strings.Fields("claims "+line), "--http", s.http)...)
	}
	if out := ask(true, "list"); !strings.Contains(out, id.String()) || !strings.Contains(out, told.Waiting.Claim.String()) {
		t.Errorf("after a restart they do not wait: %s", out)
	}
	if out := ask(true, "list --project q"); strings.Contains(out, id.String()) {
		t.Errorf("of another project: %s", out)
	}
	ask(true, "cancel "+told.Waiting.Claim.String())
	ask(false, "cancel "+told.Waiting.Claim.String())
	if out := ask(true, "show "+told.Waiting.Claim.String()); !strings.Contains(out, `"cancelled"`) {
		t.Error(out)
	}
	s.must(http.StatusNoContent, "DELETE", "/allocations/"+holder, "")
	c = client.New(dial(t, "nats://"+address), client.Options{})
	for {
		now, err := c.WaitingClaim(ctx, wire.WaitingClaimQuery{Claim: id})
		if err != nil {
			t.Fatal(err)
		}
		if now.Result.State == ledger.WaitGranted {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var counts map[string]float64
	granted := `allot_commands_total{command="GrantClaim",outcome="accepted"}`
	waitFor(t, "the metrics of who waits no more", func() bool { // a command is counted when it is answered
		counts = readMetrics(t, metrics)
		return counts["allot_claims_waiting"] == 0 && counts[granted] > 0
	})
	if age := counts["allot_claims_oldest_waiting_seconds"]; age != 0 {
		t.Errorf("none waits, and the oldest has for %v s", age)
	}
	for series, want := range map[string]float64{
		`command="GrantClaim",outcome="accepted"`: 1, `command="GrantClaim",outcome="dry_run"`: 0,
		`command="CancelClaim",outcome="accepted"`: 1,
	} {
		if n := counts["allot_commands_total{"+series+"}"]; n != want {
			t.Errorf("%s: %v, not %v", series, n, want)
		}
	}
	again, err := c.SubmitAs(ctx, id, claim)
	if err != nil || !again.Repeated || len(again.Claimed) != 1 || again.Waiting != nil {
		t.Errorf("sent again: %+v %v", again, err)
	}
	waiting, err := c.WaitingClaims(ctx, wire.WaitingClaimsQuery{})
	if err != nil || len(waiting.Result.Claims) != 0 {
		t.Errorf("%+v %v", waiting, err)
	}
}
