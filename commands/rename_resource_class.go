package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// RenameResourceClass gives a custom resource class another name
// (microversions 1.2-1.6). Inventories and allocations of it stay.
type RenameResourceClass struct {
	operatorsOnly `json:"-"`

	Name    string `json:"name"`
	NewName string `json:"new_name"`
}

func (c *RenameResourceClass) check() *demand.Rejection { return checkCustomClass(c.NewName) }

func (c *RenameResourceClass) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	id, rejection := customClass(s, c.Name)
	if rejection != nil {
		return nil, rejection
	}
	if c.Name == c.NewName {
		return nil, nil
	}
	if _, exists := s.Classes().ID(c.NewName); exists {
		return nil, classExists(c.NewName)
	}
	if s.NodeProviders() && s.HasNodeClass(func(class string) bool { return NodeClassName(class) == c.Name }) {
		return nil, demand.Refuse(
			demand.CodeNodeIsProvider, demand.Facts{Class: c.Name}, "resource class %s is that of bare metal nodes", c.Name,
		)
	}
	return []ledger.Event{ledger.ClassRenamed{ID: id, Name: c.NewName}}, nil
}
