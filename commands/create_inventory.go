package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// CreateInventory adds a class to a provider. The provider's generation moves
// by 1 and is not checked: Placement ignores the one in the request.
type CreateInventory struct {
	noConsumers `json:"-"`

	Provider  ledger.UUID `json:"provider"`
	Inventory Inventory   `json:"inventory"`
	// RefuseFullyReserved refuses an inventory without capacity, as
	// Placement does below 1.26.
	RefuseFullyReserved bool `json:"refuse_fully_reserved,omitempty"`
}

// CommandName implements Command.
func (*CreateInventory) CommandName() string { return "CreateInventory" }

// Check implements Command.
func (c *CreateInventory) Check() *Rejection {
	return first(checkUUID("provider", c.Provider), c.Inventory.check())
}

// Decide implements Command.
func (c *CreateInventory) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	if r := c.Inventory.checkCapacity(c.Provider, c.RefuseFullyReserved); r != nil {
		return nil, r
	}
	id, ok := s.Classes().ID(c.Inventory.Class)
	if !ok {
		return nil, classUnknown(c.Inventory.Class)
	}
	if _, exists := p.Inventory(id); exists {
		return nil, &Rejection{
			Code:    CodeInventoryExists,
			Message: fmt.Sprintf("provider %s has inventory of %s already", c.Provider, c.Inventory.Class),
			Facts:   Facts{Provider: &c.Provider, Class: c.Inventory.Class},
		}
	}
	return []ledger.Event{ledger.InventorySet{
		Provider: c.Provider, Generation: p.Generation + 1, Inventory: c.Inventory.record(),
	}}, nil
}
