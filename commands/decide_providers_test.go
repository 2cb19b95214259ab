package commands_test

import (
	"math"
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// outdated is the answer to who thinks that the host is at its first generation.
const outdated = "provider_conflict{Provider:host Expected:6 Got:1}"

func providerConflict(id ledger.UUID, is, given int64) string {
	return rejected(demand.CodeProviderConflict, demand.Facts{Provider: &id, Expected: &is, Got: &given})
}

// providerDecisions are about providers and their trees.
func providerDecisions() []decision {
	tooLong := strings.Repeat("☃", ledger.MaxNameRunes+1)
	below := func(provider, parent ledger.UUID) *commands.ReparentProvider {
		return &commands.ReparentProvider{Provider: provider, Parent: parent}
	}
	update := func(name string, reparent *commands.ReparentProvider) *commands.UpdateProvider {
		return &commands.UpdateProvider{Rename: commands.RenameProvider{Provider: host, Name: name}, Reparent: reparent}
	}
	return []decision{
		{"a root", nil, &commands.CreateProvider{Provider: fresh, Name: tooLong[3:]},
			happens(ledger.ProviderCreated{Provider: fresh, Name: tooLong[3:]})},
		{"a child", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: host},
			"ProviderCreated{Provider:fresh Name:new Parent:host}"},
		{"name taken", nil, &commands.CreateProvider{Provider: fresh, Name: "host"}, "provider_exists{Name:host}"},
		{"uuid taken", nil, &commands.CreateProvider{Provider: host, Name: "new"}, "provider_exists{Provider:host}"},
		{"both taken", nil, &commands.CreateProvider{Provider: host, Name: "rack"},
			"provider_exists{Provider:host Name:rack}"},
		{"no such parent", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: gone},
			"parent_unknown{Provider:fresh Name:gone}"},
		{"its own parent", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: fresh},
			"parent_loop{Provider:fresh Name:fresh}"},
		{"no uuid", nil, &commands.CreateProvider{Name: "new"}, invalid("provider")},
		{"no name", nil, &commands.CreateProvider{Provider: fresh}, invalid("name")},
		{"name too long", nil, &commands.CreateProvider{Provider: fresh, Name: tooLong}, invalid("name")},
		{"name no text", nil, &commands.CreateProvider{Provider: fresh, Name: "\xff"}, invalid("name")},

		{"another name", nil, &commands.RenameProvider{Provider: host, Name: "new"},
			"ProviderRenamed{Provider:host Name:new}"},
		{"no name, as Placement's PUT", nil, &commands.RenameProvider{Provider: host}, "ProviderRenamed{Provider:host}"},
		{"its own name", nil, &commands.RenameProvider{Provider: host, Name: "host"}, nothing},
		{"name taken", nil, &commands.RenameProvider{Provider: host, Name: "rack"}, "provider_exists{Name:rack}"},
		{"name too long", nil, &commands.RenameProvider{Provider: host, Name: tooLong}, invalid("name")},

		{"a root gets a parent", nil, below(spare, rack), "ProviderReparented{Provider:spare Parent:rack}"},
		{"to another tree", nil, below(host, spare), "ProviderReparented{Provider:host Parent:spare}"},
		{"becomes a root", nil, below(host, ledger.NilUUID), "ProviderReparented{Provider:host}"},
		{"where it is", nil, below(host, rack), nothing},
		{"below itself", nil, below(rack, rack), "parent_loop{Provider:rack Name:rack}"},
		{"below its child", nil, below(rack, host), "parent_loop{Provider:rack Name:host}"},
		{"below none", nil, below(host, gone), "parent_unknown{Provider:host Name:gone}"},
		{"may not move", nil, &commands.ReparentProvider{Provider: host, Parent: spare, RefuseMove: true},
			"parent_fixed{Provider:host Name:rack}"},
		{"a root may always get one", nil, &commands.ReparentProvider{Provider: spare, Parent: rack, RefuseMove: true},
			"ProviderReparented{Provider:spare Parent:rack}"},

		{"name and parent", nil, update("new", below(host, spare)),
			"ProviderReparented{Provider:host Parent:spare}, ProviderRenamed{Provider:host Name:new}"},
		{"the parent stays", nil, update("new", nil), "ProviderRenamed{Provider:host Name:new}"},
		{"as it is", nil, update("host", below(host, rack)), nothing},
		{"two providers", nil, update("new", below(rack, spare)), invalid("reparent.provider")},
		{"neither if the parent is wrong", nil, update("new", below(host, gone)), "parent_unknown{Provider:host Name:gone}"},
		{"neither if the name is taken", nil, update("rack", below(host, spare)), "provider_exists{Name:rack}"},
		{"may not move", nil, update("host", &commands.ReparentProvider{Provider: host, RefuseMove: true}),
			"parent_fixed{Provider:host Name:rack}"},
		{"below itself", nil, update("host", below(host, host)), "parent_loop{Provider:host Name:host}"},

		{"without anything", nil, &commands.DeleteProvider{Provider: spare}, "ProviderDeleted{Provider:spare}"},
		{"with a child", nil, &commands.DeleteProvider{Provider: rack}, "provider_has_child{Provider:rack Name:host}"},
		{"in use", nil, &commands.DeleteProvider{Provider: host},
			"provider_in_use{Provider:host Classes:[VCPU CUSTOM_USED]}"},
	}
}

