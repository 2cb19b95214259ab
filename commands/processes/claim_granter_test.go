package processes_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// waitingLedger is a ledger whose waiting claims are tried again.
type waitingLedger struct {
	*commandstest.Ledger
	granter *processes.ClaimGranter
	freed   *processes.Freed
	now     func() time.Time
}

// told tells a Freed what is folded.
type told struct {
	models
	freed *processes.Freed
}

type models = writer.ReadModels

func (m told) Fold(c *ledger.Commit, changes ledger.Changes) error {
	err := m.models.Fold(c, changes)
	if err == nil {
		m.freed.Folded(&changes)
	}
	return err
}

// startWaiting starts a ledger with a ClaimGranter. A deaf one is never told of anything.
func startWaiting(t testing.TB, dir string, log ledger.Log, now func() time.Time, deaf bool) *waitingLedger {
	t.Helper()
	freed := processes.NewFreed()
	heard := freed
	if deaf {
		heard = processes.NewFreed()
	}
	l := &waitingLedger{freed: freed, now: now}
	l.Ledger = commandstest.StartOver(t, dir, log, func(m writer.ReadModels) writer.ReadModels { return told{m, heard} })
	l.granter = processes.StartClaimGranter(processes.ClaimGranterConfig{
		Submit: l.Writer, Views: l.Views, Freed: freed, Now: now, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(l.end)
	return l
}

func (l *waitingLedger) end() {
	if l.granter != nil {
		l.granter.Stop()
		l.granter = nil
	}
}

func (l *waitingLedger) stop(t testing.TB) {
	l.end()
	l.Stop(t)
}

func waits(project string, amount, seconds, priority int64) *commands.Claim {
	return &commands.Claim{
		For:      []commands.ClaimConsumer{{Consumer: commandstest.NewID(), Project: project, User: "u"}},
		Requests: []commands.CandidateRequest{{Groups: []commands.RequestGroup{{Resources: map[string]int64{"VCPU": amount}}}}},
		Wait:     seconds, Priority: priority,
	}
}

// claim submits a claim that has to wait, and returns its id.
func (l *waitingLedger) claim(t testing.TB, c *commands.Claim) ledger.UUID {
	t.Helper()
	o := l.as(t, commandstest.NewID(), c)
	if o.Rejection != nil || commands.WaitingIn(o.Events) == nil {
		t.Fatalf("it does not wait: %+v", o)
	}
	return commands.WaitingIn(o.Events).Claim
}

func (l *waitingLedger) as(t testing.TB, id ledger.UUID, c commands.Command) commands.Outcome {
	t.Helper()
	o, err := l.Writer.Submit(context.Background(), commands.Submission{ID: id, Actor: "test", Command: c})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// how waits until the waiting of a claim has ended, and returns how; empty: it waits on.
func (l *waitingLedger) how(t testing.TB, id ledger.UUID, within time.Duration) string {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(2 * time.Millisecond) {
		w, found, err := l.Views.View().WaitingClaim(id)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if w.End != nil {
			return w.End.How
		}
		if time.Now().After(end) {
			return ""
		}
	}
}

const soon, notYet = 5 * time.Second, 300 * time.Millisecond

// TestFreedForWaiting: whatever frees something has a waiting claim granted. The same
// steps leave it waiting where nobody tells that something was freed.
func TestFreedForWaiting(t *testing.T) {
	t.Parallel()
	vcpu := func(total int64) []commands.Inventory { return []commands.Inventory{{Class: "VCPU", Total: total}} }
	most := func(n int64) *int64 { return &n }
	instance := "INSTANCE"
	type world struct {
		*waitingLedger
		host, holder ledger.UUID
	}
	cases := map[string]struct {
		before func(t *testing.T, w world) // what the claim needs to have to wait
		claim  func(*commands.Claim)
		free   func(t *testing.T, w world)
	}{
		"released": {free: func(t *testing.T, w world) { w.Accept(t, &commands.ReleaseConsumer{Consumer: w.holder}) }},
		"inventory grown": {free: func(t *testing.T, w world) {
			p, _, err := w.Views.View().Provider(w.host)
			if err != nil {
				t.Fatal(err)
			}
			w.Accept(t, &commands.ReplaceInventories{Provider: w.host, Generation: &p.Generation, Inventories: vcpu(8)})
		}},
		"provider made": {free: func(t *testing.T, w world) { w.Provider(t, "other", vcpu(4)...) }},
		"limit raised": {
			before: func(t *testing.T, w world) {
				w.Provider(t, "other", vcpu(4)...)
				w.Accept(t, &commands.SetLimit{Project: "p", Class: "VCPU", Most: most(1)})
			},
			free: func(t *testing.T, w world) {
				w.Accept(t, &commands.SetLimit{Project: "p", Class: "VCPU", Most: most(9)})
			},
		},
		"another class of its released": {
			before: func(t *testing.T, w world) {
				p := w.Provider(t, "other", append(vcpu(4), commands.Inventory{Class: "MEMORY_MB", Total: 4})...)
				w.Accept(t, commandstest.Allocate(ledger.UUID{15: 9}, p, "MEMORY_MB", 4))
			},
			claim: func(c *commands.Claim) { c.Requests[0].Groups[0].Resources["MEMORY_MB"] = 1 },
			free:  func(t *testing.T, w world) { w.Accept(t, &commands.ReleaseConsumer{Consumer: ledger.UUID{15: 9}}) },
		},
		"one of its type released": {
			before: func(t *testing.T, w world) {
				p := w.Provider(t, "other", append(vcpu(4), commands.Inventory{Class: "MEMORY_MB", Total: 4})...)
				one := commandstest.Allocate(ledger.UUID{15: 9}, p, "MEMORY_MB", 4)
				one.Allocations[0].Project, one.Allocations[0].Type = "p", &instance
				w.Accept(t, one)
				w.Accept(t, &commands.SetLimit{Project: "p", Type: instance, Most: most(1)})
			},
			claim: func(c *commands.Claim) { c.For[0].Type = &instance },
			free:  func(t *testing.T, w world) { w.Accept(t, &commands.ReleaseConsumer{Consumer: ledger.UUID{15: 9}}) },
		},
		"one that it avoids released": {
			before: func(t *testing.T, w world) {
				p := w.Provider(t, "other", append(vcpu(4), commands.Inventory{Class: "MEMORY_MB", Total: 4})...)
				w.Accept(t, commandstest.Allocate(ledger.UUID{15: 9}, p, "MEMORY_MB", 1))
			},
			claim: func(c *commands.Claim) {
				c.Prefer = &commands.ClaimPreference{Near: []commands.NearConsumers{
					{Consumers: []ledger.UUID{{15: 9}}, By: "provider", Rule: "forbid"},
				}}
			},
			free: func(t *testing.T, w world) { w.Accept(t, &commands.ReleaseConsumer{Consumer: ledger.UUID{15: 9}}) },
		},
		"trait given": {
			before: func(t *testing.T, w world) { w.Provider(t, "other", vcpu(4)...) },
			claim: func(c *commands.Claim) {
				c.Requests[0].Groups[0].Required = [][]string{{"HW_CPU_X86_AVX2"}}
			},
			free: func(t *testing.T, w world) {
				p, _, err := w.Views.View().ProviderNamed("other")
				if err != nil {
					t.Fatal(err)
				}
				w.Accept(t, &commands.ReplaceProviderTraits{
					Provider: p.UUID, Generation: &p.Generation, Traits: []string{"HW_CPU_X86_AVX2"},
				})
			},
		},
	}
	for name, c := range cases {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " deaf ", deaf), func(t *testing.T) {
				t.Parallel()
				w := world{startWaiting(t, t.TempDir(), &memlog.Log{}, time.Now, deaf), ledger.NilUUID, commandstest.NewID()}
				w.host = w.Provider(t, "host", vcpu(4)...)
				w.Accept(t, commandstest.Allocate(w.holder, w.host, "VCPU", 4))
				if c.before != nil {
					c.before(t, w)
				}
				claim := waits("p", 2, 60, 0)
				if c.claim != nil {
					c.claim(claim)
				}
				id := w.claim(t, claim)
				time.Sleep(notYet) // the granter has seen that it waits
				if how := w.how(t, id, 0); how != "" {
					t.Fatalf("it was %s at once", how)
				}
				c.free(t, w)
				if deaf {
					if how := w.how(t, id, notYet); how != "" {
						t.Fatalf("nobody told, and it was %s", how)
					}
					return
				}
				if how := w.how(t, id, soon); how != ledger.WaitGranted {
					t.Fatalf("it was %q", how)
				}
				again := w.as(t, id, claim)
				if again.Rejection != nil || !again.Repeated || !commands.Claimed(again.Events) {
					t.Errorf("sent again: %+v", again)
				}
				w.end()
				commandstest.CheckReplay(t, w.Ledger)
			})
		}
	}
}

