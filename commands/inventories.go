package commands

import (
	"cmp"
	"slices"
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
// generation by 1. It is otherwise rejected if the provider does not have inventory of
// the class already, or has, as it should not.
func (inv Inventory) set(
	s *ledger.State, p *ledger.Provider, refuseFull, should bool, otherwise func() *demand.Rejection,
) ([]ledger.Event, *demand.Rejection) {
	if r := inv.checkCapacity(p.UUID, refuseFull); r != nil {
		return nil, r
	}
	id, known := s.Classes().ID(inv.Class)
	if !known {
		return nil, demand.ClassUnknown(inv.Class)
	}
	if _, exists := p.Inventory(id); exists != should {
		return nil, otherwise()
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
	return demand.Refuse(demand.CodeInventoryInUse, demand.Facts{Provider: &provider, Classes: classes},
		"inventory of %s on provider %s is in use", strings.Join(classes, ", "), provider)
}

func inventoryNotFound(provider ledger.UUID, class string) *demand.Rejection {
	return demand.Refuse(demand.CodeInventoryNotFound, demand.Facts{Provider: &provider, Class: class},
		"provider %s has no inventory of %s", provider, class)
}

// CreateInventory adds a class to a provider. The provider's generation moves by
// 1. It is not checked, because Placement ignores the generation in this request.
type CreateInventory struct {
	operatorsOnly `json:"-"`

	Provider  ledger.UUID `json:"provider"`
	Inventory Inventory   `json:"inventory"`
	// RefuseFullyReserved refuses an inventory without capacity, as
	// Placement does below 1.26.
	RefuseFullyReserved bool `json:"refuse_fully_reserved,omitempty"`
}

func (c *CreateInventory) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), c.Inventory.check())
}

func (c *CreateInventory) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	return c.Inventory.set(s, p, c.RefuseFullyReserved, false, func() *demand.Rejection {
		return demand.Refuse(demand.CodeInventoryExists, demand.Facts{Provider: &c.Provider, Class: c.Inventory.Class},
			"provider %s has inventory of %s already", c.Provider, c.Inventory.Class)
	})
}

// UpdateInventory sets the inventory of a class that a provider has. It may
// shrink below its usage. The provider's generation moves by 1.
type UpdateInventory struct {
	operatorsOnly `json:"-"`

	Provider   ledger.UUID `json:"provider"`
	Generation *int64      `json:"generation,omitempty"` // the provider's; absent: not checked
	Inventory  Inventory   `json:"inventory"`
	// RefuseFullyReserved refuses an inventory without capacity, as
	// Placement does below 1.26.
	RefuseFullyReserved bool `json:"refuse_fully_reserved,omitempty"`
}

func (c *UpdateInventory) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), c.Inventory.check())
}

func (c *UpdateInventory) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := providerAt(s, c.Provider, c.Generation)
	if r != nil {
		return nil, r
	}
	if nodeOf(s, p.UUID) != nil {
		return nil, repeatsNode(s, p, []Inventory{c.Inventory})
	}
	return c.Inventory.set(s, p, c.RefuseFullyReserved, true, func() *demand.Rejection {
		return inventoryNotFound(c.Provider, c.Inventory.Class)
	})
}

// DeleteInventory removes a class from a provider. Nothing of the class may be
// allocated. The provider's generation moves by 1.
type DeleteInventory struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
}

func (c *DeleteInventory) check() *demand.Rejection {
	return cmp.Or(checkGiven("class", c.Class), checkUUID("provider", c.Provider))
}

func (c *DeleteInventory) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	id, known := s.Classes().ID(c.Class)
	inv, has := p.Inventory(id)
	if !known || !has {
		return nil, inventoryNotFound(c.Provider, c.Class)
	}
	if inv.Used > 0 {
		r := inventoryInUse(c.Provider, []string{c.Class})
		r.Facts.Used = inv.Used
		return nil, r
	}
	return []ledger.Event{ledger.InventoryDeleted{
		Provider: c.Provider, Generation: p.Generation + 1, Class: c.Class,
	}}, nil
}

// DeleteInventories removes all classes from a provider (microversion 1.5).
// Nothing of them may be allocated. The provider's generation moves by 1, even if
// it had none.
type DeleteInventories struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (c *DeleteInventories) check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteInventories) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	if used := p.InUse(); used != nil {
		return nil, inventoryInUse(c.Provider, classNames(s, used))
	}
	return []ledger.Event{ledger.InventoriesReplaced{Provider: c.Provider, Generation: p.Generation + 1}}, nil
}

// ReplaceInventories sets all inventories of a provider. Classes in use must
// stay, but may shrink below their usage. The provider's generation moves by 1
// even if nothing changes.
type ReplaceInventories struct {
	operatorsOnly `json:"-"`

	Provider    ledger.UUID `json:"provider"`
	Generation  *int64      `json:"generation,omitempty"` // the provider's; absent: not checked
	Inventories []Inventory `json:"inventories"`
	// RefuseFullyReserved refuses an inventory without capacity, as
	// Placement does below 1.26.
	RefuseFullyReserved bool `json:"refuse_fully_reserved,omitempty"`
}

func (c *ReplaceInventories) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), checkInventories(c.Inventories))
}

func (c *ReplaceInventories) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := providerAt(s, c.Provider, c.Generation)
	if r != nil {
		return nil, r
	}
	if nodeOf(s, p.UUID) != nil {
		return nil, repeatsNode(s, p, c.Inventories)
	}
	for _, inv := range c.Inventories {
		if r := inv.checkCapacity(c.Provider, c.RefuseFullyReserved); r != nil {
			return nil, r
		}
	}
	kept, rejection := classIDs(s, c.Inventories)
	if rejection != nil {
		return nil, rejection
	}
	dropped := slices.DeleteFunc(p.InUse(), func(id ledger.ClassID) bool { return kept[id] })
	if len(dropped) > 0 {
		return nil, inventoryInUse(c.Provider, classNames(s, dropped))
	}
	return []ledger.Event{ledger.InventoriesReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Inventories: recordsOf(c.Inventories),
	}}, nil
}

func classIDs(s *ledger.State, inventories []Inventory) (map[ledger.ClassID]bool, *demand.Rejection) {
	ids := make(map[ledger.ClassID]bool, len(inventories))
	for _, inv := range inventories {
		id, ok := s.Classes().ID(inv.Class)
		if !ok {
			return nil, demand.ClassUnknown(inv.Class)
		}
		ids[id] = true
	}
	return ids, nil
}
