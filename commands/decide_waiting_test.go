package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// waitingClaim is a claim for 2 VCPU that may wait.
func waitingClaim(project string, consumer ledger.UUID) *commands.Claim {
	c := claim(map[string]int64{vcpu: 2}, consumer)
	c.For[0].Project, c.Wait, c.Priority = project, 60, -1
	return c
}

// waitingDecisions are about claims that wait.
func waitingDecisions(w *world) []decision {
	theirs := ledger.UUID{15: 5}
	id := fresh.Derive("waits") // what is tried out has no id
	full := []commands.Command{claim(map[string]int64{vcpu: 4}, theirs)}
	waiting := append(full[:1:1], waitingClaim("p", fresh))
	freed := append(waiting[:2:2], &commands.ReleaseConsumer{Consumer: theirs})
	taken := append(waiting[:2:2], allocations(allocate(fresh, host, used, 1)))
	waits := ledger.ClaimWaits{
		Claim: id, Project: "p", User: "u", Priority: -1, Lifetime: int64(time.Minute),
		Asked: ledger.Document(`{"for":[{"consumer":"` + fresh.String() + `","generation":null,"project":"p","user":"u"}],` +
			`"priority":-1,"requests":[{"groups":[{"resources":{"VCPU":2}}]}],"wait":60}`),
	}
	ended := func(how string) ledger.ClaimWaitEnded { return ledger.ClaimWaitEnded{Claim: id, How: how} }
	claimed := claimedOf(w, allocate(fresh, host, vcpu, 2), `{"request":{"groups":[{"resources":{"VCPU":2}}]}}`, 0)
	claimed.AsOf += 3
	conflict := ended(ledger.WaitRefused)
	conflict.Code = string(commands.CodeConsumerConflict)
	conflict.Message = fmt.Sprintf("consumer %s is at generation %d, not null", fresh, w.State().Head().Sequence+3)
	noCandidates := rejected(commands.CodeNoCandidates, commands.Facts{AsOf: w.State().Head().Sequence + 2})
	notWaiting := rejected(commands.CodeClaimNotWaiting, commands.Facts{Claim: &id})
	urgent := waitingClaim("p", fresh)
	urgent.Priority = 101
	return []decision{
		{"that waits", full, waitingClaim("p", fresh), happens(waits)},
		{"too urgent", nil, urgent, invalid("priority")},
		{"something was freed", freed, commands.NewGrantClaim(id, 0, waitingClaim("p", fresh)),
			happens(claimed, advanced(host, w.of(host, 2)), ended(ledger.WaitGranted))},
		{"impossible by now", taken, &commands.GrantClaim{Claim: id}, happens(conflict)},
		{"nothing is free", waiting, &commands.GrantClaim{Claim: id}, noCandidates},
		{"its time is over", freed, &commands.GrantClaim{Claim: id, Now: 1 << 62}, nothing},
		{"it does not wait", nil, &commands.GrantClaim{Claim: id}, nothing},
		{"no uuid", nil, &commands.GrantClaim{}, invalid("claim")},
		{"its time is over", waiting, &commands.ExpireClaim{Claim: id, Now: 1 << 62}, happens(ended(ledger.WaitExpired))},
		{"before its end", waiting, &commands.ExpireClaim{Claim: id}, nothing},
		{"it does not wait", nil, &commands.ExpireClaim{Claim: id, Now: 1 << 62}, nothing},
		{"no uuid", nil, &commands.ExpireClaim{}, invalid("claim")},
		{"it waits", waiting, &commands.CancelClaim{Claim: id}, happens(ended(ledger.WaitCancelled))},
		{"it does not wait", nil, &commands.CancelClaim{Claim: id}, notWaiting},
		{"no uuid", nil, &commands.CancelClaim{}, invalid("claim")},
	}
}

// TestGrantIsBound: a claim of a client that is bound to a project may do no more when
// it has waited than when it was sent.
func TestGrantIsBound(t *testing.T) {
	for _, c := range []struct {
		bound, how string
		code       commands.Code
	}{
		{bound: "p", how: ledger.WaitRefused, code: commands.CodeForbidden},
		{bound: "", how: ledger.WaitGranted}, // the control
	} {
		w := newWorld(t, claim(map[string]int64{vcpu: 4}, ledger.UUID{15: 5}))
		sent := waitingClaim("p", fresh)
		sent.For[0].AnyGeneration = true
		id := ledger.UUID{15: 6}
		submission := commands.Submission{ID: id, Command: sent, Actor: "test", Project: c.bound}
		if _, rejection, err := w.Carry(submission); rejection != nil || err != nil {
			t.Fatal(rejection, err)
		}
		others := allocations(allocate(fresh, host, used, 1))
		others.Allocations[0].Project = "q"
		w.accept(others, &commands.ReleaseConsumer{Consumer: ledger.UUID{15: 5}})
		got := w.decide(commands.NewGrantClaim(id, 0, sent))
		var ended ledger.ClaimWaitEnded
		if n := len(got.events); n > 0 {
			ended, _ = got.events[n-1].(ledger.ClaimWaitEnded)
		}
		if ended.How != c.how || ended.Code != string(c.code) {
			t.Errorf("bound to %q: %+v", c.bound, got)
		}
	}
}
