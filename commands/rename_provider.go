package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// RenameProvider gives a provider another name. Its generation stays.
type RenameProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Name     string      `json:"name"` // unique, at most 200 characters
}

// check, unlike that of CreateProvider, accepts an empty name, as
// Placement's PUT does.
func (c *RenameProvider) check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), checkProviderName(c.Name))
}

func (c *RenameProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if holder, taken := s.ProviderNamed(c.Name); taken && holder != c.Provider {
		return nil, demand.Refuse(
			demand.CodeProviderExists, demand.Facts{Name: c.Name}, "a provider with name %s exists", c.Name,
		)
	}
	if p.Name == c.Name {
		return nil, nil
	}
	return []ledger.Event{ledger.ProviderRenamed{Provider: c.Provider, Name: c.Name}}, nil
}