// TestMissedWaiting: a granter that was not told of everything reads which claims wait,
// and which do not any more.
func TestMissedWaiting(t *testing.T) {
	t.Parallel()
	l := startWaiting(t, t.TempDir(), &memlog.Log{}, time.Now, false)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 4})
	holder := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(holder, host, "VCPU", 4))
	first, cancelled := l.claim(t, waits("p", 2, 60, 0)), l.claim(t, waits("p", 3, 60, 0))
	time.Sleep(notYet) // the granter knows them
	l.freed.Forget()
	second := l.claim(t, waits("p", 1, 60, 0))
	l.Accept(t, &commands.CancelClaim{Claim: cancelled})
	l.freed.Forget()
	l.Accept(t, &commands.ReleaseConsumer{Consumer: holder})
	for _, id := range []ledger.UUID{first, second} {
		if how := l.how(t, id, soon); how != ledger.WaitGranted {
			t.Errorf("it was %q", how)
		}
	}
	l.end()
	commandstest.CheckReplay(t, l.Ledger)
}

// TestNotedWaiting: what nobody takes is noted up to a bound, and then everything is read.
func TestNotedWaiting(t *testing.T) {
	t.Parallel()
	freed := processes.NewFreed()
	if changes, missed := freed.Noted(); len(changes) > 0 || !missed {
		t.Errorf("at the start %d are noted, missed: %v", len(changes), missed)
	}
	one := &ledger.Changes{Waiting: []ledger.WaitingClaimChange{{After: &ledger.WaitingClaim{}}}}
	for range processes.MaxNoted {
		freed.Folded(one)
	}
	if changes, missed := freed.Noted(); len(changes) != processes.MaxNoted || missed {
		t.Errorf("%d are noted, missed: %v", len(changes), missed)
	}
	for range processes.MaxNoted + 2 {
		freed.Folded(one)
	}
	if changes, missed := freed.Noted(); len(changes) > 0 || !missed {
		t.Errorf("%d are noted, missed: %v", len(changes), missed)
	}
}

