package ledger_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// refusal is an event that cannot follow, and its error.
type refusal struct {
	event ledger.Event
	why   string
}

// The entities in the State to which refused events are applied.
var (
	parent, child, other     = ledgertest.ID(1, 1), ledgertest.ID(1, 12), ledgertest.ID(1, 13)
	above, missing           = ledgertest.ID(1, 14), ledgertest.ID(1, 99)
	holder                   = ledgertest.ID(2, 77) // of 3 VCPU of the parent
	givenNode, idle, third   = ledgertest.ID(5, 1), ledgertest.ID(5, 2), ledgertest.ID(5, 3)
	given, waiting, newcomer = ledgertest.ID(6, 1), ledgertest.ID(6, 2), ledgertest.ID(6, 99)
	rack                     = ledgertest.ID(8, 1)
)

func refusingState(t *testing.T) *ledger.State {
	t.Helper()
	s := ledger.NewState()
	for i, event := range append(ledgertest.EveryEvent(),
		ledger.ProviderCreated{Provider: child, Name: "child", Parent: parent},
		ledger.ProviderCreated{Provider: other, Name: "other"}, ledger.ProviderCreated{Provider: above, Name: "above"},
		ledger.ProviderCreated{Provider: ledgertest.ID(1, 15), Name: "below", Parent: above},
		ledger.NodeCreated{Node: idle, ProvisionState: "available", Description: ledger.NodeDescription{Name: "idle"}},
		ledger.NodeCreated{Node: third, ProvisionState: "available", Description: ledger.NodeDescription{Name: "third"}},
		ledger.NodeInstanceSet{Node: third, Instance: ledgertest.ID(7, 3)},
		ledger.AllocationRequested{Allocation: waiting, Name: "waiting", ResourceClass: "c"},
	) {
		s.Begin()
		record := &ledger.Record{Time: ledger.ConsumptionPeriod + int64(i), Events: []ledger.Event{event}}
		if err := s.Apply(uint64(i+1), record); err != nil {
			t.Fatalf("%s: %v", ledger.KindOf(event), err)
		}
		s.Advance(ledger.Head{Sequence: uint64(i + 1)})
	}
	return s
}

func rootAt(at int64) ledger.Event {
	return ledger.ConsumptionRootSet{ConsumptionRoot: ledger.ConsumptionRoot{At: at}}
}

