package claims_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/candidates"
)

func claimOf(consumer ledger.UUID, resources map[string]int64) *commands.Claim {
	return &commands.Claim{
		For:      []commands.ClaimConsumer{{Consumer: consumer, Project: "p", User: "u"}},
		Requests: []commands.CandidateRequest{{Groups: []commands.RequestGroup{{Resources: resources}}}},
	}
}

func claimed(t interface {
	Helper()
	Fatalf(string, ...any)
}, o commands.Outcome) []ledger.AllocationsClaimed {
	t.Helper()
	var list []ledger.AllocationsClaimed
	for _, event := range o.Events {
		if one, is := event.(ledger.AllocationsClaimed); is {
			list = append(list, one)
		}
	}
	if o.Rejection != nil || len(list) == 0 {
		t.Fatalf("it claimed nothing: %+v", o)
	}
	return list
}

// TestLastPlaces: of a thousand clients who want the last hundred places, a
// hundred get one, and the others are told why not.
func TestLastPlaces(t *testing.T) {
	const places, clients = 100, 1000
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for i := range places / 10 {
		l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 20}, commands.Inventory{Class: "DISK_GB", Total: 1000})
	}
	var mu sync.Mutex
	won := map[ledger.UUID]int{}
	rejected := map[commands.Code]int{}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			c := claimOf(commandstest.NewID(), map[string]int64{"VCPU": 2, "DISK_GB": 1})
			c.Prefer = &commands.ClaimPreference{Order: []string{"", "pack", "spread", "random"}[i%4]}
			o, err := l.Writer.Submit(context.Background(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: c})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case o.Rejection != nil:
				rejected[o.Rejection.Code]++
				if o.Rejection.Facts.Explanation == nil {
					t.Error("a rejection without an explanation")
				}
			default:
				won[o.Events[0].(ledger.AllocationsClaimed).Allocations[0].Provider]++
			}
		})
	}
	all.Wait()
	total := 0
	for id, n := range won {
		if total += n; n != 10 {
			t.Errorf("provider %s has %d of 10", id, n)
		}
	}
	if total != places || rejected[commands.CodeNoCandidates] != clients-places {
		t.Errorf("%d won, rejected: %v", total, rejected)
	}
	if kept := l.Rejected(); len(kept) != clients-places {
		t.Errorf("%d rejections are kept", len(kept))
	}
	commandstest.CheckReplay(t, l)
}

// TestFreedInTime: who has been told that something is free can claim it, and
// what others only assumed keeps nobody from it.
func TestFreedInTime(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 1})
	before := ledger.NilUUID
	for range 200 {
		if !before.IsNil() {
			l.Accept(t, &commands.ReleaseConsumer{Consumer: before})
		}
		before = commandstest.NewID()
		claimed(t, l.Submit(t, claimOf(before, map[string]int64{"VCPU": 1})))
	}
}

// TestClaimsAgree carries random claims out, one after the other, and compares
// each with the best of all candidates in the State before it.
func TestClaimsAgree(t *testing.T) {
	t.Parallel()
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
		defer l.Stop(t)
		for _, c := range commandstest.SomeThings() {
			l.Submit(t, c)
		}
		for range 12 {
			if rapid.Bool().Draw(rt, "other") {
				l.Submit(t, commandstest.RandomProviderCommand(rt))
				continue
			}
			claim := commandstest.RandomClaim(rt)
			state, err := l.Writer.Fork(context.Background())
			if err != nil {
				rt.Fatal(err)
			}
			seed := uint64(7)
			if claim.Prefer == nil {
				claim.Prefer = &commands.ClaimPreference{}
			}
			claim.Prefer.Seed = &seed
			want, rejection := claim.Decide(state) // it searches the State, provider by provider
			got := l.Submit(t, claim)
			if rejection != nil || got.Rejection != nil {
				if rejection == nil || got.Rejection == nil || rejection.Code != got.Rejection.Code {
					rt.Fatalf("the model says %v, the ledger %v", rejection, got.Rejection)
				}
				continue
			}
			accepted++
			if got, want := facts(got.Events), facts(want); !reflect.DeepEqual(got, want) {
				rt.Fatalf("got\n%+v\nwant\n%+v", got, want)
			}
		}
	})
	if accepted < 50 {
		t.Errorf("only %d claims were accepted", accepted)
	}
}

// facts are events without what differs from search to search.
func facts(events []ledger.Event) (list []ledger.Event) {
	for _, event := range events {
		if one, is := event.(ledger.AllocationsClaimed); is {
			one.AsOf = 0
			event = one
		}
		list = append(list, event)
	}
	return list
}

