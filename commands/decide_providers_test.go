package commands_test

import (
	"math"
	"strings"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func noProvider(id ledger.UUID) outcome {
	return rejected(demand.CodeProviderNotFound, demand.Facts{Provider: &id})
}

func providerConflict(id ledger.UUID, is, given int64) outcome {
	return rejected(demand.CodeProviderConflict, demand.Facts{Provider: &id, Expected: &is, Got: &given})
}

// providerDecisions are about providers and their trees.
func providerDecisions() []decision {
	tooLong := strings.Repeat("☃", ledger.MaxNameRunes+1)
	below := func(provider, parent ledger.UUID) *commands.ReparentProvider {
		return &commands.ReparentProvider{Provider: provider, Parent: parent}
	}
	return []decision{
		{
			"a root", nil, &commands.CreateProvider{Provider: fresh, Name: tooLong[3:]},
			happens(ledger.ProviderCreated{Provider: fresh, Name: tooLong[3:]}),
		},
		{
			"a child", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: host},
			happens(ledger.ProviderCreated{Provider: fresh, Name: "new", Parent: host}),
		},
		{
			"name taken", nil, &commands.CreateProvider{Provider: fresh, Name: "host"},
			rejected(demand.CodeProviderExists, demand.Facts{Name: "host"}),
		},
		{
			"uuid taken", nil, &commands.CreateProvider{Provider: host, Name: "new"},
			rejected(demand.CodeProviderExists, demand.Facts{Provider: &host}),
		},
		{
			"both taken", nil, &commands.CreateProvider{Provider: host, Name: "rack"},
			rejected(demand.CodeProviderExists, demand.Facts{Provider: &host, Name: "rack"}),
		},
		{
			"no such parent", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: gone},
			rejected(demand.CodeParentUnknown, demand.Facts{Provider: &fresh, Name: gone.String()}),
		},
		{
			"its own parent", nil, &commands.CreateProvider{Provider: fresh, Name: "new", Parent: fresh},
			rejected(demand.CodeParentLoop, demand.Facts{Provider: &fresh, Name: fresh.String()}),
		},
		{"no uuid", nil, &commands.CreateProvider{Name: "new"}, invalid("provider")},
		{"no name", nil, &commands.CreateProvider{Provider: fresh}, invalid("name")},
		{"name too long", nil, &commands.CreateProvider{Provider: fresh, Name: tooLong}, invalid("name")},
		{"name no text", nil, &commands.CreateProvider{Provider: fresh, Name: "\xff"}, invalid("name")},

		{
			"another name", nil, &commands.RenameProvider{Provider: host, Name: "new"},
			happens(ledger.ProviderRenamed{Provider: host, Name: "new"}),
		},
		{
			"no name, as Placement's PUT", nil, &commands.RenameProvider{Provider: host},
			happens(ledger.ProviderRenamed{Provider: host}),
		},
		{"its own name", nil, &commands.RenameProvider{Provider: host, Name: "host"}, nothing},
		{
			"name taken", nil, &commands.RenameProvider{Provider: host, Name: "rack"},
			rejected(demand.CodeProviderExists, demand.Facts{Name: "rack"}),
		},
		{"name too long", nil, &commands.RenameProvider{Provider: host, Name: tooLong}, invalid("name")},

		{"a root gets a parent", nil, below(spare, rack), happens(ledger.ProviderReparented{Provider: spare, Parent: rack})},
		{"to another tree", nil, below(host, spare), happens(ledger.ProviderReparented{Provider: host, Parent: spare})},
		{"becomes a root", nil, below(host, ledger.NilUUID), happens(ledger.ProviderReparented{Provider: host})},
		{"where it is", nil, below(host, rack), nothing},
		{
			"below itself", nil, below(rack, rack),
			rejected(demand.CodeParentLoop, demand.Facts{Provider: &rack, Name: rack.String()}),
		},
		{
			"below its child", nil, below(rack, host),
			rejected(demand.CodeParentLoop, demand.Facts{Provider: &rack, Name: host.String()}),
		},
		{
			"below none", nil, below(host, gone),
			rejected(demand.CodeParentUnknown, demand.Facts{Provider: &host, Name: gone.String()}),
		},
		{
			"may not move", nil, &commands.ReparentProvider{Provider: host, Parent: spare, RefuseMove: true},
			rejected(demand.CodeParentFixed, demand.Facts{Provider: &host, Name: rack.String()}),
		},
		{
			"a root may always get one", nil,
			&commands.ReparentProvider{Provider: spare, Parent: rack, RefuseMove: true},
			happens(ledger.ProviderReparented{Provider: spare, Parent: rack}),
		},

		{
			"name and parent", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "new"}, Reparent: below(host, spare),
			},
			happens(
				ledger.ProviderReparented{Provider: host, Parent: spare}, ledger.ProviderRenamed{Provider: host, Name: "new"},
			),
		},
		{
			"the parent stays", nil, &commands.UpdateProvider{Rename: commands.RenameProvider{Provider: host, Name: "new"}},
			happens(ledger.ProviderRenamed{Provider: host, Name: "new"}),
		},
		{
			"as it is", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "host"}, Reparent: below(host, rack),
			},
			nothing,
		},
		{
			"two providers", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "new"}, Reparent: below(rack, spare),
			},
			invalid("reparent.provider"),
		},
		{
			"neither if the parent is wrong", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "new"}, Reparent: below(host, gone),
			},
			rejected(demand.CodeParentUnknown, demand.Facts{Provider: &host, Name: gone.String()}),
		},
		{
			"neither if the name is taken", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "rack"}, Reparent: below(host, spare),
			},
			rejected(demand.CodeProviderExists, demand.Facts{Name: "rack"}),
		},
		{
			"may not move", nil, &commands.UpdateProvider{
				Rename:   commands.RenameProvider{Provider: host, Name: "host"},
				Reparent: &commands.ReparentProvider{Provider: host, RefuseMove: true},
			},
			rejected(demand.CodeParentFixed, demand.Facts{Provider: &host, Name: rack.String()}),
		},
		{
			"below itself", nil, &commands.UpdateProvider{
				Rename: commands.RenameProvider{Provider: host, Name: "host"}, Reparent: below(host, host),
			},
			rejected(demand.CodeParentLoop, demand.Facts{Provider: &host, Name: host.String()}),
		},

		{"without anything", nil, &commands.DeleteProvider{Provider: spare}, happens(ledger.ProviderDeleted{Provider: spare})},
		{
			"with a child", nil, &commands.DeleteProvider{Provider: rack},
			rejected(demand.CodeProviderHasChild, demand.Facts{Provider: &rack, Name: host.String()}),
		},
		{
			"in use", nil, &commands.DeleteProvider{Provider: host},
			rejected(demand.CodeProviderInUse, demand.Facts{Provider: &host, Classes: []string{vcpu, used}}),
		},
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
	inUse := func(classes ...string) outcome {
		return rejected(demand.CodeInventoryInUse, demand.Facts{Provider: &host, Classes: classes})
	}
	notThere := func(provider ledger.UUID, class string) outcome {
		return rejected(demand.CodeInventoryNotFound, demand.Facts{Provider: &provider, Class: class})
	}
	unknown := rejected(demand.CodeClassUnknown, demand.Facts{Class: none})
	rows := []decision{
		{
			"what is used shrinks below that", nil,
			all(host, commands.Inventory{Class: vcpu, Total: 1}, commands.Inventory{Class: used, Total: 1, Ratio: ptr(2.5)}),
			happens(ledger.InventoriesReplaced{Provider: host, Generation: hostAt + 1, Inventories: []ledger.InventoryRecord{
				record(vcpu, 1), {Class: used, Total: 1, MinUnit: 1, MaxUnit: ledger.MaxAmount, StepSize: 1, Ratio: 2.5},
			}}),
		},
		{
			"none, to none", nil, all(spare),
			happens(ledger.InventoriesReplaced{Provider: spare, Generation: 1, Inventories: []ledger.InventoryRecord{}}),
		},
		{"a class in use left out", nil, all(host, commands.Inventory{Class: used, Total: 4}), inUse(vcpu)},
		{"all left out", nil, all(host), inUse(vcpu, used)},
		{"no such class", nil, all(spare, commands.Inventory{Class: none, Total: 1}), unknown},
		{
			"a class twice", nil,
			all(spare, commands.Inventory{Class: vcpu, Total: 1}, commands.Inventory{Class: vcpu, Total: 2}),
			invalid("inventories"),
		},
		{
			"the right generation", nil, &commands.ReplaceInventories{Provider: spare, Generation: ptr[int64](0)},
			happens(ledger.InventoriesReplaced{Provider: spare, Generation: 1, Inventories: []ledger.InventoryRecord{}}),
		},
		{
			"an old generation", nil, &commands.ReplaceInventories{Provider: host, Generation: ptr[int64](1)},
			providerConflict(host, hostAt, 1),
		},

		{
			"a class", nil, &commands.CreateInventory{Provider: spare, Inventory: commands.Inventory{Class: vcpu, Total: 1}},
			happens(ledger.InventorySet{Provider: spare, Generation: 1, Inventory: record(vcpu, 1)}),
		},
		{
			"a class that it has", nil,
			&commands.CreateInventory{Provider: host, Inventory: commands.Inventory{Class: vcpu, Total: 1}},
			rejected(demand.CodeInventoryExists, demand.Facts{Provider: &host, Class: vcpu}),
		},
		{
			"no such class", nil,
			&commands.CreateInventory{Provider: spare, Inventory: commands.Inventory{Class: none, Total: 1}}, unknown,
		},

		{
			"more", nil, &commands.UpdateInventory{
				Provider: host, Generation: ptr[int64](hostAt), Inventory: commands.Inventory{Class: used, Total: 9},
			},
			happens(ledger.InventorySet{Provider: host, Generation: hostAt + 1, Inventory: record(used, 9)}),
		},
		{
			"less than is used", nil,
			&commands.UpdateInventory{Provider: host, Inventory: commands.Inventory{Class: vcpu, Total: 1}},
			happens(ledger.InventorySet{Provider: host, Generation: hostAt + 1, Inventory: record(vcpu, 1)}),
		},
		{
			"an old generation", nil, &commands.UpdateInventory{
				Provider: host, Generation: ptr[int64](1), Inventory: commands.Inventory{Class: used, Total: 9},
			},
			providerConflict(host, hostAt, 1),
		},
		{
			"a class that it lacks", nil,
			&commands.UpdateInventory{Provider: host, Inventory: commands.Inventory{Class: free, Total: 9}},
			notThere(host, free),
		},
		{
			"no such class", nil,
			&commands.UpdateInventory{Provider: host, Inventory: commands.Inventory{Class: none, Total: 9}}, unknown,
		},

		{
			"free", []commands.Command{all(spare, commands.Inventory{Class: vcpu, Total: 1})},
			&commands.DeleteInventory{Provider: spare, Class: vcpu},
			happens(ledger.InventoryDeleted{Provider: spare, Generation: 2, Class: vcpu}),
		},
		{
			"in use", nil, &commands.DeleteInventory{Provider: host, Class: vcpu},
			rejected(demand.CodeInventoryInUse, demand.Facts{Provider: &host, Classes: []string{vcpu}, Used: 4}),
		},
		{"a class that it lacks", nil, &commands.DeleteInventory{Provider: host, Class: free}, notThere(host, free)},
		{"no such class", nil, &commands.DeleteInventory{Provider: host, Class: none}, notThere(host, none)},
		{"no class", nil, &commands.DeleteInventory{Provider: host}, invalid("class")},

		{
			"none, and the generation moves", nil, &commands.DeleteInventories{Provider: spare},
			happens(ledger.InventoriesReplaced{Provider: spare, Generation: 1}),
		},
		{"in use", nil, &commands.DeleteInventories{Provider: host}, inUse(vcpu, used)},
	}
	return append(rows, inventoryBounds()...)
}

