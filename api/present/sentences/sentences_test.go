package sentences

import (
	"reflect"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// nothing is a past in which there was nothing, and things have some names.
type nothing map[string]string

func (nothing) Consumer(ledger.UUID) *wire.Allocations          { return nil }
func (nothing) Provider(ledger.UUID) *wire.Provider             { return nil }
func (nothing) Node(ledger.UUID) *wire.Node                     { return nil }
func (nothing) NodeAllocation(ledger.UUID) *wire.NodeAllocation { return nil }
func (nothing) Limit(_, _, _ string) *int64                     { return nil }
func (nothing) AggregateLimit(ledger.UUID, string) *int64       { return nil }
func (nothing) Preference(string) string                        { return "" }
func (nothing) Parent(string) string                            { return "" }
func (nothing) Class(ledger.ClassID) string                     { return "" }
func (n nothing) Called(_, id string) string                    { return n[id] }

// TestEveryEventIsTold: each kind of event has a sentence, which names what the event is about.
func TestEveryEventIsTold(t *testing.T) {
	told := make(map[string]bool)
	for _, event := range ledgertest.EveryEvent() {
		kind := ledger.KindOf(event)
		if events[reflect.TypeOf(event)] == nil {
			t.Errorf("%s has no sentence", kind)
			continue
		}
		told[kind] = true
		words := Teller{Past: nothing{}, WholeIDs: true}.Record(&ledger.Record{Actor: "nova", Command: "Do", Events: []ledger.Event{event}})
		text := words.String()
		if !strings.HasPrefix(text, "nova ") || len(text) < len("nova began x") || words[0].Of != OfActor {
			t.Errorf("%s: %q", kind, text)
		}
		if about := ledger.TopicOf(event); about.Of != ledger.OfNothing && !strings.Contains(text, about.ID.String()) {
			t.Errorf("%s: %q does not name %s", kind, text, about.ID)
		}
	}
	for _, kind := range ledger.EventKinds() {
		if !told[kind] {
			t.Errorf("%s was not told", kind)
		}
	}
	if len(events) != len(told) {
		t.Errorf("%d kinds of events have sentences, %d were told", len(events), len(told))
	}
}

// TestChangesOfConsumers: a change of what a consumer holds is told with the other party, and with what
// it held before.
func TestChangesOfConsumers(t *testing.T) {
	id, one, other := ledgertest.ID(2, 1), ledgertest.ID(1, 1), ledgertest.ID(1, 2)
	names := nothing{one.String(): "host-007", other.String(): "host-012"}
	of := func(change func(*wire.Allocations), held ...wire.Allocation) *wire.Allocations {
		a := &wire.Allocations{Consumer: id, Project: "p", User: "u", Type: "INSTANCE", Allocations: held}
		if change != nil {
			change(a)
		}
		return a
	}
	cpu := func(at ledger.UUID, n int64) wire.Allocation {
		return wire.Allocation{Provider: at, Class: "VCPU", Amount: n}
	}
	memory := wire.Allocation{Provider: other, Class: "MEMORY_MB", Amount: 20480}
	reserved := func(a *wire.Allocations) { a.ReservedUntil = "2026-05-01T00:00:00Z" }
	typed := func(a *wire.Allocations) { a.Type = "MIGRATION" }
	owned := func(a *wire.Allocations) { a.Project = "q" }
	const c = "consumer 02000000 (project p)"
	for _, row := range []struct {
		before, after *wire.Allocations
		want          string
	}{
		{nil, nil, "changed consumer 02000000"},
		{nil, of(nil, memory, cpu(other, 2)), "allocated 2 VCPU, 20,480 MEMORY_MB on host-012 for " + c},
		{nil, of(reserved, cpu(one, 2)), "reserved 2 VCPU on host-007 for " + c + " until 2026-05-01T00:00:00Z"},
		{of(nil, cpu(one, 2)), nil, "released " + c + ": 2 VCPU on host-007"},
		{of(nil, cpu(one, 2)), of(nil, cpu(other, 2)), "moved " + c + " from host-007 to host-012: 2 VCPU"},
		{of(nil, cpu(one, 2)), of(nil, cpu(other, 3)), "moved " + c + " from host-007 to host-012: 3 VCPU, before 2 VCPU"},
		{of(nil, cpu(one, 2), memory), of(nil, cpu(one, 2)), "took " + c + " off host-012: 0 MEMORY_MB, before 20,480"},
		{of(nil, cpu(one, 2)), of(nil, cpu(one, 2), memory), "extended " + c + " to host-012: 20,480 MEMORY_MB, before 0"},
		{of(nil, cpu(one, 2)), of(nil, cpu(one, 4)), "resized " + c + " on host-007: 4 VCPU, before 2"},
		{of(reserved, cpu(one, 2)), of(nil, cpu(one, 2)), "confirmed the reservation of " + c + ": 2 VCPU on host-007"},
		{of(nil, cpu(one, 2)), of(nil, cpu(one, 2)), "confirmed what " + c + " holds: 2 VCPU on host-007"},
		{
			of(nil, cpu(one, 3), cpu(other, 1)), of(nil, cpu(one, 1), cpu(other, 3)),
			"redistributed " + c + ": 1 VCPU on host-007 and 3 VCPU on host-012; before 3 VCPU on host-007 and 1 VCPU on host-012",
		},
		{
			of(nil, cpu(one, 4), memory), of(nil, memory, cpu(id, 4)),
			"moved " + c + " from host-007 to 02000000: 20,480 MEMORY_MB on host-012 and 4 VCPU on 02000000; " +
				"before 4 VCPU on host-007 and 20,480 MEMORY_MB on host-012",
		},
		{of(typed, cpu(one, 2)), of(nil, cpu(one, 2)), "changed the type of " + c + ", as INSTANCE, before MIGRATION"},
		{of(owned, cpu(one, 2)), of(nil, cpu(one, 2)), "gave away " + c + ", before of project q"},
	} {
		if got := (Teller{Past: names}).Consumer(id, row.before, row.after).String(); got != row.want {
			t.Errorf("%q; want %q", got, row.want)
		}
	}
}

// TestWhatIsAskedForIsToldFirst: a sentence of a record with many events begins with that about its subject,
// and counts all others.
func TestWhatIsAskedForIsToldFirst(t *testing.T) {
	var many []ledger.Event
	for i := range byte(200) {
		many = append(many, ledger.AllocationsReplaced{
			Consumer: ledgertest.ID(2, i), Project: "p", User: "u",
			Allocations: []ledger.AllocationRecord{{Provider: ledgertest.ID(1, i), Class: "VCPU", Amount: 1}},
		})
	}
	record := &ledger.Record{Actor: "nova", Events: append(many, ledger.ProviderGenerationsAdvanced{})}
	about := Word{Of: wire.OfProvider, Name: ledgertest.ID(1, 150).String()}
	got := Teller{Past: nothing{about.Name: "mine"}, About: about}.Record(record).String()
	if !strings.HasPrefix(got, "nova allocated 1 VCPU on mine for ") || !strings.HasSuffix(got, "; and 197 more") {
		t.Error(got)
	}
}

// TestLastInventoriesAreTold: those of a reshape between which its allocations move are not.
func TestLastInventoriesAreTold(t *testing.T) {
	set := func(provider byte, total int64) ledger.Event {
		return ledger.InventoriesReplaced{Provider: ledgertest.ID(1, provider), Inventories: []ledger.InventoryRecord{
			{Class: "VCPU", Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, Ratio: 1},
		}}
	}
	record := &ledger.Record{Actor: "nova", Events: []ledger.Event{set(1, 9), set(2, 3), set(1, 6)}}
	const want = "nova set the inventories of 01000000: 3 VCPU; set the inventories of 01000000: 6 VCPU"
	if got := (Teller{Past: nothing{}}).Record(record).String(); got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// TestEveryKindOfLimitIsTold: a limit is told with whose it is, and a claim with its score.
func TestEveryKindOfLimitIsTold(t *testing.T) {
	rack := ledgertest.ID(3, 1)
	for want, event := range map[string]ledger.Event{
		"limited project p to VCPU: at most 9":                                                    ledger.LimitSet{Project: "p", Class: "VCPU", Most: 9},
		"limited project p to consumers of type INSTANCE: at most 9":                              ledger.LimitSet{Project: "p", Type: "INSTANCE", Most: 9},
		"limited every project to VCPU: at most 9":                                                ledger.LimitSet{Class: "VCPU", Most: 9},
		"took away the limit of every project to consumers of type A":                             ledger.LimitRemoved{Type: "A"},
		"limited VCPU in aggregate rack-1: at most 9":                                             ledger.AggregateLimitSet{Aggregate: rack, Class: "VCPU", Most: 9},
		"took away the limit of VCPU in aggregate rack-1":                                         ledger.AggregateLimitRemoved{Aggregate: rack, Class: "VCPU"},
		"reserved 3 VCPU on 01000000 for consumer 02000000 (project p)":                           ledgertest.Reservation(),
		"allocated 3 VCPU on 01000000 for consumer 02000000 (project p), chosen with score -0.25": ledgertest.Claim(),
	} {
		got := (Teller{Past: nothing{rack.String(): "rack-1"}}).Record(&ledger.Record{Events: []ledger.Event{event}}).String()
		if !strings.HasPrefix(got, "a client "+want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// TestNumbersOfPeople: numbers have commas from 10,000 on.
func TestNumbersOfPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 21100: "21,100", -21100: "-21,100", -100000: "-100,000", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
