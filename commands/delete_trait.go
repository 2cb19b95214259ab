package commands

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// DeleteTrait removes a custom trait that no provider carries.
type DeleteTrait struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

// CommandName implements Command.
func (*DeleteTrait) CommandName() string { return "DeleteTrait" }

// Check implements Command.
func (c *DeleteTrait) Check() *Rejection {
	if c.Name == "" {
		return invalid("name", "is required")
	}
	return nil
}

// Decide implements Command.
func (c *DeleteTrait) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	if !s.HasTrait(c.Name) {
		return nil, traitUnknown([]string{c.Name})
	}
	if !strings.HasPrefix(c.Name, CustomPrefix) {
		return nil, &Rejection{
			Code: CodeTraitStandard, Message: fmt.Sprintf("trait %s is a standard one", c.Name), Facts: Facts{Name: c.Name},
		}
	}
	if s.TraitInUse(c.Name) {
		return nil, &Rejection{
			Code: CodeTraitInUse, Message: fmt.Sprintf("a provider has trait %s", c.Name), Facts: Facts{Name: c.Name},
		}
	}
	return []ledger.Event{ledger.TraitDeleted{Name: c.Name}}, nil
}

func traitUnknown(names []string) *Rejection {
	return &Rejection{
		Code: CodeTraitUnknown, Message: "no trait " + strings.Join(names, ", "), Facts: Facts{Names: names},
	}
}