// record is an inventory with Placement's defaults.
func record(class string, total int64) ledger.InventoryRecord {
	return ledger.InventoryRecord{
		Class: class, Total: total, MinUnit: 1, MaxUnit: ledger.MaxAmount, StepSize: 1, Ratio: 1,
	}
}

// inventoryDecisions are about inventories. The host is at generation 5 in the
// world, and its two classes are in use.
func inventoryDecisions() []decision {
	const hostAt = 6
	all := func(provider ledger.UUID, list ...commands.Inventory) *commands.ReplaceInventories {
		return &commands.ReplaceInventories{Provider: provider, Inventories: list}
	}
	const inUse = "inventory_in_use{Provider:host Classes:[VCPU CUSTOM_USED]}"
	const lacks = "inventory_not_found{Provider:host Class:CUSTOM_FREE}"
	unknown := "class_unknown{Class:CUSTOM_NONE}"
	rows := []decision{
		{"what is used shrinks below that", nil,
			all(host, units(vcpu, 1), commands.Inventory{Class: used, Total: 1, Ratio: ptr(2.5)}),
			"InventoriesReplaced{Provider:host Generation:7 Inventories:[" +
				"{Class:VCPU Total:1 MinUnit:1 MaxUnit:2147483647 StepSize:1 Ratio:1} " +
				"{Class:CUSTOM_USED Total:1 MinUnit:1 MaxUnit:2147483647 StepSize:1 Ratio:2.5}]}"},
		{"none, to none", nil, all(spare), "InventoriesReplaced{Provider:spare Generation:1}"},
		{"a class in use left out", nil, all(host, units(used, 4)), "inventory_in_use{Provider:host Classes:[VCPU]}"},
		{"all left out", nil, all(host), inUse},
		{"no such class", nil, all(spare, units(none, 1)), unknown},
		{"a class twice", nil, all(spare, units(vcpu, 1), units(vcpu, 2)), invalid("inventories")},
		{"the right generation", nil, &commands.ReplaceInventories{Provider: spare, Generation: ptr[int64](0)},
			"InventoriesReplaced{Provider:spare Generation:1}"},
		{"an old generation", nil, &commands.ReplaceInventories{Provider: host, Generation: ptr[int64](1)}, outdated},

		{"a class", nil, &commands.CreateInventory{Provider: spare, Inventory: units(vcpu, 1)},
			happens(ledger.InventorySet{Provider: spare, Generation: 1, Inventory: record(vcpu, 1)})},
		{"a class that it has", nil, &commands.CreateInventory{Provider: host, Inventory: units(vcpu, 1)},
			"inventory_exists{Provider:host Class:VCPU}"},
		{"no such class", nil, &commands.CreateInventory{Provider: spare, Inventory: units(none, 1)}, unknown},

		{"more", nil, &commands.UpdateInventory{Provider: host, Generation: ptr[int64](hostAt), Inventory: units(used, 9)},
			happens(ledger.InventorySet{Provider: host, Generation: hostAt + 1, Inventory: record(used, 9)})},
		{"less than is used", nil, &commands.UpdateInventory{Provider: host, Inventory: units(vcpu, 1)},
			happens(ledger.InventorySet{Provider: host, Generation: hostAt + 1, Inventory: record(vcpu, 1)})},
		{"an old generation", nil,
			&commands.UpdateInventory{Provider: host, Generation: ptr[int64](1), Inventory: units(used, 9)}, outdated},
		{"a class that it lacks", nil, &commands.UpdateInventory{Provider: host, Inventory: units(free, 9)}, lacks},
		{"no such class", nil, &commands.UpdateInventory{Provider: host, Inventory: units(none, 9)}, unknown},

		{"free", steps{all(spare, units(vcpu, 1))}, &commands.DeleteInventory{Provider: spare, Class: vcpu},
			"InventoryDeleted{Provider:spare Generation:2 Class:VCPU}"},
		{"in use", nil, &commands.DeleteInventory{Provider: host, Class: vcpu},
			"inventory_in_use{Provider:host Classes:[VCPU] Used:4}"},
		{"a class that it lacks", nil, &commands.DeleteInventory{Provider: host, Class: free}, lacks},
		{"no such class", nil, &commands.DeleteInventory{Provider: host, Class: none},
			"inventory_not_found{Provider:host Class:CUSTOM_NONE}"},
		{"no class", nil, &commands.DeleteInventory{Provider: host}, invalid("class")},

		{"none, and the generation moves", nil, &commands.DeleteInventories{Provider: spare},
			"InventoriesReplaced{Provider:spare Generation:1}"},
		{"in use", nil, &commands.DeleteInventories{Provider: host}, inUse},
	}
	return append(rows, inventoryBounds()...)
}

