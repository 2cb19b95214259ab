package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// CreateResourceClass makes a custom resource class.
type CreateResourceClass struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"` // CUSTOM_ and A-Z, 0-9, _; at most 255 bytes
}

func (c *CreateResourceClass) check() *demand.Rejection { return checkCustomClass(c.Name) }

func (c *CreateResourceClass) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Classes().ID(c.Name); exists {
		return nil, classExists(c.Name)
	}
	return []ledger.Event{ledger.ClassCreated{ID: s.NextClassID(), Name: c.Name}}, nil
}
