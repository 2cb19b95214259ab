package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteInventory removes a class from a provider. Nothing of the class may be
// allocated. The provider's generation moves by 1.
type DeleteInventory struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
}

func (c *DeleteInventory) check() *demand.Rejection {
	if c.Class == "" {
		return demand.Invalid("class", "is required")
	}
	return checkUUID("provider", c.Provider)
}

func (c *DeleteInventory) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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