// TestOrderOfWaiting: the highest priority comes first, then the project that holds
// least, then the oldest; and what somebody is given counts at once.
func TestOrderOfWaiting(t *testing.T) {
	t.Parallel()
	l := startWaiting(t, t.TempDir(), &memlog.Log{}, time.Now, false)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 10})
	holder := commandstest.NewID()
	rich := commandstest.Allocate(commandstest.NewID(), host, "VCPU", 3)
	rich.Allocations[0].Project = "rich"
	l.Accept(t, rich)
	poor := commandstest.Allocate(commandstest.NewID(), host, "VCPU", 1)
	poor.Allocations[0].Project = "poor"
	l.Accept(t, poor)
	l.Accept(t, commandstest.Allocate(holder, host, "VCPU", 6))
	names := make(map[ledger.UUID]string)
	for _, one := range []struct {
		name, project string
		priority      int64
	}{
		{"rich first", "rich", 0}, {"poor first", "poor", 0}, {"poor second", "poor", 0}, {"poor third", "poor", 0},
		{"poor fourth", "poor", 0}, {"urgent", "rich", 5}, {"low", "none", -1},
	} {
		names[l.claim(t, waits(one.project, 1, 60, one.priority))] = one.name
	}
	l.Accept(t, &commands.ReleaseConsumer{Consumer: holder})
	var got []string
	type granted struct {
		name string
		at   ledger.Address
	}
	var order []granted
	for end := time.Now().Add(soon); len(order) < 6 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		order = order[:0]
		for id, name := range names {
			w, _, err := l.Views.View().WaitingClaim(id)
			if err != nil {
				t.Fatal(err)
			}
			if w.End != nil && w.End.How == ledger.WaitGranted {
				order = append(order, granted{name, w.End.Record})
			}
		}
	}
	slices.SortFunc(order, func(a, b granted) int {
		return cmp.Or(cmp.Compare(a.at.Sequence, b.at.Sequence), cmp.Compare(a.at.Index, b.at.Index))
	})
	for _, one := range order {
		got = append(got, one.name)
	}
	// rich holds 3, then 4; poor comes until it holds as much, where age decides.
	want := []string{"urgent", "poor first", "poor second", "poor third", "rich first", "poor fourth"}
	if !slices.Equal(got, want) {
		t.Errorf("granted in the order %q, not %q", got, want)
	}
}