// refusals are events that contradict every State that decided commands lead to.
// A log with one was not written by Allot, or by a faulty one.
func refusals() []refusal {
	holds := func(class string, amount int64) ledger.AllocationsReplaced {
		return ledger.AllocationsReplaced{Consumer: holder, Project: "p", User: "u", Allocations: []ledger.AllocationRecord{
			{Provider: parent, Class: class, Amount: amount},
		}}
	}
	twice, elsewhere := holds("VCPU", 1), holds("VCPU", 1)
	twice.Allocations = append(twice.Allocations, twice.Allocations[0])
	elsewhere.Allocations[0].Provider = missing
	inventory := func(class string) ledger.InventoryRecord { return ledger.InventoryRecord{Class: class, Total: 1} }
	inventories := func(provider ledger.UUID, generation int64, classes ...string) ledger.Event {
		ev := ledger.InventoriesReplaced{Provider: provider, Generation: generation}
		for _, class := range classes {
			ev.Inventories = append(ev.Inventories, inventory(class))
		}
		return ev
	}
	named := func(name string) ledger.NodeDescription { return ledger.NodeDescription{Name: name} }
	return []refusal{
		{ledger.LedgerCreated{Ledger: missing}, "created twice"},
		{ledger.TermBegan{Term: ledger.Term{Number: 3, Leader: "a", Level: ledger.Level}}, "cannot follow term 1"},
		{ledger.TermBegan{Term: ledger.Term{Number: 1, Leader: "a", Level: ledger.Level}}, "cannot follow term 1"},
		{ledger.TermBegan{Term: ledger.Term{Number: 2, Level: ledger.Level}}, "cannot follow term 1"}, // without a leader
		{ledger.TermBegan{Term: ledger.Term{Number: 2, Leader: "a"}}, "at level 0 cannot follow"},
		{ledgertest.ConsumptionRootSet(), "no root of consumption"}, // once more
		{rootAt(2*ledger.ConsumptionPeriod + 1), "no root of consumption"},
		{rootAt(4 * ledger.ConsumptionPeriod), "no root of consumption"}, // hours ahead of its record
		{ledger.StandardNamesAdded{Classes: []ledger.StandardClass{{ID: 0, Name: "NEW"}}}, "created twice"},
		{ledger.StandardNamesAdded{Classes: []ledger.StandardClass{{ID: 9, Name: "VCPU"}}}, "created twice"},
		{
			ledger.StandardNamesAdded{Classes: []ledger.StandardClass{{ID: ledger.FirstCustomClass, Name: "NEW"}}},
			"numbered 10000",
		},
		{ledger.StandardNamesAdded{Traits: []string{"CUSTOM_GOLD"}}, "created twice"},
		{ledger.TraitCreated{Name: "CUSTOM_GOLD"}, "created twice"},
		{ledger.TraitDeleted{Name: "CUSTOM_GOLD"}, "cannot go"}, // a provider has it
		{ledger.TraitDeleted{Name: "CUSTOM_NONE"}, "cannot go"},
		{ledger.ClassCreated{ID: 10001, Name: "CUSTOM_NEW"}, "numbered 10001"}, // used before
		{ledger.ClassCreated{ID: 10002, Name: "CUSTOM_STEEL"}, "created twice"},
		{ledger.ClassRenamed{ID: 10001, Name: "CUSTOM_NEW"}, "no resource class 10001"},
		{ledger.ClassRenamed{ID: 10000, Name: "VCPU"}, "used twice"},
		{ledger.ClassDeleted{ID: 0, Name: "VCPU"}, "cannot go"}, // a provider has it
		{ledger.ClassDeleted{ID: 10001, Name: "CUSTOM_TIN"}, "cannot go"},

		{ledger.ProviderCreated{Provider: parent, Name: "new"}, "created twice"},
		{ledger.ProviderCreated{Provider: missing, Name: "child"}, "used twice"},
		{ledger.ProviderCreated{Provider: missing, Name: "new", Parent: newcomer}, "no parent"},
		{ledger.ProviderRenamed{Provider: other, Name: "child"}, "used twice"},
		{ledger.ProviderRenamed{Provider: missing, Name: "new"}, "no provider"},
		{ledger.ProviderReparented{Provider: parent, Parent: child}, "below itself"},
		{ledger.ProviderReparented{Provider: parent, Parent: parent}, "below itself"},
		{ledger.ProviderReparented{Provider: parent, Parent: missing}, "no parent"},
		{ledger.ProviderReparented{Provider: missing}, "no provider"},
		{ledger.ProviderDeleted{Provider: missing}, "no provider"},
		{ledger.ProviderDeleted{Provider: parent}, "in use"},
		{ledger.ProviderDeleted{Provider: above}, "above children"},
		{
			ledger.ProviderGenerationsAdvanced{Providers: []ledger.ProviderGeneration{{Provider: parent, Generation: 5}}},
			"goes back from 6 to 5",
		},
		{
			ledger.ProviderGenerationsAdvanced{Providers: []ledger.ProviderGeneration{{Provider: missing, Generation: 5}}},
			"no provider",
		},
		{ledger.ProviderTraitsReplaced{Provider: parent, Generation: 7, Traits: []string{"CUSTOM_NONE"}}, "CUSTOM_NONE"},
		{
			ledger.ProviderTraitsReplaced{Provider: parent, Generation: 7, Traits: []string{"HW_CPU_X86_AVX", "CUSTOM_GOLD"}},
			"CUSTOM_GOLD",
		},
		{ledger.ProviderTraitsReplaced{Provider: missing}, "no provider"},
		{
			ledger.ProviderAggregatesReplaced{Provider: parent, Generation: 7, Aggregates: []ledger.UUID{other, other}},
			"twice in aggregate",
		},
		{ledger.ProviderAggregatesReplaced{Provider: missing}, "no provider"},
		{ledger.ProviderCountersReplaced{Provider: missing}, "no provider"},
		{ledger.ProviderCountersReplaced{Provider: parent, Generation: 7, Counters: []ledger.Counter{{"B", 1}, {"A", 1}}}, `"A"`},
		{ledger.ProviderCountersReplaced{Provider: parent, Generation: 7, Draws: []ledger.DrawRecord{
			{Class: "CUSTOM_NONE", Counter: "A", Amount: 1},
		}}, "CUSTOM_NONE"},
		{ledger.ProviderCountersReplaced{Provider: parent, Generation: 7, Draws: []ledger.DrawRecord{
			{Class: "VCPU", Counter: "A", Amount: 1}, {Class: "VCPU", Counter: "A", Amount: 2},
		}}, "twice"},
		{inventories(missing, 1), "no provider"},
		{inventories(parent, 5, "VCPU"), "goes back"},
		{inventories(parent, 7, "VCPU", "VCPU"), "twice"},
		{inventories(parent, 7, "VCPU", "CUSTOM_NONE"), "no resource class"},
		{inventories(parent, 7, "MEMORY_MB"), "while in use"},
		{ledger.InventorySet{Provider: missing, Inventory: inventory("VCPU")}, "no provider"},
		{ledger.InventorySet{Provider: parent, Generation: 7, Inventory: inventory("CUSTOM_NONE")}, "no resource class"},
		{ledger.InventoryDeleted{Provider: missing, Class: "VCPU"}, "no provider"},
		{ledger.InventoryDeleted{Provider: parent, Generation: 7, Class: "CUSTOM_NONE"}, "no resource class"},
		{ledger.InventoryDeleted{Provider: parent, Generation: 7, Class: "CUSTOM_STEEL"}, "cannot go"},
		{ledger.InventoryDeleted{Provider: parent, Generation: 7, Class: "VCPU"}, "cannot go"}, // it is used

		{ledger.AllocationsReplaced{Consumer: holder}, "without allocations"},
		{holds("CUSTOM_NONE", 1), "no resource class"},
		{holds("CUSTOM_STEEL", 1), "no inventory"},
		{holds("VCPU", 0), "holds 0"},
		{holds("VCPU", ledger.MaxAmount+1), "holds 2147483648"},
		{twice, "twice on one provider"},
		{elsewhere, "no provider"},
		{ledger.AllocationsReserved{AllocationsReplaced: holds("VCPU", 1)}, "without an end"},
		{ledger.ConsumerRemoved{Consumer: missing}, "cannot go"},
		{ledger.AllocationsClaimed{AllocationsReplaced: holds("VCPU", 1), Until: -1}, "ends at -1"},
		{ledger.AllocationsClaimed{AllocationsReplaced: elsewhere}, "no provider"},

		{ledger.LimitSet{}, "a limit of class"},
		{ledger.LimitSet{Class: "VCPU", Type: "INSTANCE"}, "a limit of class"},
		{ledger.LimitSet{Class: "CUSTOM_NONE"}, "no resource class"},
		{ledger.LimitSet{Class: "VCPU", Most: -1}, "a limit of -1"},
		{ledger.LimitRemoved{Class: "VCPU", Project: "none"}, "there is no limit"},
		{ledger.LimitRemoved{}, "a limit of class"},
		{ledger.AggregateLimitSet{Aggregate: other, Class: "CUSTOM_NONE"}, "a limit of class"},
		{ledger.AggregateLimitSet{Class: "VCPU"}, "a limit of class"},
		{ledger.AggregateLimitSet{Aggregate: other, Class: "VCPU", Most: -1}, "a limit of -1"},
		{ledger.AggregateLimitRemoved{Aggregate: other, Class: "VCPU"}, "there is no limit"},
		{ledger.AggregateLimitRemoved{Class: "VCPU"}, "a limit of class"},
		{ledger.PreferenceSet{}, "cannot have the name"},
		{ledger.PreferenceRemoved{Name: "none"}, "no preference"},
		{ledger.TopologySet{}, "a topology cannot have the name"},
		{ledger.TopologySet{Topology: ledger.Topology{Name: "a", Levels: []string{"rack"}, Members: []ledger.TopologyMember{
			{Aggregate: other, Level: 1},
		}}}, "of level 1 is in"},
		{ledger.TopologyRemoved{Name: "none"}, "no topology"},
		{ledger.ProjectPlaced{Parent: "q"}, "cannot be below"},
		{ledger.ProjectPlaced{Project: "q", Parent: "q"}, "cannot be below"},

		{ledger.ContentsImported{}, "import of \"\""},
		{ledger.ContentsImported{Kind: "placement", LeftOut: 1}, "1 of 0 rows left out"},
		{ledger.ContentsImported{Kind: "placement", ReadAt: 1 << 62}, "read at 4611686018427387904"},
		{ledger.ProviderImported{Provider: parent, Name: "new"}, "created twice"},
		{ledger.ProviderImported{Provider: missing, Name: "child"}, "used twice"},
		{ledger.ProviderImported{Provider: missing, Name: "new", Parent: newcomer}, "no parent"},
		{ledger.ProviderImported{Provider: missing, Name: "new", CreatedAt: 1}, "created at 1 and updated at 0"},
		{ledger.ProviderImported{Provider: missing, Name: "new", UpdatedAt: 1 << 62}, "in a record of"},
		{ledger.ProviderImported{Provider: missing, Name: "new", Generation: -1}, "goes back from 0 to -1"},
		{importedWith("CUSTOM_NONE"), "no resource class"},
		{importedWith("VCPU", "VCPU"), "twice"},
		{ledger.ProviderImported{Provider: missing, Name: "new", Traits: []string{"CUSTOM_NONE"}}, "CUSTOM_NONE"},
		{ledger.ProviderImported{Provider: missing, Name: "new", Aggregates: []ledger.UUID{other, other}}, "twice in aggregate"},
		{ledger.ConsumerImported{AllocationsReplaced: holds("VCPU", 1)}, "imported twice"},
		{ledger.ConsumerImported{AllocationsReplaced: ledger.AllocationsReplaced{Consumer: newcomer}}, "without allocations"},
		{ledger.ConsumerImported{AllocationsReplaced: holds("VCPU", 1), CreatedAt: 1}, "created at 1 and updated at 0"},

		{ledger.NodeProvidersSet{On: true}, "set twice"},
		{ledger.NodeCreated{Node: idle, ProvisionState: "enroll"}, "cannot be created"},
		{ledger.NodeCreated{ProvisionState: "enroll"}, "cannot be created"},
		{ledger.NodeCreated{Node: missing}, "cannot be created"},
		{ledger.NodeCreated{Node: missing, ProvisionState: "enroll", Description: named("idle")}, "used twice"},
		{ledger.NodeDescribed{Node: missing}, "no node"},
		{ledger.NodeDescribed{Node: idle, Description: named("third")}, "used twice"},
		{ledger.NodeStateSet{Node: missing}, "no node"},
		{ledger.NodeTraitsReplaced{Node: missing}, "no node"},
		{ledger.NodeTraitsReplaced{Node: idle, Traits: []string{"B", "A"}}, "not sorted"},
		{ledger.NodeInstanceSet{Node: missing}, "no node"},
		{ledger.NodeInstanceSet{Node: givenNode}, "is allocated"},
		{ledger.NodeInstanceSet{Node: idle, Instance: ledgertest.ID(7, 3)}, "on two nodes"},
		{ledger.NodeDeleted{Node: missing}, "cannot go"},
		{ledger.NodeDeleted{Node: givenNode}, "cannot go"}, // it is allocated

		{ledger.AllocationRequested{}, "cannot be requested"},
		{ledger.AllocationRequested{Allocation: given}, "cannot be requested"},
		{ledger.AllocationRequested{Allocation: newcomer, Name: "waiting"}, "used twice"},
		{ledger.NodeAllocated{Allocation: newcomer, Node: idle}, "waits for no node"},
		{ledger.NodeAllocated{Allocation: given, Node: idle}, "waits for no node"},
		{ledger.NodeAllocated{Allocation: waiting, Node: missing}, "is taken"},
		{ledger.NodeAllocated{Allocation: waiting, Node: givenNode}, "is taken"},
		{ledger.NodeAllocated{Allocation: waiting, Node: third}, "is taken"}, // something runs there
		{ledger.AllocationFailed{Allocation: newcomer}, "cannot fail"},
		{ledger.AllocationFailed{Allocation: given}, "cannot fail"},
		{ledger.NodeAllocationUpdated{Allocation: newcomer}, "no node allocation"},
		{ledger.NodeAllocationUpdated{Allocation: given, Name: "waiting"}, "used twice"},
		{ledger.NodeAllocationReleased{Allocation: newcomer}, "no node allocation"},

		{ledger.ChassisCreated{}, "cannot be created"},
		{ledger.ChassisCreated{Chassis: rack}, "cannot be created"},
		{ledger.ChassisDescribed{Chassis: missing}, "no chassis"},
		{ledger.ChassisDeleted{Chassis: missing}, "no chassis"},

		{ledger.ChassisImported{}, "cannot be imported"},
		{ledger.ChassisImported{ChassisCreated: ledger.ChassisCreated{Chassis: rack}}, "cannot be imported"},
		{ledger.ChassisImported{ChassisCreated: ledger.ChassisCreated{Chassis: missing}, CreatedAt: 2, UpdatedAt: 1}, "created at 2 and updated at 1"},
		{ledger.NodeImported{Node: missing}, "cannot be imported"},
		{ledger.NodeImported{Node: idle, ProvisionState: "enroll"}, "cannot be imported"},
		{ledger.NodeImported{Node: missing, ProvisionState: "enroll", CreatedAt: 1 << 62}, "in a record of"},
		{ledger.NodeImported{Node: missing, ProvisionState: "enroll", Traits: []string{"B", "A"}}, "not sorted"},
		{ledger.NodeImported{Node: missing, ProvisionState: "enroll", Description: named("idle")}, "used twice"},
		{importedFor(given, ledger.NodeAllocationError, ledger.NilUUID), "cannot be imported"},
		{importedFor(ledger.NilUUID, ledger.NodeAllocationError, ledger.NilUUID), "cannot be imported"},
		{importedFor(newcomer, "lost", ledger.NilUUID), `in the state "lost"`},
		{importedFor(newcomer, ledger.NodeAllocationActive, ledger.NilUUID), "has the node"},
		{importedFor(newcomer, ledger.NodeAllocating, idle), "has the node"},
		{importedFor(newcomer, ledger.NodeAllocationActive, missing), "is taken"},
		{importedFor(newcomer, ledger.NodeAllocationActive, givenNode), "is taken"},
		{importedFor(newcomer, ledger.NodeAllocationActive, third), "is taken"},
		{ledger.NodeAllocationImported{
			AllocationRequested: ledger.AllocationRequested{Allocation: newcomer}, State: ledger.NodeAllocationError,
			CreatedAt: 2, UpdatedAt: 1,
		}, "created at 2 and updated at 1"},
	}
}