// inventoryBounds holds for all commands that set an inventory.
func inventoryBounds() (rows []decision) {
	with := func(change func(*commands.Inventory)) commands.Inventory {
		inv := units(vcpu, 8)
		change(&inv)
		return inv
	}
	over := int64(ledger.MaxAmount + 1)
	wrong := map[string]commands.Inventory{
		"class":            with(func(inv *commands.Inventory) { inv.Class = "vcpu" }),
		"total":            with(func(inv *commands.Inventory) { inv.Total = 0 }),
		"reserved":         with(func(inv *commands.Inventory) { inv.Reserved = -1 }),
		"min_unit":         with(func(inv *commands.Inventory) { inv.MinUnit = ptr[int64](0) }),
		"max_unit":         with(func(inv *commands.Inventory) { inv.MaxUnit = &over }),
		"step_size":        with(func(inv *commands.Inventory) { inv.StepSize = ptr[int64](0) }),
		"allocation_ratio": with(func(inv *commands.Inventory) { inv.Ratio = ptr(math.Inf(1)) }),
	}
	for field, inv := range wrong {
		list := []commands.Inventory{inv}
		rows = append(rows,
			decision{field, nil, &commands.CreateInventory{Provider: spare, Inventory: inv}, invalid(field)},
			decision{field, nil, &commands.UpdateInventory{Provider: host, Inventory: inv}, invalid(field)},
			decision{field, nil, &commands.ReplaceInventories{Provider: spare, Inventories: list}, invalid(field)},
			decision{field, nil, reshape(nil, commands.ProviderInventories{
				Provider: spare, Generation: new(int64), Inventories: list,
			}), invalid(field)},
		)
	}
	for about, c := range map[string]struct {
		reserved int64
		ratio    float64
		refuse   bool
		ok       bool
	}{
		"all is reserved": {8, 1, false, true}, "all is reserved, refused": {8, 1, true, false},
		"more is reserved":      {9, 1, false, false},
		"a ratio without units": {0, 0.01, false, true}, "a ratio without units, refuse": {0, 0.01, true, false},
	} {
		inv := commands.Inventory{Class: vcpu, Total: 8, Reserved: c.reserved, Ratio: &c.ratio}
		record := record(vcpu, 8)
		record.Reserved, record.Ratio = c.reserved, c.ratio
		created := happens(ledger.InventorySet{Provider: spare, Generation: 1, Inventory: record})
		updated := happens(ledger.InventorySet{Provider: spare, Generation: 2, Inventory: record})
		replaced := happens(ledger.InventoriesReplaced{
			Provider: spare, Generation: 1, Inventories: []ledger.InventoryRecord{record},
		})
		if !c.ok {
			created = rejected(demand.CodeInventoryCapacity, demand.Facts{
				Provider: &spare, Class: vcpu, Total: 8, Reserved: c.reserved, Ratio: c.ratio,
			})
			updated, replaced = created, created
		}
		rows = append(rows,
			decision{about, nil, &commands.CreateInventory{Provider: spare, Inventory: inv, RefuseFullyReserved: c.refuse},
				created},
			decision{about, steps{&commands.CreateInventory{Provider: spare, Inventory: units(vcpu, 1)}},
				&commands.UpdateInventory{Provider: spare, Inventory: inv, RefuseFullyReserved: c.refuse}, updated},
			decision{about, nil, &commands.ReplaceInventories{
				Provider: spare, Inventories: []commands.Inventory{inv}, RefuseFullyReserved: c.refuse,
			}, replaced},
		)
	}
	return rows
}

