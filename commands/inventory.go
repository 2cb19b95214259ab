package commands

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Inventory is what a client says about one class of a provider. Fields left
// out take Placement's defaults.
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

func (inv Inventory) check() *Rejection {
	if !isSymbol(inv.Class) {
		return invalid("class", "%q is not the name of a resource class", inv.Class)
	}
	r := inv.record()
	return first(
		checkRange("total", r.Total, 1), checkRange("reserved", r.Reserved, 0),
		checkRange("min_unit", r.MinUnit, 1), checkRange("max_unit", r.MaxUnit, 1),
		checkRange("step_size", r.StepSize, 1), checkRatio(r.Ratio),
	)
}

// checkCapacity wants the reserved amount to leave a capacity of at least 0,
// or with refuseFull of more than 0, as Placement does below 1.26. The
// capacity is truncated first: a tiny ratio makes it 0.
func (inv Inventory) checkCapacity(provider ledger.UUID, refuseFull bool) *Rejection {
	r := inv.record()
	capacity := r.Units()
	if capacity > 0 || capacity == 0 && !refuseFull {
		return nil
	}
	return &Rejection{
		Code: CodeInventoryCapacity,
		Message: fmt.Sprintf(
			"inventory of %s on provider %s has no capacity: total %d, reserved %d, ratio %v", r.Class, provider, r.Total,
			r.Reserved, r.Ratio,
		),
		Facts: Facts{Provider: &provider, Class: r.Class, Total: r.Total, Reserved: r.Reserved, Ratio: r.Ratio},
	}
}

// set states the inventory on a provider, whose generation moves by 1, unless
// check has something against it, who is told whether the provider has inventory
// of the class already.
func (inv Inventory) set(
	s *ledger.State, p *ledger.Provider, refuseFull bool, check func(exists bool) *Rejection,
) ([]ledger.Event, *Rejection) {
	if r := inv.checkCapacity(p.UUID, refuseFull); r != nil {
		return nil, r
	}
	id, known := s.Classes().ID(inv.Class)
	if !known {
		return nil, classUnknown(inv.Class)
	}
	_, exists := p.Inventory(id)
	if r := check(exists); r != nil {
		return nil, r
	}
	return []ledger.Event{
		ledger.InventorySet{Provider: p.UUID, Generation: p.Generation + 1, Inventory: inv.record()},
	}, nil
}

func checkInventories(inventories []Inventory) *Rejection {
	seen := make(map[string]bool, len(inventories))
	for _, inv := range inventories {
		if r := inv.check(); r != nil {
			return r
		}
		if seen[inv.Class] {
			return invalid("inventories", "class %s is given twice", inv.Class)
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

func inventoryInUse(provider ledger.UUID, classes []string) *Rejection {
	return &Rejection{
		Code:    CodeInventoryInUse,
		Message: fmt.Sprintf("inventory of %s on provider %s is in use", strings.Join(classes, ", "), provider),
		Facts:   Facts{Provider: &provider, Classes: classes},
	}
}

func inventoryNotFound(provider ledger.UUID, class string) *Rejection {
	return &Rejection{
		Code:    CodeInventoryNotFound,
		Message: fmt.Sprintf("provider %s has no inventory of %s", provider, class),
		Facts:   Facts{Provider: &provider, Class: class},
	}
}