// TestSentAgain: the same claim under the same id is told again what was chosen.
func TestSentAgain(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for i := range 9 {
		l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 8})
	}
	c := claimOf(commandstest.NewID(), map[string]int64{"VCPU": 1})
	c.Alternates = 3
	s := commands.Submission{ID: commands.NewID(), Actor: "test", Command: c}
	first, err := l.Writer.Submit(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(claimed(t, first)[0].Alternates); n != 3 {
		t.Errorf("%d alternates", n)
	}
	again, err := l.Writer.Submit(context.Background(), s)
	if err != nil || !again.Repeated || again.Address != first.Address || !reflect.DeepEqual(again.Events, first.Events) {
		t.Errorf("first\n%+v\nagain\n%+v, %v", first, again, err)
	}
}

// TestMoveAndResize: what a consumer holds is replaced, and counts as free for
// it if the claim says so.
func TestMoveAndResize(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 8})
	consumer := commandstest.NewID()
	claimed(t, l.Submit(t, claimOf(consumer, map[string]int64{"VCPU": 6})))
	resize := claimOf(consumer, map[string]int64{"VCPU": 7})
	resize.For[0].AnyGeneration = true
	if o := l.Submit(t, resize); o.Rejection == nil || o.Rejection.Code != commands.CodeNoCandidates {
		t.Errorf("beside what it holds: %+v", o)
	}
	resize.OwnFree = true
	got := claimed(t, l.Submit(t, resize))
	if got[0].Allocations[0].Amount != 7 || got[0].Allocations[0].Provider != host {
		t.Errorf("resized in place: %+v", got)
	}
	other := l.Provider(t, "other", commands.Inventory{Class: "VCPU", Total: 8})
	resize.OwnFree = false
	if got := claimed(t, l.Submit(t, resize)); got[0].Allocations[0].Provider != other {
		t.Errorf("moved: %+v", got)
	}
}

// TestGang: all consumers of a claim get something, or none does.
func TestGang(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for i := range 3 {
		l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 4})
	}
	gang := func(n int) *commands.Claim {
		c := claimOf(commandstest.NewID(), map[string]int64{"VCPU": 2})
		for range n - 1 {
			c.For = append(c.For, commands.ClaimConsumer{Consumer: commandstest.NewID(), Project: "p", User: "u"})
		}
		return c
	}
	if o := l.Submit(t, gang(7)); o.Rejection == nil {
		t.Errorf("seven of six places: %+v", o)
	}
	if got := claimed(t, l.Submit(t, gang(6))); len(got) != 6 {
		t.Errorf("%d consumers got something", len(got))
	}
	if o := l.Submit(t, gang(1)); o.Rejection == nil || o.Rejection.Code != commands.CodeNoCandidates {
		t.Errorf("it is full: %+v", o)
	}
}

