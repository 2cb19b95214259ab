package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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

func (c *CreateInventory) Check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), c.Inventory.check())
}

func (c *CreateInventory) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	return c.Inventory.set(s, p, c.RefuseFullyReserved, func(exists bool) *demand.Rejection {
		if !exists {
			return nil
		}
		return demand.Refuse(
			demand.CodeInventoryExists, demand.Facts{Provider: &c.Provider, Class: c.Inventory.Class},
			"provider %s has inventory of %s already", c.Provider, c.Inventory.Class,
		)
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

func (c *UpdateInventory) Check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), c.Inventory.check())
}

func (c *UpdateInventory) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
		return nil, r
	}
	if nodeOf(s, p.UUID) != nil {
		return nil, repeatsNode(s, p, []Inventory{c.Inventory})
	}
	return c.Inventory.set(s, p, c.RefuseFullyReserved, func(exists bool) *demand.Rejection {
		if exists {
			return nil
		}
		return inventoryNotFound(c.Provider, c.Inventory.Class)
	})
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

func (c *ReplaceInventories) Check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), checkInventories(c.Inventories))
}

func (c *ReplaceInventories) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
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
	var dropped []ledger.ClassID
	for _, id := range p.InUse() {
		if !kept[id] {
			dropped = append(dropped, id)
		}
	}
	if dropped != nil {
		return nil, inventoryInUse(c.Provider, classNames(s, dropped))
	}
	return []ledger.Event{ledger.InventoriesReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Inventories: recordsOf(c.Inventories),
	}}, nil
}

// classIDs looks up the classes of inventories.
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

// DeleteInventory removes a class from a provider. Nothing of the class may be
// allocated. The provider's generation moves by 1.
type DeleteInventory struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
}

func (c *DeleteInventory) Check() *demand.Rejection {
	if c.Class == "" {
		return demand.Invalid("class", "is required")
	}
	return checkUUID("provider", c.Provider)
}

func (c *DeleteInventory) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	id, ok := s.Classes().ID(c.Class)
	if !ok {
		return nil, inventoryNotFound(c.Provider, c.Class)
	}
	inv, ok := p.Inventory(id)
	if !ok {
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

func (c *DeleteInventories) Check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteInventories) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	if used := p.InUse(); used != nil {
		return nil, inventoryInUse(c.Provider, classNames(s, used))
	}
	return []ledger.Event{ledger.InventoriesReplaced{Provider: c.Provider, Generation: p.Generation + 1}}, nil
}
