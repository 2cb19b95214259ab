package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// CreateTrait makes a custom trait.
type CreateTrait struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"` // CUSTOM_ and A-Z, 0-9, _; at most 255 bytes
}

func (c *CreateTrait) check() *demand.Rejection {
	if !isCustom(c.Name) {
		return demand.Invalid("name", "%q is not the name of a custom trait", c.Name)
	}
	return nil
}

func (c *CreateTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if s.HasTrait(c.Name) {
		return nil, demand.Refuse(demand.CodeTraitExists, demand.Facts{Name: c.Name}, "trait %s exists", c.Name)
	}
	return []ledger.Event{ledger.TraitCreated{Name: c.Name}}, nil
}