// traitDecisions are about the traits and aggregates of providers.
func traitDecisions() []decision {
	const hostAt = 6
	traits := func(provider ledger.UUID, names ...string) *commands.ReplaceProviderTraits {
		return &commands.ReplaceProviderTraits{Provider: provider, Traits: names}
	}
	aggregates := func(provider ledger.UUID, ids ...ledger.UUID) *commands.ReplaceProviderAggregates {
		return &commands.ReplaceProviderAggregates{Provider: provider, Aggregates: ids}
	}
	kept := func(c *commands.ReplaceProviderAggregates) *commands.ReplaceProviderAggregates {
		c.KeepGeneration = true
		return c
	}
	many := make([]ledger.UUID, 4097)
	for i := range many {
		many[i] = ledger.UUID{0: 3, 14: byte(i >> 8), 15: byte(i)}
	}
	return []decision{
		{"sorted, each once", nil, traits(host, used, free, used),
			"ProviderTraitsReplaced{Provider:host Generation:7 Traits:[CUSTOM_FREE CUSTOM_USED]}"},
		{"none any more", nil, traits(host), "ProviderTraitsReplaced{Provider:host Generation:7}"},
		{"as they are", nil, traits(host, used, used), nothing},
		{"no such traits", nil, traits(host, used, none, "CUSTOM_ALSO"), "trait_unknown{Names:[CUSTOM_ALSO CUSTOM_NONE]}"},
		{"an old generation", nil, &commands.ReplaceProviderTraits{Provider: host, Generation: ptr[int64](1)}, outdated},
		{"no name", nil, traits(host, ""), invalid("traits")},
		{"a name too long", nil, traits(host, strings.Repeat("X", ledger.MaxSymbolBytes+1)), invalid("traits")},

		{"in the order given", nil, aggregates(host, aggregate2, aggregate),
			"ProviderAggregatesReplaced{Provider:host Generation:7 Aggregates:[aggregate2 aggregate]}"},
		{"as they are, and the generation moves", nil, aggregates(host, aggregate),
			"ProviderAggregatesReplaced{Provider:host Generation:7 Aggregates:[aggregate]}"},
		{"the generation stays", nil, kept(aggregates(host)), "ProviderAggregatesReplaced{Provider:host Generation:6}"},
		{"nothing changes", nil, kept(aggregates(host, aggregate)), nothing},
		{"an old generation", nil, &commands.ReplaceProviderAggregates{Provider: host, Generation: ptr[int64](1)}, outdated},
		{"one twice", nil, aggregates(host, aggregate, aggregate), invalid("aggregates")},
		{"as many as there may be", nil, aggregates(host, many[1:]...),
			happens(ledger.ProviderAggregatesReplaced{Provider: host, Generation: hostAt + 1, Aggregates: many[1:]})},
		{"too many", nil, aggregates(host, many...), invalid("aggregates")},
	}
}