func importedFor(allocation ledger.UUID, state ledger.NodeAllocationState, node ledger.UUID) ledger.Event {
	return ledger.NodeAllocationImported{
		AllocationRequested: ledger.AllocationRequested{Allocation: allocation}, State: state, Node: node,
	}
}

func importedWith(classes ...string) ledger.Event {
	ev := ledger.ProviderImported{Provider: missing, Name: "new"}
	for _, class := range classes {
		ev.Inventories = append(ev.Inventories, ledger.ImportedInventory{
			InventoryRecord: ledger.InventoryRecord{Class: class},
		})
	}
	return ev
}

// TestEventsThatDoNotFollow folds each of them after a valid event: the State
// returns the reason, and is unchanged.
func TestEventsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	before := refusingState(t)
	digest, err := before.Digest()
	ledgertest.OK(t, err)
	refused := make(map[string]bool)
	for _, row := range refusals() {
		kind := ledger.KindOf(row.event)
		refused[kind] = true
		s := before.Fork()
		_, err := s.Fold(&ledger.Commit{Sequence: s.Next(), Prev: s.Head().Digest, Records: []ledger.Record{
			{Time: s.LastTime(), Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_FIRST"}}},
			{Time: s.LastTime(), Events: []ledger.Event{row.event}},
		}})
		if !errors.Is(err, ledger.ErrInvariant) || !strings.Contains(err.Error(), row.why) ||
			!strings.Contains(err.Error(), kind) || !strings.Contains(err.Error(), "record 1") {
			t.Errorf("%s %+v: %v; want an error with %q", kind, row.event, err, row.why)
		}
		if after, err := s.Digest(); err != nil || after != digest {
			t.Errorf("%s %+v is refused, and changes the State: %v", kind, row.event, err)
		}
	}
	for _, kind := range ledger.EventKinds() {
		if !refused[kind] {
			t.Errorf("the table has no %s", kind)
		}
	}
}