// TestNewClaimsAreOvertaken: what is freed while claims are tried that are new is for those
// that have waited before them, and come first.
func TestNewClaimsAreOvertaken(t *testing.T) {
	t.Parallel()
	var release atomic.Pointer[func()] // while the claims of a round are looked for
	now := func() time.Time {
		if do := release.Swap(nil); do != nil {
			(*do)()
		}
		return time.Now()
	}
	l := startWaiting(t, t.TempDir(), &memlog.Log{}, now, false)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 1})
	holder := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(holder, host, "VCPU", 1))
	first := l.claim(t, waits("p", 1, 60, 5))
	if how := l.how(t, first, notYet); how != "" {
		t.Fatalf("it ends as %q", how)
	}
	do := func() { l.Accept(t, &commands.ReleaseConsumer{Consumer: holder}) }
	release.Store(&do)
	second := l.as(t, commandstest.NewID(), waits("p", 1, 60, 0))
	if how := l.how(t, first, soon); how != ledger.WaitGranted {
		t.Errorf("the one that waited ends as %q", how)
	}
	if commands.Claimed(second.Events) {
		t.Error("the new one is given something at once")
	}
}

// TestWaitEnds: waiting ends by time, by cancelling, and where the claim has become
// impossible for good; its client is told so when it asks again. What it names may go.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	l := startWaiting(t, t.TempDir(), &memlog.Log{}, time.Now, false)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 4})
	holder := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(holder, host, "VCPU", 4))

	short := waits("p", 1, 1, 0)
	expires := l.claim(t, short)
	cancelled := waits("p", 1, 60, 0)
	cancels := l.claim(t, cancelled)
	taken := waits("p", 2, 60, 0) // unlike the others, which are not tried where one of them has no chance
	refused := l.claim(t, taken)
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_GONE"})
	gone := waits("p", 1, 60, 0)
	gone.Requests[0].Groups[0].Required = [][]string{{"CUSTOM_GONE"}}
	orphan := l.claim(t, gone)

	l.Accept(t, &commands.DeleteTrait{Name: "CUSTOM_GONE"})
	l.Accept(t, &commands.CancelClaim{Claim: cancels})
	o := l.Submit(t, &commands.CancelClaim{Claim: cancels})
	if o.Rejection == nil || o.Rejection.Code != commands.CodeClaimNotWaiting {
		t.Errorf("cancelled twice: %+v", o)
	}
	other := l.Provider(t, "other", commands.Inventory{Class: "MEMORY_MB", Total: 1})
	l.Accept(t, commandstest.Allocate(taken.For[0].Consumer, other, "MEMORY_MB", 1))
	l.Accept(t, &commands.SetLimit{Class: "MEMORY_MB", Most: new(int64)}) // something changes
	for id, want := range map[ledger.UUID]string{
		expires: ledger.WaitExpired, cancels: ledger.WaitCancelled, refused: ledger.WaitRefused,
	} {
		if how := l.how(t, id, soon); how != want {
			t.Errorf("it was %q, not %s", how, want)
		}
	}
	if how := l.how(t, orphan, 0); how != "" {
		t.Errorf("the one without its trait was %s", how)
	}
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_GONE"})
	p, _, err := l.Views.View().Provider(host)
	if err != nil {
		t.Fatal(err)
	}
	l.Accept(t, &commands.ReplaceProviderTraits{Provider: host, Generation: &p.Generation, Traits: []string{"CUSTOM_GONE"}})
	l.Accept(t, &commands.ReleaseConsumer{Consumer: holder})
	if how := l.how(t, orphan, soon); how != ledger.WaitGranted {
		t.Errorf("its trait is back, and it was %q", how)
	}
	for id, want := range map[ledger.UUID]struct {
		claim *commands.Claim
		code  commands.Code
	}{
		expires: {short, commands.CodeClaimExpired}, cancels: {cancelled, commands.CodeClaimCancelled},
		refused: {taken, commands.CodeConsumerConflict},
	} {
		if o := l.as(t, id, want.claim); o.Rejection == nil || o.Rejection.Code != want.code {
			t.Errorf("sent again: %+v, not %s", o, want.code)
		}
	}
	for _, one := range l.Rejected() {
		if one.Command.CommandName() == "GrantClaim" {
			t.Errorf("a try is kept as a rejection: %v", one.Rejection)
		}
	}
	l.end()
	commandstest.CheckReplay(t, l.Ledger)
}

