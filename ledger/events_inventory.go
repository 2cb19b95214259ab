package ledger

import (
	"fmt"
	"slices"
)

// InventoryRecord is the inventory of one class, as an event states it. Amounts
// are in the class's unit, 0..MaxAmount, and StepSize from 1.
type InventoryRecord struct {
	Class    string  `json:"class"`
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
	Ratio    float64 `json:"allocation_ratio"`
}

// Capacity returns (total - reserved) * allocation ratio.
func (r InventoryRecord) Capacity() float64 { return float64(r.Total-r.Reserved) * r.Ratio }

// Units returns the capacity in whole units; see Inventory.Units.
func (r InventoryRecord) Units() int64 { return whole(r.Capacity()) }

func (r *InventoryRecord) form(c *coder) {
	c.fields("inventory", 7).text(&r.Class).int(&r.Total).int(&r.Reserved)
	c.int(&r.MinUnit).int(&r.MaxUnit).int(&r.StepSize).float(&r.Ratio)
}

// inventory makes a provider's inventory from the record, with nothing used.
func (r InventoryRecord) inventory(classes *ClassTable, updated int64) (Inventory, error) {
	id, ok := classes.ID(r.Class)
	if !ok {
		return Inventory{}, fmt.Errorf("%w: no resource class %q", ErrInvariant, r.Class)
	}
	if r.StepSize < 1 {
		return Inventory{}, fmt.Errorf("%w: %s in steps of %d", ErrInvariant, r.Class, r.StepSize)
	}
	return Inventory{
		Class: id, Total: r.Total, Reserved: r.Reserved, MinUnit: r.MinUnit,
		MaxUnit: r.MaxUnit, StepSize: r.StepSize, Ratio: r.Ratio, UpdatedAt: updated,
	}, nil
}

// addInventory adds the inventory of a class that the provider lacks.
func (p *Provider) addInventory(r InventoryRecord, classes *ClassTable, updated int64) error {
	inv, err := r.inventory(classes, updated)
	if err != nil {
		return err
	}
	i, exists := p.findInventory(inv.Class)
	if exists {
		return fmt.Errorf("%w: class %s twice on provider %s", ErrInvariant, r.Class, p.UUID)
	}
	p.Inventories = slices.Insert(p.Inventories, i, inv)
	return nil
}

// InventoriesReplaced states all inventories of a provider.
type InventoriesReplaced struct {
	Provider    UUID              `json:"provider"`
	Generation  int64             `json:"generation"`
	Inventories []InventoryRecord `json:"inventories"`
}

func (ev InventoriesReplaced) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *InventoriesReplaced) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).int(&ev.Generation)
	list(c, &ev.Inventories, (*InventoryRecord).form)
}

func (ev InventoriesReplaced) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	before := p.Inventories
	p.Inventories = make([]Inventory, 0, len(ev.Inventories))
	for _, r := range ev.Inventories {
		if err := p.addInventory(r, s.classes, at.time); err != nil {
			return err
		}
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

// InventorySet states the inventory of one class of a provider.
type InventorySet struct {
	Provider   UUID            `json:"provider"`
	Generation int64           `json:"generation"`
	Inventory  InventoryRecord `json:"inventory"`
}

func (ev InventorySet) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *InventorySet) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).int(&ev.Generation)
	ev.Inventory.form(c)
}

func (ev InventorySet) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	inv, err := ev.Inventory.inventory(s.classes, at.time)
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

// InventoryDeleted states that a provider no longer has a class. Nothing of it
// was allocated.
type InventoryDeleted struct {
	Provider   UUID   `json:"provider"`
	Generation int64  `json:"generation"`
	Class      string `json:"class"`
}

func (ev InventoryDeleted) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *InventoryDeleted) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).int(&ev.Generation).text(&ev.Class)
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
