package commands

import (
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteTrait removes a custom trait that no provider carries.
type DeleteTrait struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

func (c *DeleteTrait) check() *demand.Rejection {
	if c.Name == "" {
		return demand.Invalid("name", "is required")
	}
	return nil
}

func (c *DeleteTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if !s.HasTrait(c.Name) {
		return nil, demand.TraitUnknown([]string{c.Name})
	}
	if !strings.HasPrefix(c.Name, CustomPrefix) {
		return nil, demand.Refuse(
			demand.CodeTraitStandard, demand.Facts{Name: c.Name}, "trait %s is a standard one", c.Name,
		)
	}
	if s.TraitInUse(c.Name) {
		return nil, demand.Refuse(
			demand.CodeTraitInUse, demand.Facts{Name: c.Name}, "a provider has trait %s", c.Name,
		)
	}
	return []ledger.Event{ledger.TraitDeleted{Name: c.Name}}, nil
}
