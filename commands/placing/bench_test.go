package placing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

const (
	// benchCommit is how many claims of the benchmark land together, and benchAhead how
	// many such commits are searched ahead of those that have landed.
	benchCommit = 128
	benchAhead  = 8
	// benchCores are those of all providers together, however many those are.
	benchCores = 64 * 100_000
	benchTrait = "CUSTOM_BENCH_FAST" // of every tenth provider
)

// BenchmarkClaim searches for a claim, decides and applies it, with the index and the
// order of what is best kept in step: all that a claim costs beyond encodings, the log
// and the read models.
func BenchmarkClaim(b *testing.B) {
	for _, order := range []string{demand.OrderSpread, demand.OrderPack} {
		for _, providers := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/providers=%d", order, providers), func(b *testing.B) { benchClaims(b, order, providers) })
		}
	}
}

// claims is a State with an index and a ranking that follow it at some distance.
type claims struct {
	state   *ledger.State
	index   *candidates.Index
	ranking *candidates.Ranking
	open    []candidates.Use // what the claims of the open commit take
	ahead   []aheadCommit    // those that have not landed, the oldest first
}

// aheadCommit is a commit that the index does not have yet.
type aheadCommit struct {
	changes []ledger.ProviderChange
	uses    []candidates.Use
}

func benchClaims(b *testing.B, order string, providers int) {
	w := newClaiming(b, providers)
	w.carryOut(b, benchClaim(0, order))
	w.land()
	var searching, deciding time.Duration
	n := 0
	for b.Loop() {
		searched, decided := w.carryOut(b, benchClaim(n, order))
		searching, deciding = searching+searched, deciding+decided
		if n++; n%benchCommit == 0 {
			w.land()
		}
	}
	b.ReportMetric(float64(searching.Nanoseconds())/float64(n), "ns-search")
	b.ReportMetric(float64(deciding.Nanoseconds())/float64(n), "ns-decide")
}

func newClaiming(tb testing.TB, providers int) *claims {
	w := &claims{state: ledger.NewState(), index: candidates.NewIndex()}
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err != nil {
		tb.Fatal(err)
	}
	w.state.Begin()
	w.apply(tb, begin)
	w.apply(tb, &commands.CreateTrait{Name: benchTrait})
	cores := int64(benchCores / providers)
	for i := range providers {
		id := commandstest.NewID()
		w.apply(tb, &commands.CreateProvider{Provider: id, Name: id.String()})
		w.apply(tb, &commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
			{Class: "VCPU", Total: cores}, {Class: "MEMORY_MB", Total: 4096 * cores}, {Class: "DISK_GB", Total: 40 * cores},
		}})
		if i%10 == 0 {
			w.apply(tb, &commands.ReplaceProviderTraits{Provider: id, Traits: []string{benchTrait}})
		}
	}
	w.commit()
	w.index.Apply(w.ahead[0].changes)
	w.ahead = nil
	w.ranking = candidates.NewRanking(w.index.Snapshot())
	return w
}

// apply decides a command and applies it to the open commit.
func (w *claims) apply(tb testing.TB, c commands.Command) {
	events, rejection := c.Decide(w.state)
	if rejection != nil {
		tb.Fatal(rejection)
	}
	if err := w.state.Apply(w.state.Next(), &ledger.Record{Time: w.state.LastTime() + 1, Events: events}); err != nil {
		tb.Fatal(err)
	}
}

func (w *claims) commit() {
	w.ahead = append(w.ahead, aheadCommit{w.state.Changes().Providers, w.open})
	w.open = nil
	w.state.Advance(ledger.Head{Sequence: w.state.Next()})
	w.state.Begin()
}

// carryOut searches for a claim on the ranking, which is behind, and decides it.
func (w *claims) carryOut(tb testing.TB, c *commands.Claim) (searched, decided time.Duration) {
	begun := time.Now()
	id := c.For[0].Consumer
	search := claiming.Search{
		Ranking: w.ranking, Classes: w.state.Classes(), AsOf: w.state.Head().Sequence, MaxSteps: 40_000, Spare: 1,
		Seed: uint64(id[15])<<8 | uint64(id[14]),
	}
	found, err := search.Run(context.Background(), &c.Claim)
	if err != nil {
		tb.Fatal(err)
	}
	uses := found.Choices[0].Members[0].Uses
	w.ranking.Assume(uses, 1)
	w.open = append(w.open, uses...)
	between := time.Now()
	w.apply(tb, commands.WithFound(c, []*claiming.Found{found}))
	return between.Sub(begun), time.Since(between)
}

// land ends a commit, and has the ranking see the oldest that it has not seen.
func (w *claims) land() {
	w.commit()
	if len(w.ahead) > benchAhead {
		w.index.Apply(w.ahead[0].changes)
		w.ranking.SyncAfter(w.index.Snapshot(), w.ahead[0].uses)
		w.ahead = w.ahead[1:]
	}
}

// benchClaim is the n-th claim: a tenth wants a trait, a tenth has two groups.
func benchClaim(n int, order string) *commands.Claim {
	size := int64(1) << (n % 3)
	groups := []demand.RequestGroup{
		{Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size, "DISK_GB": 20 * size}},
	}
	switch n % 10 {
	case 0:
		groups[0].Required = [][]string{{benchTrait}}
	case 1:
		groups = []demand.RequestGroup{
			{Suffix: "_compute", Resources: map[string]int64{"VCPU": size, "MEMORY_MB": 2048 * size}},
			{Suffix: "_disk", Resources: map[string]int64{"DISK_GB": 20 * size}},
		}
	}
	return &commands.Claim{Claim: demand.Claim{
		Requests: []demand.CandidateRequest{{Groups: groups}},
		For:      []demand.ClaimConsumer{{Consumer: commandstest.NewID(), Project: "bench", User: "bench"}},
		Prefer:   &demand.ClaimPreference{Order: order},
	}}
}