// inventoryBounds holds for all commands that set an inventory.
func inventoryBounds() (rows []decision) {
	with := func(change func(*commands.Inventory)) commands.Inventory {
		inv := commands.Inventory{Class: vcpu, Total: 8}
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
		rows = append(rows,
			decision{field, nil, &commands.CreateInventory{Provider: spare, Inventory: inv}, invalid(field)},
			decision{field, nil, &commands.UpdateInventory{Provider: host, Inventory: inv}, invalid(field)},
			decision{
				field, nil, &commands.ReplaceInventories{Provider: spare, Inventories: []commands.Inventory{inv}}, invalid(field),
			},
			decision{field, nil, reshape(nil, commands.ProviderInventories{
				Provider: spare, Generation: new(int64), Inventories: []commands.Inventory{inv},
			}), invalid(field)},
		)
	}
	full := commands.Inventory{Class: vcpu, Total: 8, Reserved: 8}
	none := commands.Inventory{Class: vcpu, Total: 8, Reserved: 9}
	tiny := commands.Inventory{Class: vcpu, Total: 8, Ratio: ptr(0.01)}
	for about, c := range map[string]struct {
		inv    commands.Inventory
		refuse bool
		ok     bool
	}{
		"all is reserved":               {full, false, true},
		"all is reserved, refused":      {full, true, false},
		"more is reserved":              {none, false, false},
		"a ratio without units":         {tiny, false, true},
		"a ratio without units, refuse": {tiny, true, false},
	} {
		record := record(vcpu, 8)
		record.Reserved = c.inv.Reserved
		if c.inv.Ratio != nil {
			record.Ratio = *c.inv.Ratio
		}
		created, updated := happens(ledger.InventorySet{Provider: spare, Generation: 1, Inventory: record}),
			happens(ledger.InventorySet{Provider: spare, Generation: 2, Inventory: record})
		replaced := happens(ledger.InventoriesReplaced{
			Provider: spare, Generation: 1, Inventories: []ledger.InventoryRecord{record},
		})
		if !c.ok {
			created = rejected(demand.CodeInventoryCapacity, demand.Facts{
				Provider: &spare, Class: vcpu, Total: record.Total, Reserved: record.Reserved, Ratio: record.Ratio,
			})
			updated, replaced = created, created
		}
		rows = append(rows,
			decision{about, nil, &commands.CreateInventory{
				Provider: spare, Inventory: c.inv, RefuseFullyReserved: c.refuse,
			}, created},
			decision{about, []commands.Command{
				&commands.CreateInventory{Provider: spare, Inventory: commands.Inventory{Class: vcpu, Total: 1}},
			}, &commands.UpdateInventory{
				Provider: spare, Inventory: c.inv, RefuseFullyReserved: c.refuse,
			}, updated},
			decision{about, nil, &commands.ReplaceInventories{
				Provider: spare, Inventories: []commands.Inventory{c.inv}, RefuseFullyReserved: c.refuse,
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
	second := ledgertest.ID(3, 2)
	many := make([]ledger.UUID, 4097)
	for i := range many {
		many[i] = ledger.UUID{0: 3, 14: byte(i >> 8), 15: byte(i)}
	}
	return []decision{
		{
			"sorted, each once", nil, traits(host, used, free, used),
			happens(ledger.ProviderTraitsReplaced{Provider: host, Generation: hostAt + 1, Traits: []string{free, used}}),
		},
		{
			"none any more", nil, traits(host),
			happens(ledger.ProviderTraitsReplaced{Provider: host, Generation: hostAt + 1}),
		},
		{"as they are", nil, traits(host, used, used), nothing},
		{
			"no such traits", nil, traits(host, used, none, "CUSTOM_ALSO"),
			rejected(demand.CodeTraitUnknown, demand.Facts{Names: []string{"CUSTOM_ALSO", none}}),
		},
		{
			"an old generation", nil,
			&commands.ReplaceProviderTraits{Provider: host, Generation: ptr[int64](1), Traits: []string{used}},
			providerConflict(host, hostAt, 1),
		},
		{"no name", nil, traits(host, ""), invalid("traits")},
		{"a name too long", nil, traits(host, strings.Repeat("X", ledger.MaxSymbolBytes+1)), invalid("traits")},

		{
			"in the order given", nil, aggregates(host, second, aggregate),
			happens(ledger.ProviderAggregatesReplaced{
				Provider: host, Generation: hostAt + 1, Aggregates: []ledger.UUID{second, aggregate},
			}),
		},
		{
			"as they are, and the generation moves", nil, aggregates(host, aggregate),
			happens(ledger.ProviderAggregatesReplaced{
				Provider: host, Generation: hostAt + 1, Aggregates: []ledger.UUID{aggregate},
			}),
		},
		{
			"the generation stays", nil, kept(aggregates(host)),
			happens(ledger.ProviderAggregatesReplaced{Provider: host, Generation: hostAt}),
		},
		{"nothing changes", nil, kept(aggregates(host, aggregate)), nothing},
		{
			"an old generation", nil, &commands.ReplaceProviderAggregates{Provider: host, Generation: ptr[int64](1)},
			providerConflict(host, hostAt, 1),
		},
		{"one twice", nil, aggregates(host, aggregate, aggregate), invalid("aggregates")},
		{"as many as there may be", nil, aggregates(host, many[1:]...), happens(ledger.ProviderAggregatesReplaced{
			Provider: host, Generation: hostAt + 1, Aggregates: many[1:],
		})},
		{"too many", nil, aggregates(host, many...), invalid("aggregates")},
	}
}