// TestBatchWithClaims: claims in a batch see what those before them chose.
func TestBatchWithClaims(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for i := range 2 {
		l.Provider(t, fmt.Sprint("host-", i), commands.Inventory{Class: "VCPU", Total: 1})
	}
	batch := func(n int) *commands.Batch {
		b := &commands.Batch{Commands: []commands.Command{&commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", n)}}}
		for range n {
			b.Commands = append(b.Commands, claimOf(commandstest.NewID(), map[string]int64{"VCPU": 1}))
		}
		return b
	}
	if o := l.Submit(t, batch(3)); o.Rejection == nil || o.Rejection.Code != commands.CodeNoCandidates {
		t.Errorf("three of two: %+v", o)
	}
	if got := claimed(t, l.Submit(t, batch(2))); got[0].Allocations[0].Provider == got[1].Allocations[0].Provider {
		t.Errorf("both got %v", got)
	}
}

// TestBadClaims: what cannot be meant is refused, and changes nothing.
func TestBadClaims(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 8})
	good := func() *commands.Claim { return claimOf(commandstest.NewID(), map[string]int64{"VCPU": 1}) }
	claimed(t, l.Submit(t, good()))
	for name, c := range map[string]struct {
		code   commands.Code
		change func(*commands.Claim)
	}{
		"for nobody":      {commands.CodeInvalid, func(c *commands.Claim) { c.For = nil }},
		"for too many":    {commands.CodeInvalid, func(c *commands.Claim) { c.For = make([]commands.ClaimConsumer, 257) }},
		"twice":           {commands.CodeInvalid, func(c *commands.Claim) { c.For = append(c.For, c.For[0]) }},
		"no request":      {commands.CodeInvalid, func(c *commands.Claim) { c.Requests = nil }},
		"another request": {commands.CodeInvalid, func(c *commands.Claim) { c.For[0].Request = 1 }},
		"no group":        {commands.CodeInvalid, func(c *commands.Claim) { c.Requests[0].Groups = nil }},
		"nothing":         {commands.CodeInvalid, func(c *commands.Claim) { c.Requests[0].Groups[0].Resources = nil }},
		"amount":          {commands.CodeInvalid, func(c *commands.Claim) { c.Requests[0].Groups[0].Resources["VCPU"] = 0 }},
		"class":           {commands.CodeClassUnknown, func(c *commands.Claim) { c.Requests[0].Groups[0].Resources["CUSTOM_NONE"] = 1 }},
		"trait":           {commands.CodeTraitUnknown, func(c *commands.Claim) { c.Requests[0].Groups[0].Required = [][]string{{"NONE"}} }},
		"required and forbidden": {commands.CodeInvalid, func(c *commands.Claim) {
			c.Requests[0].RootRequired, c.Requests[0].RootForbidden = []string{"A"}, []string{"A"}
		}},
		"subtree of no group": {commands.CodeInvalid, func(c *commands.Claim) { c.Requests[0].SameSubtree = [][]string{{"_x"}} }},
		"no such order":       {commands.CodeInvalid, func(c *commands.Claim) { c.Prefer = &commands.ClaimPreference{Order: "best"} }},
		"order and weights": {commands.CodeInvalid, func(c *commands.Claim) {
			c.Prefer = &commands.ClaimPreference{Order: "pack", Weights: map[string]float64{"VCPU": 1}}
		}},
		"infinite": {commands.CodeInvalid, func(c *commands.Claim) {
			c.Prefer = &commands.ClaimPreference{Weights: map[string]float64{"VCPU": math.Inf(1)}}
		}},
		"no number": {commands.CodeInvalid, func(c *commands.Claim) {
			c.Prefer = &commands.ClaimPreference{Traits: map[string]float64{"A": math.NaN()}}
		}},
		"weight of no class": {commands.CodeClassUnknown, func(c *commands.Claim) {
			c.Prefer = &commands.ClaimPreference{Weights: map[string]float64{"CUSTOM_NO": 1}}
		}},
		"prefers no trait": {commands.CodeTraitUnknown, func(c *commands.Claim) {
			c.Prefer = &commands.ClaimPreference{Traits: map[string]float64{"CUSTOM_NO": 1}}
		}},
		"too many alternates": {commands.CodeInvalid, func(c *commands.Claim) { c.Alternates = 33 }},
		"not the first":       {commands.CodeConsumerConflict, func(c *commands.Claim) { g := uint64(3); c.For[0].Generation = &g }},
		"a record of 64 KiB more": {commands.CodeTooLarge, func(c *commands.Claim) {
			for range 2000 {
				c.Requests[0].Groups[0].NotMemberOf = append(c.Requests[0].Groups[0].NotMemberOf, commandstest.NewID())
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := good()
			c.change(claim)
			before := l.Views.Checkpoint()
			o := l.Submit(t, claim)
			if o.Rejection == nil || o.Rejection.Code != c.code {
				t.Errorf("%+v", o)
			}
			if l.Views.Checkpoint() != before {
				t.Error("it changed something")
			}
		})
	}
}

// TestAskedIsCanonical: what the record keeps of a request is a document as all
// documents are kept.
func TestAskedIsCanonical(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		claim := commandstest.RandomClaim(rt)
		ranking := candidates.NewRanking(candidates.NewWorld(nil))
		search := commands.ClaimSearch{Ranking: ranking, Classes: ledger.NewClassTable([]ledger.Class{
			{ID: 0, Name: "VCPU"}, {ID: 1, Name: "MEMORY_MB"}, {ID: 10000, Name: "CUSTOM_A"}, {ID: 10001, Name: "CUSTOM_B"},
		}), Held: func(ledger.UUID) ([]ledger.Allocation, error) { return nil, nil }}
		found, err := search.Run(context.Background(), claim)
		if err != nil {
			rt.Fatal(err)
		}
		for _, asked := range found.Asked {
			canonical, err := ledger.ParseDocument([]byte(asked))
			if err != nil || canonical != asked {
				rt.Fatalf("%s, not %s: %v", asked, canonical, err)
			}
		}
	})
}