// TestOncePerCommit: a consumer changes once at most in a commit, in whatever
// way, because its generation is the commit's sequence. Records' times do not go
// back.
func TestOncePerCommit(t *testing.T) {
	t.Parallel()
	change := ledger.AllocationsReplaced{Consumer: holder, Project: "p", User: "u", Allocations: []ledger.AllocationRecord{
		{Provider: parent, Class: "VCPU", Amount: 1},
	}}
	reserve := ledger.AllocationsReserved{AllocationsReplaced: change, Lifetime: 1}
	for _, second := range []ledger.Event{change, reserve, ledger.ConsumerRemoved{Consumer: holder}} {
		s := refusingState(t)
		undo := s.Begin()
		for i, event := range []ledger.Event{change, second} {
			err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime(), Events: []ledger.Event{event}})
			if (i == 1) != errors.Is(err, ledger.ErrInvariant) {
				t.Errorf("%s after a change in the same commit: %v", ledger.KindOf(second), err)
			}
		}
		s.Undo(undo, s.Changes())
		err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime() - 1, Events: []ledger.Event{second}})
		if !errors.Is(err, ledger.ErrInvariant) || !strings.Contains(err.Error(), "older than the record before") {
			t.Errorf("%s a nanosecond before the last record: %v", ledger.KindOf(second), err)
		}
	}
}

