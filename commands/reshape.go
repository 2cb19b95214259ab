package commands

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Reshape changes inventories and allocations together, so that allocations can
// move between providers together with the inventories (microversion 1.30). While
// the allocations are decided, each provider has its old and its new inventories;
// afterwards it has only the new ones.
//
// A provider's generation moves by 1 for the interim inventories (unless the new
// set is empty), by 1 if an allocation names it, and by 1 for the final
// inventories.
type Reshape struct {
	operatorsOnly `json:"-"`

	Inventories []ProviderInventories `json:"inventories"` // at least one
	Allocations []ConsumerAllocations `json:"allocations"`
}

// ProviderInventories are all inventories that a provider is to have.
type ProviderInventories struct {
	Provider    ledger.UUID `json:"provider"`
	Generation  *int64      `json:"generation"` // the provider's; required
	Inventories []Inventory `json:"inventories"`
}

func (c *Reshape) consumers() []ledger.UUID { return consumersOf(c.Allocations) }

func (c *Reshape) check() *demand.Rejection {
	if len(c.Inventories) == 0 {
		return demand.Invalid("inventories", "names no provider")
	}
	seen := make(map[ledger.UUID]bool, len(c.Inventories))
	for _, p := range c.Inventories {
		if p.Generation == nil {
			return demand.Invalid("generation", "is required")
		}
		if r := cmp.Or(checkUUID("provider", p.Provider), checkInventories(p.Inventories)); r != nil {
			return r
		}
		if seen[p.Provider] {
			return demand.Invalid("inventories", "provider %s is given twice", p.Provider)
		}
		seen[p.Provider] = true
	}
	return checkAllocations(c.Allocations)
}

// decide, like Placement, does not check here that the
// reserved amounts leave capacity.
func (c *Reshape) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	for _, want := range c.Inventories {
		p, r := changeableProvider(s, want.Provider)
		if r != nil {
			return nil, r
		}
		if r := checkProviderGeneration(p, want.Generation); r != nil {
			return nil, r
		}
	}
	a := newAllocator(s, c.Allocations)
	if r := cmp.Or(a.checkGenerations(), a.checkProvidersExist()); r != nil {
		return nil, r
	}
	for _, want := range c.Inventories {
		if _, r := classIDs(s, want.Inventories); r != nil {
			return nil, r
		}
	}
	events := c.interim(s, a)
	allocated, rejection := a.events()
	if rejection != nil {
		return nil, rejection
	}
	final, rejection := c.final(s, a)
	if rejection != nil {
		return nil, rejection
	}
	return slices.Concat(events, allocated, final), nil
}

// interim gives each provider the union of its old and new inventories. Where
// both have a class, the new inventory counts.
func (c *Reshape) interim(s *ledger.State, a *allocator) []ledger.Event {
	var events []ledger.Event
	a.reshaped, a.last = make(map[ledger.UUID]*ledger.Provider, len(c.Inventories)), nil
	for _, want := range c.Inventories {
		p, _ := s.Provider(want.Provider)
		between := *p
		between.Inventories = slices.Clone(p.Inventories)
		a.reshaped[want.Provider] = &between
		if len(want.Inventories) == 0 {
			continue
		}
		for _, inv := range want.Inventories {
			between.Inventories = withInventory(s.Classes(), between.Inventories, inv.record())
		}
		between.Generation++
		events = append(events, ledger.InventoriesReplaced{
			Provider: want.Provider, Generation: between.Generation,
			Inventories: inventoryRecords(s.Classes(), between.Inventories),
		})
	}
	return events
}

// withInventory sets one class in a list that is sorted by class. It keeps the
// usage of the class.
func withInventory(classes *ledger.ClassTable, list []ledger.Inventory, r ledger.InventoryRecord) []ledger.Inventory {
	id, _ := classes.ID(r.Class)
	inv := ledger.Inventory{
		Class: id, Total: r.Total, Reserved: r.Reserved, MinUnit: r.MinUnit,
		MaxUnit: r.MaxUnit, StepSize: r.StepSize, Ratio: r.Ratio,
	}
	i, found := slices.BinarySearchFunc(list, id, func(inv ledger.Inventory, id ledger.ClassID) int {
		return int(inv.Class) - int(id)
	})
	if !found {
		return slices.Insert(list, i, inv)
	}
	inv.Used = list[i].Used
	list[i] = inv
	return list
}

func inventoryRecords(classes *ledger.ClassTable, list []ledger.Inventory) []ledger.InventoryRecord {
	records := make([]ledger.InventoryRecord, len(list))
	for i, inv := range list {
		records[i] = ledger.InventoryRecord{
			Class: classes.Name(inv.Class), Total: inv.Total, Reserved: inv.Reserved, MinUnit: inv.MinUnit,
			MaxUnit: inv.MaxUnit, StepSize: inv.StepSize, Ratio: inv.Ratio,
		}
	}
	return records
}

// final leaves each provider with its new inventories. The command's allocations
// must leave classes that are removed unused.
func (c *Reshape) final(s *ledger.State, a *allocator) ([]ledger.Event, *demand.Rejection) {
	events := make([]ledger.Event, 0, len(c.Inventories))
	for _, want := range c.Inventories {
		kept, _ := classIDs(s, want.Inventories)
		between := a.reshaped[want.Provider]
		var dropped []ledger.ClassID
		for _, inv := range between.Inventories {
			count := a.count(inventoryKey{want.Provider, inv.Class}, inv.Used)
			if !kept[inv.Class] && count.before-count.freed+count.asked > 0 {
				dropped = append(dropped, inv.Class)
			}
		}
		if dropped != nil {
			r := inventoryInUse(want.Provider, classNames(s, dropped))
			r.Message = fmt.Sprintf("%s after the new allocations", r.Message)
			return nil, r
		}
		events = append(events, ledger.InventoriesReplaced{
			Provider: want.Provider, Generation: a.generation(between) + 1, Inventories: recordsOf(want.Inventories),
		})
	}
	return events, nil
}
