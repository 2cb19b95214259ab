package ledger

import (
	"fmt"
	"slices"
)

// InventoryRecord is one class's inventory as an event states it. Amounts are
// in the class's unit, 0..MaxAmount.
type InventoryRecord struct {
	Class    string  `json:"class"`
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
	Ratio    float64 `json:"allocation_ratio"`
}

// Capacity is (total - reserved) * allocation ratio.
func (r InventoryRecord) Capacity() float64 {
	return float64(r.Total-r.Reserved) * r.Ratio
}

// Units is the capacity in whole units; see Inventory.Units.
func (r InventoryRecord) Units() int64 { return whole(r.Capacity()) }

func (r InventoryRecord) encode(e *encoder) {
	e.array(7)
	e.string(r.Class)
	e.int(r.Total)
	e.int(r.Reserved)
	e.int(r.MinUnit)
	e.int(r.MaxUnit)
	e.int(r.StepSize)
	e.float(r.Ratio)
}

func decodeInventoryRecord(d *decoder) InventoryRecord {
	d.exactly(7, "inventory")
	return InventoryRecord{
		Class: d.string(), Total: d.int(), Reserved: d.int(),
		MinUnit: d.int(), MaxUnit: d.int(), StepSize: d.int(), Ratio: d.float(),
	}
}

// inventory turns a record into a provider's inventory with nothing used.
func (r InventoryRecord) inventory(classes *ClassTable, at moment) (Inventory, error) {
	id, ok := classes.ID(r.Class)
	if !ok {
		return Inventory{}, fmt.Errorf("%w: no resource class %q", ErrInvariant, r.Class)
	}
	return Inventory{
		Class: id, Total: r.Total, Reserved: r.Reserved, MinUnit: r.MinUnit,
		MaxUnit: r.MaxUnit, StepSize: r.StepSize, Ratio: r.Ratio, UpdatedAt: at.time,
	}, nil
}

// InventoriesReplaced says which inventories a provider has, all of them.
type InventoriesReplaced struct {
	Provider    UUID              `json:"provider"`
	Generation  int64             `json:"generation"`
	Inventories []InventoryRecord `json:"inventories"`
}

// EventKind implements Event.
func (InventoriesReplaced) EventKind() string { return "InventoriesReplaced" }
func (InventoriesReplaced) code() eventCode   { return codeInventoriesReplaced }

func (ev InventoriesReplaced) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.int(ev.Generation)
	e.array(len(ev.Inventories))
	for _, r := range ev.Inventories {
		r.encode(e)
	}
}

func decodeInventoriesReplaced(d *decoder) Event {
	d.exactly(3, "InventoriesReplaced")
	ev := InventoriesReplaced{Provider: d.uuid(), Generation: d.int()}
	n := d.array()
	for i := 0; i < n && d.err == nil; i++ {
		ev.Inventories = append(ev.Inventories, decodeInventoryRecord(d))
	}
	return ev
}

func (ev InventoriesReplaced) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	before := p.Inventories
	p.Inventories = make([]Inventory, 0, len(ev.Inventories))
	for _, r := range ev.Inventories {
		inv, err := r.inventory(s.classes, at)
		if err != nil {
			return err
		}
		i, exists := p.findInventory(inv.Class)
		if exists {
			return fmt.Errorf("%w: class %s twice on provider %s", ErrInvariant, r.Class, ev.Provider)
		}
		p.Inventories = slices.Insert(p.Inventories, i, inv)
	}
	for _, old := range before {
		i, kept := p.findInventory(old.Class)
		if kept {
			p.Inventories[i].Used = old.Used
		} else if old.Used > 0 {
			return fmt.Errorf("%w: inventory of class %d removed from provider %s while in use",
				ErrInvariant, old.Class, ev.Provider)
		}
	}
	return nil
}

// InventorySet says that a provider has this inventory of one class.
type InventorySet struct {
	Provider   UUID            `json:"provider"`
	Generation int64           `json:"generation"`
	Inventory  InventoryRecord `json:"inventory"`
}

// EventKind implements Event.
func (InventorySet) EventKind() string { return "InventorySet" }
func (InventorySet) code() eventCode   { return codeInventorySet }

func (ev InventorySet) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.int(ev.Generation)
	ev.Inventory.encode(e)
}

func decodeInventorySet(d *decoder) Event {
	d.exactly(3, "InventorySet")
	return InventorySet{Provider: d.uuid(), Generation: d.int(), Inventory: decodeInventoryRecord(d)}
}

func (ev InventorySet) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	inv, err := ev.Inventory.inventory(s.classes, at)
	if err != nil {
		return err
	}
	i, exists := p.findInventory(inv.Class)
	if exists {
		inv.Used = p.Inventories[i].Used
		p.Inventories[i] = inv
	} else {
		p.Inventories = slices.Insert(p.Inventories, i, inv)
	}
	return nil
}

// InventoryDeleted says that a provider no longer has a class. Nothing of it
// was allocated.
type InventoryDeleted struct {
	Provider   UUID   `json:"provider"`
	Generation int64  `json:"generation"`
	Class      string `json:"class"`
}

// EventKind implements Event.
func (InventoryDeleted) EventKind() string { return "InventoryDeleted" }
func (InventoryDeleted) code() eventCode   { return codeInventoryDeleted }

func (ev InventoryDeleted) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.int(ev.Generation)
	e.string(ev.Class)
}

func decodeInventoryDeleted(d *decoder) Event {
	d.exactly(3, "InventoryDeleted")
	return InventoryDeleted{Provider: d.uuid(), Generation: d.int(), Class: d.string()}
}

func (ev InventoryDeleted) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	id, ok := s.classes.ID(ev.Class)
	if !ok {
		return fmt.Errorf("%w: no resource class %q", ErrInvariant, ev.Class)
	}
	i, ok := p.findInventory(id)
	if !ok || p.Inventories[i].Used > 0 {
		return fmt.Errorf("%w: inventory of %s on provider %s cannot go", ErrInvariant, ev.Class, ev.Provider)
	}
	p.Inventories = slices.Delete(p.Inventories, i, i+1)
	return nil
}
