package commands

import (
	"cmp"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Inventory is a client's description of one class of a provider. Absent fields
// take Placement's defaults.
type Inventory struct {
	Class    string   `json:"class"`
	Total    int64    `json:"total"`                      // 1..MaxAmount
	Reserved int64    `json:"reserved,omitempty"`         // 0..MaxAmount; default 0
	MinUnit  *int64   `json:"min_unit,omitempty"`         // 1..MaxAmount; default 1
	MaxUnit  *int64   `json:"max_unit,omitempty"`         // 1..MaxAmount; default MaxAmount
	StepSize *int64   `json:"step_size,omitempty"`        // 1..MaxAmount; default 1
	Ratio    *float64 `json:"allocation_ratio,omitempty"` // default 1.0
}

func orDefault[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func (inv Inventory) record() ledger.InventoryRecord {
	return ledger.InventoryRecord{
		Class: inv.Class, Total: inv.Total, Reserved: inv.Reserved,
		MinUnit: orDefault(inv.MinUnit, 1), MaxUnit: orDefault(inv.MaxUnit, ledger.MaxAmount),
		StepSize: orDefault(inv.StepSize, 1), Ratio: orDefault(inv.Ratio, 1),
	}
}

func (inv Inventory) check() *demand.Rejection {
	if !isSymbol(inv.Class) {
		return demand.Invalid("class", "%q is not the name of a resource class", inv.Class)
	}
	r := inv.record()
	return cmp.Or(
		checkRange("total", r.Total, 1), checkRange("reserved", r.Reserved, 0),
		checkRange("min_unit", r.MinUnit, 1), checkRange("max_unit", r.MaxUnit, 1),
		checkRange("step_size", r.StepSize, 1), checkRatio(r.Ratio),
	)
}

// checkCapacity rejects an inventory whose reserved amount exceeds the capacity
// or, with refuseFull, leaves no capacity, as Placement does below 1.26. The
// capacity is truncated first, so a tiny ratio makes it 0.
func (inv Inventory) checkCapacity(provider ledger.UUID, refuseFull bool) *demand.Rejection {
	r := inv.record()
	capacity := r.Units()
	if capacity > 0 || capacity == 0 && !refuseFull {
		return nil
	}
	return demand.Refuse(
		demand.CodeInventoryCapacity,
		demand.Facts{Provider: &provider, Class: r.Class, Total: r.Total, Reserved: r.Reserved, Ratio: r.Ratio},
		"inventory of %s on provider %s has no capacity: total %d, reserved %d, ratio %v",
		r.Class, provider, r.Total, r.Reserved, r.Ratio,
	)
}

// set returns the event that sets one inventory of a provider and moves its
// generation by 1. check is called with whether the provider already has
// inventory of the class, and may reject the change.
func (inv Inventory) set(
	s *ledger.State, p *ledger.Provider, refuseFull bool, check func(exists bool) *demand.Rejection,
) ([]ledger.Event, *demand.Rejection) {
	if r := inv.checkCapacity(p.UUID, refuseFull); r != nil {
		return nil, r
	}
	id, known := s.Classes().ID(inv.Class)
	if !known {
		return nil, demand.ClassUnknown(inv.Class)
	}
	_, exists := p.Inventory(id)
	if r := check(exists); r != nil {
		return nil, r
	}
	return []ledger.Event{
		ledger.InventorySet{Provider: p.UUID, Generation: p.Generation + 1, Inventory: inv.record()},
	}, nil
}

func checkInventories(inventories []Inventory) *demand.Rejection {
	seen := make(map[string]bool, len(inventories))
	for _, inv := range inventories {
		if r := inv.check(); r != nil {
			return r
		}
		if seen[inv.Class] {
			return demand.Invalid("inventories", "class %s is given twice", inv.Class)
		}
		seen[inv.Class] = true
	}
	return nil
}

func recordsOf(inventories []Inventory) []ledger.InventoryRecord {
	records := make([]ledger.InventoryRecord, len(inventories))
	for i, inv := range inventories {
		records[i] = inv.record()
	}
	return records
}

func inventoryInUse(provider ledger.UUID, classes []string) *demand.Rejection {
	return demand.Refuse(
		demand.CodeInventoryInUse, demand.Facts{Provider: &provider, Classes: classes},
		"inventory of %s on provider %s is in use", strings.Join(classes, ", "), provider,
	)
}

func inventoryNotFound(provider ledger.UUID, class string) *demand.Rejection {
	return demand.Refuse(
		demand.CodeInventoryNotFound, demand.Facts{Provider: &provider, Class: class},
		"provider %s has no inventory of %s", provider, class,
	)
}
