package ledgertest

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// Commit is a commit of some records after another one, and its stored form.
func Commit(t testing.TB, after ledger.Head, records ...ledger.Record) (*ledger.Commit, []byte) {
	t.Helper()
	builder := ledger.NewCommitBuilder()
	builder.Begin(after)
	for _, r := range records {
		if _, fits, err := builder.Add(r, 1<<30); err != nil || !fits {
			t.Fatal(fits, err)
		}
	}
	commit, encoded, err := builder.Seal()
	OK(t, err)
	return commit, encoded
}

// chain makes a log with one record for each list of events.
func chain(t testing.TB, events [][]ledger.Event) []*ledger.Commit {
	t.Helper()
	return chainOf(t, events, func(int, *ledger.Record) {})
}

// chainOf is chain for records that are changed before they are written.
func chainOf(t testing.TB, events [][]ledger.Event, change func(i int, r *ledger.Record)) []*ledger.Commit {
	t.Helper()
	var head ledger.Head
	commits := make([]*ledger.Commit, len(events))
	for i, list := range events {
		record := ledger.Record{
			CommandID: ID(4, byte(i)), Fingerprint: ledger.Fingerprint{1, 2, 3}, Command: "Test",
			Time: 1_700_000_000_000_000_000 + int64(i), Actor: "admin", RequestID: "req-1",
			Cause: &ledger.Address{Sequence: 1, Index: 2}, Events: list,
		}
		change(i, &record)
		commits[i], _ = Commit(t, head, record)
		head = commits[i].Head()
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
	movedReservation := Reservation().(ledger.AllocationsReserved)
	movedReservation.Lifetime, movedReservation.Until, movedReservation.Projects = 0, 1_700_000_060_000_000_001, nil
	movedClaim, from := Claim().(ledger.AllocationsClaimed), ID(2, 77)
	movedClaim.Until, movedClaim.Alternates, movedClaim.PassedOver = 1_700_000_060_000_000_001, nil, 0
	movedClaim.From, movedClaim.Alternative, movedClaim.Earlier = &from, 1, []string{"nothing satisfied it"}
	flat, changed := ledger.Topology{Name: "flat", Levels: []string{"rack"}}, topology().(ledger.TopologySet)
	changed.Members = changed.Members[:2]
	released := func(allocation ledger.UUID) ledger.Event {
		return ledger.NodeAllocationReleased{Allocation: allocation}
	}
	histories := []History{{"commits", Commits(t, 3)}}
	for _, one := range []struct {
		name   string
		events [][]ledger.Event
	}{
		{"nodes", [][]ledger.Event{Vocabulary(), nodeVocabulary(), {released(ID(6, 1))}}},
		{"reservations", [][]ledger.Event{
			Vocabulary(), {Reservation()}, {movedReservation}, {ledger.ConsumerRemoved{Consumer: ID(2, 77)}},
		}},
		{"waiting", [][]ledger.Event{
			Vocabulary()[:1], {ledger.AllocationRequested{Allocation: ID(6, 3), Name: "a3", ResourceClass: "baremetal"}},
		}},
		{"chassis", [][]ledger.Event{
			Vocabulary(), chassisVocabulary(),
			{ledger.ChassisCreated{Chassis: ID(8, 3)}, ledger.ChassisDeleted{Chassis: ID(8, 3)}},
		}},
		{"order", orders()},
		{"terms", [][]ledger.Event{
			Vocabulary(),
			{ledger.TermBegan{Term: ledger.Term{Number: 1, Leader: "a", Instance: ID(8, 1), Level: 1}}},
			{ledger.TermBegan{Term: ledger.Term{Number: 2, Leader: "b", Instance: ID(8, 2), Level: 1}}},
		}},
		{"claims", [][]ledger.Event{Vocabulary(), {Claim()}, {movedClaim}}},
		{"limits", [][]ledger.Event{
			Vocabulary(),
			{ledger.LimitSet{Class: "VCPU", Most: 9}, ledger.LimitSet{Project: "p", Type: "INSTANCE", Most: 1}},
			{ledger.ProjectPlaced{Project: "p", Parent: "q"}, ledger.ProjectPlaced{Project: "q", Parent: "r"}},
			{ledger.LimitRemoved{Class: "VCPU"}, ledger.LimitSet{Project: "r", Class: "MEMORY_MB", Most: 5}},
			{ledger.ProjectPlaced{Project: "q"}},
		}},
		{"import", [][]ledger.Event{
			Vocabulary()[:2], importVocabulary(),
			{ledger.ConsumerRemoved{Consumer: ID(2, 41)}, ledger.ProviderRenamed{Provider: ID(1, 42), Name: "numa 1"}},
		}},
		{"preferences", [][]ledger.Event{
			Vocabulary(),
			{ledger.PreferenceSet{Name: "a", Prefer: `{"order":"pack"}`}, ledger.PreferenceSet{Name: "of nothing"}},
			{ledger.PreferenceSet{Name: "b", Prefer: `{"traits":{"CUSTOM_GOLD":-0.5}}`}, ledger.PreferenceRemoved{Name: "a"}},
			{ledger.PreferenceSet{Name: "b", Prefer: `{"order":"spread"}`}},
		}},
		{"aggregateLimits", [][]ledger.Event{
			Vocabulary(),
			{
				ledger.AggregateLimitSet{Aggregate: ID(3, 1), Class: "VCPU", Most: 9},
				ledger.AggregateLimitSet{Aggregate: ID(3, 2), Class: "MEMORY_MB"},
			},
			{ledger.AggregateLimitSet{Aggregate: ID(3, 1), Class: "VCPU", Most: 1}},
			{ledger.AggregateLimitRemoved{Aggregate: ID(3, 2), Class: "MEMORY_MB"}},
		}},
		{"importedNodes", [][]ledger.Event{
			Vocabulary()[:2], importedNodeVocabulary(), {released(ID(6, 41)), released(ID(6, 42))},
		}},
		{"spelt", spelt()},
		{"counters", counters()},
		{"topologies", [][]ledger.Event{
			Vocabulary(), {topology(), ledger.TopologySet{Topology: flat}},
			{changed, ledger.TopologyRemoved{Name: "flat"}},
		}},
		{"consumption", [][]ledger.Event{Vocabulary(), {ConsumptionRootSet()}}},
	} {
		histories = append(histories, History{one.name, chain(t, one.events)})
	}
	return append(histories, History{"packed", packedCommits(t)})
}

// spelt are of a provider whose aggregates are spelt in ways of their own, beside one that is
// not, and then all as usual.
func spelt() [][]ledger.Event {
	provider, plain, upper, usual := ID(1, 1), ID(3, 7), ID(0xab, 8), ID(3, 9)
	aggregates := []ledger.UUID{usual, plain, upper, ID(3, 1)}
	return [][]ledger.Event{
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
	}
}

// counters are of a card and two profiles that draw from its counters, of which one is used,
// and that is then left alone.
func counters() [][]ledger.Event {
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
	return [][]ledger.Event{
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
	}
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