// TestNothingIsFromBeforeARoot: after a root of consumption no record is from before its moment, even if the root's
// own is, as the clock was set back meanwhile; and a root that is taken back binds nothing.
func TestNothingIsFromBeforeARoot(t *testing.T) {
	t.Parallel()
	s := ledger.NewState()
	root := &ledger.Record{Time: ledger.ConsumptionPeriod - 5, Events: []ledger.Event{ledgertest.ConsumptionRootSet()}}
	early := &ledger.Record{Time: ledger.ConsumptionPeriod - 1}
	undo := s.Begin()
	if err := s.Apply(1, root); err != nil || s.ConsumptionAt() != ledger.ConsumptionPeriod {
		t.Fatal(s.ConsumptionAt(), err)
	}
	if err := s.Apply(1, early); !errors.Is(err, ledger.ErrInvariant) {
		t.Errorf("a record from before the root: %v", err)
	}
	s.Undo(undo, s.Changes())
	s.Begin()
	if err := s.Apply(1, early); err != nil || s.ConsumptionAt() != 0 {
		t.Errorf("after the root was taken back: %v, a root of %d", err, s.ConsumptionAt())
	}
}

// projectUsages lists what a State says that projects hold.
func projectUsages(s *ledger.State) map[string][]any {
	usages := make(map[string][]any)
	s.ProjectUsages(func(u *ledger.ProjectUsage) bool {
		usages[u.Project] = []any{u.Amounts, u.Consumers}
		return true
	})
	return usages
}