// TestWaitingModel: in random worlds, with restarts in between, nothing is given twice,
// and in the end nothing waits for which there is something.
func TestWaitingModel(t *testing.T) {
	t.Parallel()
	granted, waitedOn := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		log, dir := &memlog.Log{}, t.TempDir()
		l := startWaiting(t, dir, log, time.Now, false)
		var hosts []ledger.UUID
		for i := range 3 {
			hosts = append(hosts, l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 4}))
		}
		most := int64(8)
		l.Accept(t, &commands.SetLimit{Project: "q", Class: "VCPU", Most: &most})
		var consumers, waiting []ledger.UUID
		for range 14 {
			switch rapid.SampledFrom([]string{"claim", "claim", "claim", "release", "restart", "limit", "cancel"}).Draw(rt, "step") {
			case "claim":
				c := waits(rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "project"), rapid.Int64Range(1, 4).Draw(rt, "amount"),
					600, rapid.Int64Range(-1, 1).Draw(rt, "priority"))
				c.For[0].Count = rapid.IntRange(1, 2).Draw(rt, "count")
				id := commandstest.NewID()
				if o := l.as(t, id, c); o.Rejection != nil {
					rt.Fatalf("%v", o.Rejection)
				} else if commands.WaitingIn(o.Events) != nil {
					waiting = append(waiting, id)
				}
				consumers = append(consumers, c.Consumers()...)
			case "release":
				if len(consumers) > 0 {
					l.Submit(t, &commands.ReleaseConsumer{Consumer: rapid.SampledFrom(consumers).Draw(rt, "consumer")})
				}
			case "limit":
				most := rapid.Int64Range(0, 12).Draw(rt, "most")
				l.Accept(t, &commands.SetLimit{Project: "q", Class: "VCPU", Most: &most})
			case "cancel":
				if len(waiting) > 0 {
					l.Submit(t, &commands.CancelClaim{Claim: rapid.SampledFrom(waiting).Draw(rt, "waiting")})
				}
			case "restart":
				l.stop(t)
				l = startWaiting(t, dir, log, time.Now, false)
			}
		}
		// What is possible comes true soon; then nothing that waits is possible.
		possible := "everything"
		for end := time.Now().Add(soon); possible != "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			state, err := l.Writer.Fork(context.Background())
			if err != nil {
				rt.Fatal(err)
			}
			possible = ""
			state.WaitingClaims(func(w *ledger.WaitingClaim) bool {
				events, r := (&commands.GrantClaim{Claim: w.UUID}).Decide(state)
				if r == nil && len(events) > 0 {
					possible = w.UUID.String()
				}
				return possible == ""
			})
		}
		if possible != "" {
			rt.Fatalf("claim %s waits, and there is something", possible)
		}
		for _, id := range waiting {
			w, _, err := l.Views.View().WaitingClaim(id)
			if err != nil {
				rt.Fatal(err)
			}
			if w.End == nil {
				waitedOn++
			} else if w.End.How == ledger.WaitGranted {
				granted++
			}
		}
		for _, host := range hosts {
			p, _, err := l.Views.View().Provider(host)
			if err != nil || p.Inventories[0].Used > 4 {
				rt.Fatalf("over-committed: %+v, %v", p, err)
			}
		}
		l.end()
		commandstest.CheckReplay(t, l.Ledger)
		l.stop(t)
	})
	if granted == 0 || waitedOn == 0 {
		t.Errorf("%d claims were granted after they had waited, and %d waited on: too few to tell", granted, waitedOn)
	}
}

