package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// DeleteResourceClass removes a custom resource class of which no provider
// has inventory.
type DeleteResourceClass struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

// CommandName implements Command.
func (*DeleteResourceClass) CommandName() string { return "DeleteResourceClass" }

// Check implements Command.
func (c *DeleteResourceClass) Check() *Rejection {
	if c.Name == "" {
		return invalid("name", "is required")
	}
	return nil
}

// Decide implements Command.
func (c *DeleteResourceClass) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	id, rejection := customClass(s, c.Name)
	if rejection != nil {
		return nil, rejection
	}
	if s.ClassInUse(id) {
		return nil, &Rejection{
			Code:    CodeClassInUse,
			Message: fmt.Sprintf("a provider has inventory of resource class %s", c.Name),
			Facts:   Facts{Class: c.Name},
		}
	}
	return []ledger.Event{ledger.ClassDeleted{ID: id, Name: c.Name}}, nil
}