// TestProjectUsageOfRefusedEvents: an event that is found impossible after a part
// of it was counted leaves no trace in what projects hold, for which no digest
// vouches: it follows from the rest, and is counted as events come.
func TestProjectUsageOfRefusedEvents(t *testing.T) {
	t.Parallel()
	s := refusingState(t)
	good := ledger.AllocationRecord{Provider: parent, Class: "VCPU", Amount: 1}
	for _, commit := range [][]ledger.Event{
		{ledger.LimitSet{Class: "VCPU", Most: 100}, ledger.ProjectPlaced{Project: "p", Parent: "q"}},
		{ledger.AllocationsReplaced{Consumer: missing, Project: "p", User: "u", Allocations: []ledger.AllocationRecord{good}}},
	} {
		ledgertest.OK(t, foldEvents(s, commit...))
	}
	before := projectUsages(s)
	if len(before) < 2 {
		t.Fatalf("only %v hold something", before)
	}
	for _, consumer := range []ledger.UUID{missing, newcomer} { // one that holds something, and a new one
		err := foldEvents(s, ledger.AllocationsReplaced{
			Consumer: consumer, Project: "p", User: "u",
			Allocations: []ledger.AllocationRecord{good, {Provider: other, Class: "VCPU", Amount: 2}}, // which has none
		})
		if !errors.Is(err, ledger.ErrInvariant) {
			t.Fatalf("got %v", err)
		}
		if after := projectUsages(s); !reflect.DeepEqual(after, before) {
			t.Errorf("projects hold %v, before: %v", after, before)
		}
	}
}

// foldEvents folds a commit of one record.
func foldEvents(s *ledger.State, events ...ledger.Event) error {
	_, err := s.Fold(&ledger.Commit{Sequence: s.Next(), Prev: s.Head().Digest, Records: []ledger.Record{
		{Time: s.LastTime(), Events: events},
	}})
	return err
}