// TestWaitingBounds: a project may have only so many claims that wait, and what cannot
// wait says so.
func TestWaitingBounds(t *testing.T) {
	t.Parallel()
	scratch := commands.NewScratch(ledger.NewState())
	carry := func(id ledger.UUID, c commands.Command, project string) ([]ledger.Event, *commands.Rejection) {
		t.Helper()
		events, r, err := scratch.Carry(commands.Submission{ID: id, Actor: "test", Command: c, Project: project})
		if err != nil {
			t.Fatal(err)
		}
		return events, r
	}
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err != nil {
		t.Fatal(err)
	}
	carry(commandstest.NewID(), begin, "")
	for range commands.MaxWaitingOfProject {
		if events, r := carry(commandstest.NewID(), waits("p", 1, 60, 0), ""); r != nil || commands.WaitingIn(events) == nil {
			t.Fatalf("%v %v", events, r)
		}
	}
	for want, claim := range map[commands.Code]*commands.Claim{
		commands.CodeTooManyWaiting: waits("p", 1, 60, 0), commands.CodeNoCandidates: waits("p", 1, 0, 0),
	} {
		if _, r := carry(commandstest.NewID(), claim, ""); r == nil || r.Code != want {
			t.Errorf("%v, not %s", r, want)
		}
	}
	if events, r := carry(commandstest.NewID(), waits("q", 1, 60, 0), "q"); r != nil || commands.WaitingIn(events).Bound != "q" {
		t.Errorf("another project: %v %v", events, r)
	}
	if _, r := carry(commandstest.NewID(), waits("q", 1, 60, 1), "q"); r == nil || r.Code != commands.CodeForbidden {
		t.Errorf("a bound client with a priority: %v", r)
	}
	several := waits("p", 1, 60, 0)
	several.For = append(several.For, commands.ClaimConsumer{Consumer: commandstest.NewID(), Project: "q", User: "u"})
	for name, c := range map[string]commands.Command{
		"too long": waits("r", 1, commands.MaxClaimWait+1, 0), "below 0": waits("r", 1, -1, 0),
		"a priority alone": waits("r", 1, 0, 1), "too urgent": waits("r", 1, 1, 101), "several projects": several,
		"a batch": &commands.Batch{Commands: []commands.Command{waits("r", 1, 60, 0)}},
	} {
		if _, r := carry(commandstest.NewID(), c, ""); r == nil || r.Code != commands.CodeInvalid {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// TestAllWaitingIsBounded: all projects together may have only so many claims that wait,
// and of so many bytes.
func TestAllWaitingIsBounded(t *testing.T) {
	t.Parallel()
	large := func(int) *commands.Claim {
		c := waits(commandstest.NewID().String(), 1, 60, 0)
		c.For[0].User = strings.Repeat("u", 100)
		for range 250 {
			one := c.For[0]
			one.Consumer = commandstest.NewID()
			c.For = append(c.For, one)
		}
		return c
	}
	small := func(i int) *commands.Claim {
		return waits(fmt.Sprint("p", i/commands.MaxWaitingOfProject), 1, 60, 0)
	}
	for name, c := range map[string]struct {
		claim                  func(int) *commands.Claim
		leastCount, leastBytes int
	}{
		"claims": {claim: small, leastCount: commands.MaxWaitingClaims},
		"bytes":  {claim: large, leastBytes: commands.MaxWaitingBytes - ledger.MaxDocumentBytes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scratch := commands.NewScratch(ledger.NewState())
			begin, err := commands.NewAddStandardNames(commandstest.NewID())
			if err != nil {
				t.Fatal(err)
			}
			var r *commands.Rejection
			for i := -1; r == nil && i <= commands.MaxWaitingClaims; i++ {
				var command commands.Command = begin
				if i >= 0 {
					command = c.claim(i)
				}
				submission := commands.Submission{ID: commandstest.NewID(), Actor: "test", Command: command}
				if _, r, err = scratch.Carry(submission); err != nil {
					t.Fatal(err)
				}
			}
			count, bytes := scratch.State().WaitingCount()
			if r == nil || r.Code != commands.CodeTooManyWaiting || count < c.leastCount || bytes < c.leastBytes ||
				count > commands.MaxWaitingClaims || bytes > commands.MaxWaitingBytes {
				t.Errorf("%d claims wait, %d bytes: %v", count, bytes, r)
			}
		})
	}
}
