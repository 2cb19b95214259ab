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

func (c *CreateInventory) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), c.Inventory.check())
}

func (c *CreateInventory) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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
