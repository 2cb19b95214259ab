package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
