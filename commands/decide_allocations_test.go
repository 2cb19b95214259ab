package commands_test

import (
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func replaced(a commands.ConsumerAllocations) ledger.AllocationsReplaced {
	event := ledger.AllocationsReplaced{Consumer: a.Consumer, Project: a.Project, User: a.User}
	if a.Type != nil {
		event.Type = *a.Type
	}
	for _, r := range a.Resources {
		event.Allocations = append(event.Allocations, ledger.AllocationRecord(r))
	}
	return event
}

func removed(consumer ledger.UUID) ledger.ConsumerRemoved {
	return ledger.ConsumerRemoved{Consumer: consumer}
}

// heldUntil is a reservation that ends as before.
func heldUntil(a commands.ConsumerAllocations) ledger.AllocationsReserved {
	return ledger.AllocationsReserved{AllocationsReplaced: replaced(a), Until: 60e9}
}

// heldFor is a new reservation.
func heldFor(nanoseconds int64, a commands.ConsumerAllocations, projects ...string) ledger.AllocationsReserved {
	return ledger.AllocationsReserved{AllocationsReplaced: replaced(a), Lifetime: nanoseconds, Projects: projects}
}

func advanced(provider ledger.UUID, generation int64) ledger.ProviderGenerationsAdvanced {
	return ledger.ProviderGenerationsAdvanced{
		Providers: []ledger.ProviderGeneration{{Provider: provider, Generation: generation}},
	}
}

func consumerConflict(id ledger.UUID, is, given *uint64) string {
	signed := func(n *uint64) *int64 {
		if n == nil {
			return nil
		}
		return ptr(int64(*n))
	}
	return rejected(demand.CodeConsumerConflict, demand.Facts{Consumer: &id, Expected: signed(is), Got: signed(given)})
}

// known returns the new allocations of a consumer that exists.
func (w *world) known(a commands.ConsumerAllocations) commands.ConsumerAllocations {
	w.t.Helper()
	a.Generation = ptr(w.generation(a.Consumer))
	return a
}

// allocationDecisions are about what consumers hold.
func allocationDecisions(w *world) []decision {
	one := allocate(fresh, host, vcpu, 2)
	typed := w.known(allocate(holder, host, vcpu, 2))
	typed.Type = ptr("INSTANCE")
	untyped := allocate(holder, host, vcpu, 4)
	untyped.AnyGeneration = true
	nothingLeft := w.known(allocate(holder, host, vcpu, 2))
	nothingLeft.Resources = nil
	neverHeld := one
	neverHeld.Resources = nil
	othersLeave := w.known(commands.ConsumerAllocations{Consumer: others, Project: "q", User: "u"})
	later := w.known(allocate(reserved, host, vcpu, 4))
	shrunk := &commands.UpdateInventory{Provider: host, Inventory: units(vcpu, 2)}
	typedEvent := replaced(untyped)
	typedEvent.Type = "INSTANCE"
	rows := []decision{
		{"a new consumer", nil, allocations(one), happens(replaced(one), advanced(host, 7))},
		{"more than before", nil, allocations(w.known(allocate(holder, host, vcpu, 4))),
			happens(replaced(allocate(holder, host, vcpu, 4)), advanced(host, 7))},
		{"a type that was given before stays", steps{allocations(typed)}, allocations(untyped),
			happens(typedEvent, advanced(host, 8))},
		{"nothing any more", nil, allocations(nothingLeft), happens(removed(holder), advanced(host, 7))},
		{"nothing, and it held nothing", nil, allocations(neverHeld), nothing},
		{"what one leaves the other takes", nil, allocations(allocate(fresh, host, used, 4), othersLeave),
			happens(replaced(allocate(fresh, host, used, 4)), removed(others), advanced(host, 7))},
		{"a reservation ends when it was to end", nil, allocations(later), happens(heldUntil(later), advanced(host, 7))},
		{"over capacity already, and no worse", steps{shrunk}, allocations(w.known(allocate(holder, host, vcpu, 2))),
			happens(replaced(allocate(holder, host, vcpu, 2)), advanced(host, 8))},
		{"over capacity already, and worse", steps{shrunk}, allocations(w.known(allocate(holder, host, vcpu, 4))),
			"capacity_exceeded{Provider:host Consumer:holder Class:VCPU Total:2 Ratio:1 Used:2 Asked:4}"},
		{"no consumer", nil, allocations(), invalid("allocations")},

		{"at its generation", nil, &commands.ReleaseConsumer{Consumer: holder, Generation: ptr(w.generation(holder))},
			"ConsumerRemoved{Consumer:holder}"},
		{"at any generation", nil, &commands.ReleaseConsumer{Consumer: reserved}, "ConsumerRemoved{Consumer:reserved}"},
		{"at another generation", nil, &commands.ReleaseConsumer{Consumer: holder, Generation: ptr[uint64](1)},
			consumerConflict(holder, ptr(w.generation(holder)), ptr[uint64](1))},
	}
	rows = append(rows, manyProviders()...)
	return append(rows, allocationBounds(w, func(list ...commands.ConsumerAllocations) commands.Command {
		return allocations(list...)
	})...)
}

// manyProviders allocates from more providers than a scan handles.
func manyProviders() []decision {
	const n = 40
	var before []commands.Command
	all := commands.ConsumerAllocations{Consumer: fresh, Project: "p", User: "u"}
	var moved ledger.ProviderGenerationsAdvanced
	for i := range n {
		id := ledgertest.ID(10, byte(i+1))
		before = append(before,
			&commands.CreateProvider{Provider: id, Name: "many-" + id.String()},
			&commands.CreateInventory{Provider: id, Inventory: units(vcpu, 2)},
		)
		all.Resources = append(all.Resources, commands.ProviderAllocation{Provider: id, Class: vcpu, Amount: 1})
		moved.Providers = append(moved.Providers, ledger.ProviderGeneration{Provider: id, Generation: 2})
	}
	second, third := all, all
	second.Consumer, third.Consumer = ledgertest.ID(2, 100), ledgertest.ID(2, 101)
	third.Resources = all.Resources[n-1:]
	last := all.Resources[n-1].Provider
	return []decision{
		{"of many providers", before, allocations(all, second), happens(replaced(all), replaced(second), moved)},
		{"too much of the last of many providers", before, allocations(all, second, third),
			rejected(demand.CodeCapacityExceeded, demand.Facts{
				Provider: &last, Consumer: &third.Consumer, Class: vcpu, Asked: 1, Total: 2, Used: 2, Ratio: 1,
			})},
	}
}

// allocationBounds holds for all commands that set what consumers hold; command
// makes one.
func allocationBounds(w *world, command func(...commands.ConsumerAllocations) commands.Command) (rows []decision) {
	row := func(about string, want string, list ...commands.ConsumerAllocations) {
		rows = append(rows, decision{about, nil, command(list...), want})
	}
	with := func(change func(*commands.ConsumerAllocations)) commands.ConsumerAllocations {
		a := allocate(fresh, host, vcpu, 2)
		change(&a)
		return a
	}
	of := func(class string, amount int64) demand.Facts {
		return demand.Facts{Provider: &host, Consumer: &fresh, Class: class, Asked: amount}
	}
	row("no such provider", "provider_unknown{Provider:gone Consumer:fresh}", allocate(fresh, gone, vcpu, 2))
	row("no such class", "class_unknown{Consumer:fresh Class:CUSTOM_NONE}", allocate(fresh, host, none, 2))
	row("a class that the provider lacks", rejected(demand.CodeNoInventory, of(free, 2)), allocate(fresh, host, free, 2))
	for about, amount := range map[string]int64{
		"below min_unit": 1, "above max_unit": 6, "between the steps": 3,
	} {
		facts := of(vcpu, amount)
		facts.MinUnit, facts.MaxUnit, facts.StepSize = 2, 4, 2
		row(about, rejected(demand.CodeUnitConstraint, facts), allocate(fresh, host, vcpu, amount))
	}
	full := of(used, 4)
	full.Total, full.Ratio, full.Used = 4, 1, 1
	row("more than there is", rejected(demand.CodeCapacityExceeded, full), allocate(fresh, host, used, 4))
	second := ledgertest.ID(2, 100)
	full.Consumer, full.Asked, full.Used = &second, 2, 3
	row("together more than there is", rejected(demand.CodeCapacityExceeded, full),
		allocate(fresh, host, used, 2), allocate(second, host, used, 2))

	is, wrong := w.generation(reserved), uint64(999)
	stale, early := allocate(reserved, host, vcpu, 2), allocate(fresh, host, vcpu, 2)
	row("thinks it is the first", consumerConflict(reserved, &is, nil), stale)
	stale.Generation, early.Generation = &wrong, &wrong
	row("at another generation", consumerConflict(reserved, &is, &wrong), stale)
	row("thinks it is not the first", consumerConflict(fresh, nil, &wrong), early)

	long := strings.Repeat("é", ledger.MaxOwnerRunes+1)
	row("a consumer twice", invalid("allocations"), allocate(fresh, host, vcpu, 2), allocate(fresh, host, used, 1))
	row("no uuid", invalid("consumer"), with(func(a *commands.ConsumerAllocations) { a.Consumer = ledger.NilUUID }))
	row("no project", invalid("project"), with(func(a *commands.ConsumerAllocations) { a.Project = "" }))
	row("project too long", invalid("project"), with(func(a *commands.ConsumerAllocations) { a.Project = long }))
	row("no user", invalid("user"), with(func(a *commands.ConsumerAllocations) { a.User = "" }))
	row("user no text", invalid("user"), with(func(a *commands.ConsumerAllocations) { a.User = "\xff" }))
	row("type no symbol", invalid("type"), with(func(a *commands.ConsumerAllocations) { a.Type = ptr("instance") }))
	row("no type", invalid("type"), with(func(a *commands.ConsumerAllocations) { a.Type = ptr("") }))
	row("any generation, and one", invalid("any_generation"), with(func(a *commands.ConsumerAllocations) {
		a.AnyGeneration, a.Generation = true, &wrong
	}))
	row("no provider", invalid("provider"), allocate(fresh, ledger.NilUUID, vcpu, 2))
	row("amount 0", invalid("amount"), allocate(fresh, host, vcpu, 0))
	row("amount too large", invalid("amount"), allocate(fresh, host, vcpu, ledger.MaxAmount+1))
	row("a class twice", invalid("resources"), with(func(a *commands.ConsumerAllocations) {
		a.Resources = append(a.Resources, a.Resources[0])
	}))
	return rows
}

// reservationDecisions are about allocations in two phases. The reservations of
// the world end 60 seconds after the zero time.
func reservationDecisions(w *world) []decision {
	one, again := allocate(fresh, host, vcpu, 2), w.known(allocate(reserved, host, vcpu, 4))
	empty := one
	empty.Resources = nil
	notReserved := func(id ledger.UUID) string {
		return rejected(demand.CodeNotReserved, demand.Facts{Consumer: &id})
	}
	ends := "ConsumerRemoved{Consumer:reserved}"
	reserveFor := func(projects ...string) *commands.Reserve {
		c := reserve(9, one)
		c.Projects = projects
		return c
	}
	rows := []decision{
		{"a new consumer", nil, reserve(0.5, one), happens(heldFor(5e8, one), advanced(host, 7))},
		{"anew", nil, reserve(commands.MaxReservationSeconds, again),
			happens(heldFor(commands.MaxReservationSeconds*1e9, again), advanced(host, 7))},
		{"what is held for good", nil, reserve(9, w.known(allocate(holder, host, vcpu, 2))), notReserved(holder)},
		{"for projects", nil, reserveFor("q", "r"), happens(
			ledger.AllocationsReserved{AllocationsReplaced: replaced(one), Lifetime: 9e9, Projects: []string{"q", "r"}},
			advanced(host, 7),
		)},
		{"for a project twice", nil, reserveFor("q", "q"), invalid("projects")},
		{"for no project", nil, reserveFor(""), invalid("projects")},
		{"for too many projects", nil, reserveFor(make([]string, commands.MaxReservationProjects+1)...), invalid("projects")},
		{"no time", nil, reserve(0, one), invalid("seconds")},
		{"time that is over", nil, reserve(-1, one), invalid("seconds")},
		{"too much time", nil, reserve(commands.MaxReservationSeconds+1, one), invalid("seconds")},
		{"less than a nanosecond", nil, reserve(1e-10, one), invalid("seconds")},
		{"nothing", nil, reserve(9, empty), invalid("resources")},
		{"no consumer", nil, reserve(9), invalid("allocations")},

		{"in time", nil, &commands.ConfirmReservation{Consumer: reserved},
			happens(replaced(allocate(reserved, host, vcpu, 2)))},
		{"held for good", nil, &commands.ConfirmReservation{Consumer: holder}, notReserved(holder)},

		{"in time", nil, &commands.CancelReservation{Consumer: reserved}, ends},
		{"held for good", nil, &commands.CancelReservation{Consumer: holder}, notReserved(holder)},

		{"at its end", nil, &commands.ExpireReservation{Consumer: reserved, Now: 60e9}, ends},
		{"before its end", nil, &commands.ExpireReservation{Consumer: reserved, Now: 60e9 - 1}, nothing},
		{"held for good", nil, &commands.ExpireReservation{Consumer: holder, Now: 60e9}, nothing},
		{"holds nothing", nil, &commands.ExpireReservation{Consumer: fresh, Now: 60e9}, nothing},
		{"no uuid", nil, &commands.ExpireReservation{Now: 60e9}, invalid("consumer")},
	}
	return append(rows, allocationBounds(w, func(list ...commands.ConsumerAllocations) commands.Command {
		return reserve(60, list...)
	})...)
}

func reshape(list []commands.ConsumerAllocations, inventories ...commands.ProviderInventories) *commands.Reshape {
	return &commands.Reshape{Inventories: inventories, Allocations: list}
}

// reshapeDecisions move inventories together with their allocations.
func reshapeDecisions(w *world) []decision {
	at := func(provider ledger.UUID, generation int64, list ...commands.Inventory) commands.ProviderInventories {
		return commands.ProviderInventories{Provider: provider, Generation: &generation, Inventories: list}
	}
	four := units(used, 4)
	eight := units(vcpu, 8)
	before := ledger.InventoryRecord{Class: vcpu, Total: 8, MinUnit: 2, MaxUnit: 4, StepSize: 2, Ratio: 1}
	move := []commands.ConsumerAllocations{
		w.known(allocate(holder, spare, vcpu, 2)), w.known(allocate(reserved, spare, vcpu, 2)),
	}
	inventories := func(provider ledger.UUID, generation int64, list ...ledger.InventoryRecord) ledger.Event {
		return ledger.InventoriesReplaced{Provider: provider, Generation: generation, Inventories: list}
	}
	rows := []decision{
		{"a class moves with what is allocated of it", nil, reshape(move, at(host, 6, four), at(spare, 0, eight)), happens(
			inventories(host, 7, before, record(used, 4)), inventories(spare, 1, record(vcpu, 8)),
			replaced(move[0]), heldUntil(move[1]), advanced(spare, 2),
			inventories(host, 8, record(used, 4)), inventories(spare, 3, record(vcpu, 8)))},
		{"a class moves, and one consumer stays", nil, reshape(move[:1], at(host, 6, four), at(spare, 0, eight)),
			"inventory_in_use{Provider:host Classes:[VCPU]}"},
		{"to nothing", nil, reshape(nil, at(spare, 0)), happens(inventories(spare, 1))},
		{"a class changes under what is allocated of it", nil, reshape(nil, at(host, 6, four, eight)), happens(
			inventories(host, 7, record(vcpu, 8), record(used, 4)), inventories(host, 8, record(used, 4), record(vcpu, 8)))},
		{"not there", nil, reshape(nil, at(gone, 0)), "provider_not_found{Provider:gone}"},
		{"an old generation", nil, reshape(nil, at(host, 1)), providerConflict(host, 6, 1)},
		{"no such class of inventory", nil, reshape(nil, at(spare, 0, units(none, 1))), "class_unknown{Class:CUSTOM_NONE}"},
		{"no inventories", nil, reshape(move), invalid("inventories")},
		{"no generation", nil, reshape(nil, commands.ProviderInventories{Provider: spare}), invalid("generation")},
		{"no provider's uuid", nil, reshape(nil, at(ledger.NilUUID, 0)), invalid("provider")},
		{"a provider twice", nil, reshape(nil, at(spare, 0), at(spare, 0)), invalid("inventories")},
		{"a class of inventory twice", nil, reshape(nil, at(spare, 0, eight, eight)), invalid("inventories")},
	}
	return append(rows, allocationBounds(w, func(list ...commands.ConsumerAllocations) commands.Command {
		return reshape(list, at(spare, 0))
	})...)
}

// lossDecisions remove providers with their descendants.
func lossDecisions(w *world) []decision {
	elsewhere := w.known(allocate(holder, host, vcpu, 2))
	elsewhere.Type = ptr("INSTANCE")
	elsewhere.Resources = append(elsewhere.Resources, commands.ProviderAllocation{Provider: spare, Class: vcpu, Amount: 1})
	while := w.known(allocate(reserved, host, vcpu, 2))
	while.Resources = append(while.Resources, commands.ProviderAllocation{Provider: spare, Class: vcpu, Amount: 1})
	kept, reservedStill := replaced(elsewhere), heldUntil(while)
	kept.Allocations, reservedStill.Allocations = kept.Allocations[1:], reservedStill.Allocations[1:]
	stock := &commands.CreateInventory{Provider: spare, Inventory: units(vcpu, 8)}
	return []decision{
		{"a tree", nil, &commands.RemoveProvider{Provider: rack}, happens(
			removed(holder), removed(reserved), removed(others),
			ledger.ProviderDeleted{Provider: host}, ledger.ProviderDeleted{Provider: rack})},
		{"consumers keep what they hold elsewhere, and for as long", steps{stock, allocations(elsewhere, while)},
			&commands.RemoveProvider{Provider: host}, happens(
				kept, reservedStill, removed(others), ledger.ProviderDeleted{Provider: host})},
		{"a node, with its allocation", steps{nodeProviders(true)}, &commands.RemoveProvider{Provider: busyNode}, happens(
			removed(deployed), ledger.NodeAllocationReleased{Allocation: deployed},
			ledger.NodeDeleted{Node: busyNode}, ledger.ProviderDeleted{Provider: busyNode})},
		{"not there", nil, &commands.RemoveProvider{Provider: gone}, "provider_not_found{Provider:gone}"},
		{"no uuid", nil, &commands.RemoveProvider{}, invalid("provider")},
	}
}
