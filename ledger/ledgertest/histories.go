package ledgertest

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// chain makes a log with one record for each list of events.
func chain(t testing.TB, events [][]ledger.Event) []*ledger.Commit {
	t.Helper()
	return chainOf(t, events, func(int, *ledger.Record) {})
}

// chainOf is chain for records that are changed before they are written.
func chainOf(t testing.TB, events [][]ledger.Event, change func(i int, r *ledger.Record)) []*ledger.Commit {
	t.Helper()
	var head ledger.Head
	commits := make([]*ledger.Commit, 0, len(events))
	builder := ledger.NewCommitBuilder()
	for i, list := range events {
		builder.Begin(head)
		record := ledger.Record{
			CommandID: ID(4, byte(i)), Fingerprint: ledger.Fingerprint{1, 2, 3}, Command: "Test",
			Time: 1_700_000_000_000_000_000 + int64(i), Actor: "admin", RequestID: "req-1",
			Cause: &ledger.Address{Sequence: 1, Index: 2}, Events: list,
		}
		change(i, &record)
		if _, fits, err := builder.Add(record, 1<<20); err != nil || !fits {
			t.Fatal(fits, err)
		}
		commit, _, err := builder.Seal()
		OK(t, err)
		head = commit.Head()
		commits = append(commits, commit)
	}
	return commits
}

// History is a log whose stored forms are all on file: the commits themselves,
// the State after them, and the read models made from them.
type History struct {
	Name    string // name of its files
	Commits []*ledger.Commit
}

// Histories are logs that together hold every kind of event. They never change: a
// new kind of event needs a new log.
func Histories(t testing.TB) []History {
	t.Helper()
	return []History{
		{"commits", Commits(t, 3)},
		{"nodes", NodeCommits(t)},
		{"reservations", ReservationCommits(t)},
		{"waiting", waitingCommits(t)},
		{"chassis", ChassisCommits(t)},
		{"order", OrderCommits(t)},
		{"terms", TermCommits(t)},
		{"claims", ClaimCommits(t)},
		{"limits", LimitCommits(t)},
		{"import", ImportCommits(t)},
		{"preferences", PreferenceCommits(t)},
		{"aggregateLimits", AggregateLimitCommits(t)},
		{"importedNodes", importedNodeCommits(t)},
		{"packed", packedCommits(t)},
		{"spelt", speltCommits(t)},
		{"counters", counterCommits(t)},
		{"topologies", topologyCommits(t)},
		{"consumption", chain(t, [][]ledger.Event{Vocabulary(), {ConsumptionRootSet()}})},
	}
}

// speltCommits returns a log of a provider whose aggregates are spelt in ways of their
// own, beside one that is not, and then all as usual.
func speltCommits(t testing.TB) []*ledger.Commit {
	t.Helper()
	provider, plain, upper, usual := ID(1, 1), ID(3, 7), ID(0xab, 8), ID(3, 9)
	aggregates := []ledger.UUID{usual, plain, upper, ID(3, 1)}
	return chain(t, [][]ledger.Event{
		Vocabulary(),
		{ledger.ProviderAggregatesReplaced{Provider: provider, Generation: 7, Aggregates: aggregates, Spelt: []string{
			usual.String(), ledger.SpelledPlain.Text(plain), strings.ToUpper(upper.String()), ID(3, 1).String(),
		}}},
		{
			ledger.ProviderCreated{Provider: ID(1, 9), Name: "b"},
			ledger.ProviderAggregatesReplaced{Provider: ID(1, 9), Generation: 1, Aggregates: aggregates[:2], Spelt: []string{
				ledger.SpelledPlain.Text(usual), ledger.SpelledPlain.Text(plain),
			}},
			ledger.ProviderAggregatesReplaced{Provider: provider, Generation: 8, Aggregates: aggregates[:1]},
		},
	})
}

// counterCommits returns a log of a card and two profiles that draw from its counters, of which one
// is used, and that is then left alone.
func counterCommits(t testing.TB) []*ledger.Commit {
	t.Helper()
	card, small, large := ID(1, 1), ID(1, 11), ID(1, 12)
	profile := func(id ledger.UUID, name string, draws ...ledger.DrawRecord) []ledger.Event {
		return []ledger.Event{
			ledger.ProviderCreated{Provider: id, Name: name, Parent: card},
			ledger.InventoriesReplaced{Provider: id, Generation: 1, Inventories: []ledger.InventoryRecord{
				{Class: "VCPU", Total: 7, MinUnit: 1, MaxUnit: 7, StepSize: 1, Ratio: 1},
			}},
			ledger.ProviderCountersReplaced{Provider: id, Generation: 2, Draws: draws},
		}
	}
	return chain(t, [][]ledger.Event{
		Vocabulary(),
		{ledger.ProviderCountersReplaced{Provider: card, Generation: 7, Counters: []ledger.Counter{
			{Name: "COMPUTE_SLICE", Total: 7}, {Name: "MODE", Total: 1},
		}}},
		append(
			profile(small, "1g", ledger.DrawRecord{Class: "VCPU", Counter: "MODE", Amount: 1, Mode: "MIG"},
				ledger.DrawRecord{Class: "VCPU", Counter: "COMPUTE_SLICE", Amount: 1}),
			profile(large, "2g", ledger.DrawRecord{Class: "VCPU", Counter: "COMPUTE_SLICE", Amount: 2})...,
		),
		{ledger.AllocationsReplaced{Consumer: ID(2, 9), Project: "p", User: "u", Allocations: []ledger.AllocationRecord{
			{Provider: small, Class: "VCPU", Amount: 3},
		}}},
		{ledger.ProviderCountersReplaced{Provider: small, Generation: 3}},
	})
}

// packedCommits returns a log with names and ids that packing makes short.
func packedCommits(t testing.TB) []*ledger.Commit {
	t.Helper()
	const project, user = "0123456789abcdef0123456789abcdef", "11111111-2222-3333-4444-555555555555"
	holds := func(n byte, providers ...ledger.UUID) ledger.Event {
		ev := ledger.AllocationsReplaced{Consumer: ID(2, n), Project: project, User: user, Type: "INSTANCE"}
		for _, id := range providers {
			for _, class := range []string{"VCPU", "MEMORY_MB"} {
				ev.Allocations = append(ev.Allocations, ledger.AllocationRecord{Provider: id, Class: class, Amount: 1})
			}
		}
		return ev
	}
	events := [][]ledger.Event{
		Vocabulary(),
		{
			ledger.ProviderCreated{Provider: ID(1, 4), Name: "second"},
			ledger.InventoriesReplaced{Provider: ID(1, 4), Generation: 1, Inventories: []ledger.InventoryRecord{
				{Class: "MEMORY_MB", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, Ratio: 1},
				{Class: "VCPU", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, Ratio: 1},
			}},
			holds(3, ID(1, 1)),
		},
		{holds(4, ID(1, 4), ID(1, 1)), holds(3, ID(1, 4))},
		{ledger.ConsumerRemoved{Consumer: ID(2, 4)}},
	}
	return chainOf(t, events, func(i int, r *ledger.Record) {
		r.Command, r.Actor = "AllocateForConsumers", project
		r.RequestID = "req-" + ID(5, byte(i)).String()
	})
}
