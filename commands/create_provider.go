package commands

import (
	"cmp"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// CreateProvider makes a provider at generation 0.
type CreateProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Name     string      `json:"name"`            // unique, 1..200 characters
	Parent   ledger.UUID `json:"parent,omitzero"` // absent: the root of a new tree (1.14)
}

func (c *CreateProvider) check() *demand.Rejection {
	if c.Name == "" {
		return demand.Invalid("name", "is required")
	}
	return cmp.Or(checkUUID("provider", c.Provider), checkProviderName(c.Name))
}

func (c *CreateProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if c.Parent == c.Provider {
		return nil, parentLoop(c.Provider, c.Parent)
	}
	if !c.Parent.IsNil() {
		if _, ok := s.Provider(c.Parent); !ok {
			return nil, parentUnknown(c.Provider, c.Parent)
		}
	}
	var taken []string
	facts := demand.Facts{}
	if _, exists := s.ProviderNamed(c.Name); exists {
		taken = append(taken, "name "+c.Name)
		facts.Name = c.Name
	}
	if _, exists := s.Provider(c.Provider); exists {
		taken = append(taken, "uuid "+c.Provider.String())
		facts.Provider = &c.Provider
	}
	if taken != nil {
		return nil, demand.Refuse(
			demand.CodeProviderExists, facts, "a provider with %s exists", strings.Join(taken, " and "),
		)
	}
	return []ledger.Event{ledger.ProviderCreated{Provider: c.Provider, Name: c.Name, Parent: c.Parent}}, nil
}

func parentUnknown(provider, parent ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeParentUnknown, demand.Facts{Provider: &provider, Name: parent.String()},
		"no provider %s to be the parent", parent,
	)
}

func parentLoop(provider, parent ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeParentLoop, demand.Facts{Provider: &provider, Name: parent.String()},
		"provider %s cannot hang below %s, which is itself or below it", provider, parent,
	)
}
