// Package ledgertest makes commits and States for tests.
package ledgertest

import (
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// ID returns a uuid that is the same every time.
func ID(kind, n byte) ledger.UUID {
	return ledger.UUID{0: kind, 6: 0x40, 8: 0x80, 15: n}
}

// Vocabulary returns a record that holds every kind of event at least once, in an
// order in which they can be folded.
func Vocabulary() []ledger.Event {
	provider, child, consumer := ID(1, 1), ID(1, 2), ID(2, 1)
	inventory := func(class string) ledger.InventoryRecord {
		return ledger.InventoryRecord{Class: class, Total: 100, Reserved: 1, MinUnit: 1, MaxUnit: 64, StepSize: 1, Ratio: 1.5}
	}
	return []ledger.Event{
		ledger.LedgerCreated{Ledger: ID(9, 9)},
		ledger.StandardNamesAdded{
			Classes: []ledger.StandardClass{{ID: 0, Name: "VCPU"}, {ID: 1, Name: "MEMORY_MB"}},
			Traits:  []string{"HW_CPU_X86_AVX"},
		},
		ledger.TraitCreated{Name: "CUSTOM_GOLD"},
		ledger.TraitCreated{Name: "CUSTOM_OLD"},
		ledger.TraitDeleted{Name: "CUSTOM_OLD"},
		ledger.ClassCreated{ID: 10000, Name: "CUSTOM_IRON"},
		ledger.ClassRenamed{ID: 10000, Name: "CUSTOM_STEEL"},
		ledger.ClassCreated{ID: 10001, Name: "CUSTOM_TIN"},
		ledger.ClassDeleted{ID: 10001, Name: "CUSTOM_TIN"},
		ledger.ProviderCreated{Provider: provider, Name: "node"},
		ledger.ProviderCreated{Provider: child, Name: "numa", Parent: provider},
		ledger.ProviderRenamed{Provider: provider, Name: "node ☃"},
		ledger.ProviderReparented{Provider: child},
		ledger.InventoriesReplaced{
			Provider: provider, Generation: 1,
			Inventories: []ledger.InventoryRecord{inventory("VCPU"), inventory("CUSTOM_STEEL")},
		},
		ledger.InventorySet{Provider: provider, Generation: 2, Inventory: inventory("MEMORY_MB")},
		ledger.InventoryDeleted{Provider: provider, Generation: 3, Class: "CUSTOM_STEEL"},
		ledger.ProviderTraitsReplaced{Provider: provider, Generation: 4, Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_AVX"}},
		ledger.ProviderAggregatesReplaced{Provider: provider, Generation: 5, Aggregates: []ledger.UUID{ID(3, 2), ID(3, 1)}},
		ledger.AllocationsReplaced{
			Consumer: consumer, Project: "p", User: "u", Type: "INSTANCE", Allocations: []ledger.AllocationRecord{
				{Provider: provider, Class: "VCPU", Amount: 2}, {Provider: provider, Class: "MEMORY_MB", Amount: 64},
			},
		},
		ledger.ProviderGenerationsAdvanced{Providers: []ledger.ProviderGeneration{{Provider: provider, Generation: 6}}},
		ledger.ProviderDeleted{Provider: child},
	}
}

// nodeVocabulary returns a record that holds every kind of event about nodes, in
// an order in which they can be folded.
func nodeVocabulary() []ledger.Event {
	node, second, active, failed := ID(5, 1), ID(5, 2), ID(6, 1), ID(6, 2)
	description := ledger.NodeDescription{
		Name: "n1", Driver: "ipmi", ResourceClass: "baremetal", Owner: "p1", Lessee: "p2", Protected: true,
		Properties: `{"cpus":4}`, Extra: `{"a":[1,{"b":null}]}`, DriverInfo: `{"ipmi_address":"10.0.0.1"}`,
		InstanceInfo: `{"image":"x"}`, Details: `{"description":"first"}`,
	}
	renamed := description
	renamed.Name = "n☃"
	return []ledger.Event{
		ledger.NodeProvidersSet{On: true},
		ledger.NodeCreated{Node: node, Description: description, ProvisionState: "enroll"},
		ledger.NodeCreated{Node: second, Description: ledger.NodeDescription{Driver: "fake"}, ProvisionState: "available"},
		ledger.NodeDescribed{Node: node, Description: renamed},
		ledger.NodeStateSet{
			Node: node, ProvisionState: "available", PowerState: "power off", Maintenance: true, MaintenanceReason: "fan",
		},
		ledger.NodeTraitsReplaced{Node: node, Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_AVX"}},
		ledger.NodeInstanceSet{Node: second, Instance: ID(7, 1)},
		ledger.NodeDeleted{Node: second},
		ledger.AllocationRequested{
			Allocation: active, Name: "a1", ResourceClass: "baremetal", Owner: "p1",
			Traits: []string{"CUSTOM_GOLD"}, CandidateNodes: []ledger.UUID{node}, Extra: `{"k":1.50}`,
		},
		ledger.NodeAllocated{
			Allocation: active, Node: node, InstanceInfo: `{"traits":["CUSTOM_GOLD"]}`, Seed: 1 << 63, Free: 3,
		},
		ledger.AllocationRequested{
			Allocation: failed, ResourceClass: "none", Traits: []string{"CUSTOM_X"}, CandidateNodes: []ledger.UUID{node},
		},
		ledger.AllocationFailed{
			Allocation: failed, LastError: "no node", Exclusions: []ledger.Exclusion{{Reason: "maintenance", Nodes: 2}},
		},
		ledger.NodeAllocationUpdated{Allocation: failed, Name: "a2", Extra: `{"k":2}`},
		ledger.NodeAllocationReleased{Allocation: failed},
	}
}

// Reservation returns an event of a reservation.
func Reservation() ledger.Event {
	held := ledger.AllocationsReplaced{
		Consumer: ID(2, 77), Project: "p", User: "u",
		Allocations: []ledger.AllocationRecord{{Provider: ID(1, 1), Class: "VCPU", Amount: 3}},
	}
	return ledger.AllocationsReserved{Lifetime: 60_000_000_000, Projects: []string{"q"}, AllocationsReplaced: held}
}

// Claim is an event of what a claim chose.
func Claim() ledger.Event {
	provider := ID(1, 1)
	of := func(amount int64) []ledger.AllocationRecord {
		return []ledger.AllocationRecord{{Provider: provider, Class: "VCPU", Amount: amount}}
	}
	mappings := []ledger.GroupMapping{{Providers: []ledger.UUID{provider}}, {Suffix: "_net", Providers: []ledger.UUID{}}}
	return ledger.AllocationsClaimed{
		AllocationsReplaced: ledger.AllocationsReplaced{
			Consumer: ID(2, 78), Project: "p", User: "u", Type: "INSTANCE", Allocations: of(3),
		},
		Asked: `{"groups":[{"resources":{"VCPU":3}}]}`, Mappings: mappings, Score: -0.25, Seed: 1 << 63, AsOf: 1, PassedOver: 2,
		Alternates: []ledger.Alternate{{Allocations: of(3), Mappings: mappings[:1], Score: -0.5}},
	}
}

// topology is an event of two racks in a block.
func topology() ledger.Event {
	block := ID(3, 1)
	return ledger.TopologySet{Topology: ledger.Topology{
		Name: "fabric", Levels: []string{"block", "rack"}, Members: []ledger.TopologyMember{
			{Aggregate: block, Name: "b1"}, {Aggregate: ID(3, 2), Level: 1, Name: "r1", Parent: block},
			{Aggregate: ID(3, 3), Level: 1, Name: "r2", Parent: block},
		},
	}}
}

// Commits returns a log of n commits: the vocabulary, then consumers that come,
// and one that goes.
func Commits(t testing.TB, n int) []*ledger.Commit {
	t.Helper()
	events := [][]ledger.Event{Vocabulary(), {ledger.ConsumerRemoved{Consumer: ID(2, 1)}}}
	for i := len(events); i < n; i++ {
		events = append(events, []ledger.Event{ledger.AllocationsReplaced{
			Consumer: ID(2, byte(i)), Project: "p", User: "u",
			Allocations: []ledger.AllocationRecord{{Provider: ID(1, 1), Class: "VCPU", Amount: 1}},
		}})
	}
	return chain(t, events[:n])
}

// orders are of consumers whose allocations are in no order but that of their events: not by
// provider or class, those of one provider not side by side, and the same amounts in another order.
func orders() [][]ledger.Event {
	low, high := ID(1, 1), ID(1, 9)
	inventories := []ledger.InventoryRecord{
		{Class: "VCPU", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, Ratio: 1},
		{Class: "MEMORY_MB", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, Ratio: 1},
	}
	of := func(provider ledger.UUID, class string, amount int64) ledger.AllocationRecord {
		return ledger.AllocationRecord{Provider: provider, Class: class, Amount: amount}
	}
	holds := func(n byte, allocations ...ledger.AllocationRecord) ledger.AllocationsReplaced {
		return ledger.AllocationsReplaced{Consumer: ID(2, n), Project: "p", User: "u", Allocations: allocations}
	}
	return [][]ledger.Event{
		Vocabulary(),
		{
			ledger.ProviderCreated{Provider: high, Name: "a"},
			ledger.InventoriesReplaced{Provider: high, Generation: 1, Inventories: inventories},
			holds(5, of(high, "MEMORY_MB", 2), of(high, "VCPU", 1), of(low, "VCPU", 1)),
			holds(4, of(high, "VCPU", 1), of(low, "MEMORY_MB", 1), of(high, "MEMORY_MB", 1)),
		},
		{holds(5, of(low, "VCPU", 1), of(high, "VCPU", 1), of(high, "MEMORY_MB", 2))},
		{ledger.AllocationsReserved{
			AllocationsReplaced: holds(3, of(low, "MEMORY_MB", 2), of(low, "VCPU", 2)), Lifetime: 60_000_000_000,
		}},
	}
}

// chassisVocabulary returns a record that holds every kind of event about
// chassis, in an order in which they can be folded.
func chassisVocabulary() []ledger.Event {
	rack, second := ID(8, 1), ID(8, 2)
	return []ledger.Event{
		ledger.ChassisCreated{Chassis: rack, Description: ledger.ChassisDescription{
			Description: "rack ☃", Extra: `{"row":[1,{"u":42}]}`,
		}},
		ledger.ChassisCreated{Chassis: second},
		ledger.ChassisDescribed{Chassis: rack, Description: ledger.ChassisDescription{Description: "rack 2"}},
		ledger.NodeCreated{Node: ID(5, 9), ProvisionState: "enroll", Description: ledger.NodeDescription{
			Driver: "fake", Details: ledger.Document(`{"chassis_uuid":"` + rack.String() + `"}`),
		}},
		ledger.ChassisDeleted{Chassis: second},
	}
}

// ConsumptionRootSet is a root of what three projects have consumed within the first hour of Unix time.
func ConsumptionRootSet() ledger.Event {
	return ledger.ConsumptionRootSet{ConsumptionRoot: ledger.ConsumptionRoot{
		At: ledger.ConsumptionPeriod, Projects: 3, Root: ledger.DigestOf([]byte("consumption")),
	}}
}

// EveryEvent returns every kind of event at least once, in an order in which they
// can be folded.
func EveryEvent() []ledger.Event {
	return slices.Concat(Vocabulary(), nodeVocabulary(), chassisVocabulary(), []ledger.Event{
		Reservation(), Claim(), ledger.ConsumerRemoved{Consumer: ID(2, 78)},
		ledger.LimitSet{Class: "VCPU", Most: 9}, ledger.LimitSet{Project: "p", Type: "INSTANCE", Most: 1},
		ledger.LimitRemoved{Class: "VCPU"}, ledger.ProjectPlaced{Project: "p", Parent: "domain"},
		ledger.PreferenceSet{Name: "a", Prefer: `{"order":"pack"}`}, ledger.PreferenceRemoved{Name: "a"},
		ledger.AggregateLimitSet{Aggregate: ID(3, 1), Class: "VCPU", Most: 9},
		ledger.AggregateLimitRemoved{Aggregate: ID(3, 1), Class: "VCPU"},
		topology(), ledger.TopologyRemoved{Name: "fabric"},
		ledger.ConsumerRemoved{Consumer: ID(2, 1)},
		ledger.ProviderCountersReplaced{Provider: ID(1, 1), Generation: 6, Counters: []ledger.Counter{{Name: "A", Total: 7}}},
		ledger.TermBegan{Term: ledger.Term{Number: 1, Leader: "a", Instance: ID(8, 1), Level: 1}},
	}, importVocabulary(), importedNodeVocabulary(), []ledger.Event{ConsumptionRootSet()})
}

// importVocabulary returns a record that holds every kind of event of an import,
// in an order in which they can be folded. They come from before any record.
func importVocabulary() []ledger.Event {
	top, below := ID(1, 41), ID(1, 42)
	return []ledger.Event{
		ledger.ContentsImported{
			Kind: "placement", Source: "mysql://db/placement", Schema: "a082b8bb98d0", ReadAt: -7, Rows: 9, LeftOut: 2,
			Rules: []ledger.ImportRule{{Name: "over-committed", Rows: 1}},
		},
		ledger.ProviderImported{
			Provider: top, Name: "imported ☃", Generation: 41, CreatedAt: -9, UpdatedAt: -8,
			Inventories: []ledger.ImportedInventory{{UpdatedAt: -8, InventoryRecord: ledger.InventoryRecord{
				Class: "VCPU", Total: 2, MinUnit: 1, MaxUnit: 1, StepSize: 1, Ratio: 1,
			}}},
			Traits: []string{"HW_CPU_X86_AVX"}, Aggregates: []ledger.UUID{ID(3, 2), ID(3, 1)}, Origin: "resource_providers.id=1",
		},
		ledger.ProviderImported{Provider: below, Name: "numa", Parent: top, CreatedAt: -8, UpdatedAt: -8, Origin: "x"},
		ledger.ConsumerImported{
			Counted: 3, CreatedAt: -6, UpdatedAt: -5, Origin: "consumers.id=7", AllocationsReplaced: ledger.AllocationsReplaced{
				Consumer: ID(2, 41), Project: "p", User: "u", Type: "INSTANCE",
				Allocations: []ledger.AllocationRecord{{Provider: top, Class: "VCPU", Amount: 3}}, // more than there is
			},
		},
	}
}

// importedNodeVocabulary returns a record that holds every kind of event about
// imported nodes, in an order in which they can be folded.
func importedNodeVocabulary() []ledger.Event {
	rack, taken, idle := ID(8, 11), ID(5, 41), ID(5, 42)
	return []ledger.Event{
		ledger.ContentsImported{Kind: "ironic", Source: "mysql://db/ironic", Schema: "163040c5513f", ReadAt: -7, Rows: 5},
		ledger.ChassisImported{
			ChassisCreated: ledger.ChassisCreated{Chassis: rack, Description: ledger.ChassisDescription{Description: "rack ☃", Extra: `{"row":1}`}},
			CreatedAt:      -9, UpdatedAt: -8, Origin: "chassis.id=1",
		},
		ledger.NodeImported{
			Node: taken, Description: ledger.NodeDescription{
				Name: "imported-1", Driver: "ipmi", ResourceClass: "baremetal", Owner: "o", Lessee: "l", Protected: true,
				Properties: `{"cpus":4}`, DriverInfo: `{"ipmi_password":"******"}`, InstanceInfo: `{"a":1}`, Extra: `{"x":[1]}`,
				Details: ledger.Document(`{"chassis_uuid":"` + rack.String() + `"}`),
			},
			ProvisionState: "active", PowerState: "power on", Maintenance: true, MaintenanceReason: "fan",
			Traits: []string{"CUSTOM_GOLD", "HW_CPU_X86_VMX"}, Instance: ID(6, 41), CreatedAt: -9, UpdatedAt: -8,
			ProvisionUpdatedAt: -8,
			Origin:             "nodes.id=1",
		},
		ledger.NodeImported{
			Node: idle, Description: ledger.NodeDescription{Driver: "ipmi", ResourceClass: "baremetal"},
			ProvisionState: "available",
			PowerState:     "power off", CreatedAt: -9, Origin: "nodes.id=2",
		},
		ledger.NodeAllocationImported{
			AllocationRequested: ledger.AllocationRequested{
				Allocation: ID(6, 41), Name: "a41", ResourceClass: "baremetal", Owner: "o", Traits: []string{"HW_CPU_X86_VMX"},
				CandidateNodes: []ledger.UUID{taken}, Extra: `{"k":"v"}`,
			},
			State: ledger.NodeAllocationActive, Node: taken, CreatedAt: -8, UpdatedAt: -7, Origin: "allocations.id=1",
		},
		ledger.NodeAllocationImported{
			AllocationRequested: ledger.AllocationRequested{Allocation: ID(6, 42), ResourceClass: "none"},
			State:               ledger.NodeAllocationError, LastError: "no node", CreatedAt: -8, Origin: "allocations.id=2",
		},
	}
}

// Fold returns the State after some commits.
func Fold(t testing.TB, commits []*ledger.Commit) *ledger.State {
	t.Helper()
	s := ledger.NewState()
	for _, c := range commits {
		_, err := s.Fold(c)
		OK(t, err)
	}
	return s
}

// State folds Commits.
func State(t testing.TB, n int) *ledger.State {
	t.Helper()
	return Fold(t, Commits(t, n))
}
