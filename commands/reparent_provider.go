package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReparentProvider moves a provider and its subtree below another provider or,
// without a parent, makes it the root of a tree. Generations stay.
type ReparentProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Parent   ledger.UUID `json:"parent,omitzero"` // absent: becomes a root
	// RefuseMove permits only a root to get a parent, as Placement does below
	// 1.37.
	RefuseMove bool `json:"refuse_move,omitempty"`
}

func (c *ReparentProvider) check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *ReparentProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if !c.Parent.IsNil() {
		if _, ok := s.Provider(c.Parent); !ok {
			return nil, parentUnknown(c.Provider, c.Parent)
		}
	}
	if p.Parent == c.Parent {
		return nil, nil
	}
	if c.RefuseMove && !p.Parent.IsNil() {
		return nil, demand.Refuse(
			demand.CodeParentFixed, demand.Facts{Provider: &c.Provider, Name: p.Parent.String()},
			"provider %s has a parent already", c.Provider,
		)
	}
	if s.InSubtree(c.Parent, c.Provider) {
		return nil, parentLoop(c.Provider, c.Parent)
	}
	if r := drawsStay(s, p, c.Parent); r != nil {
		return nil, r
	}
	return []ledger.Event{ledger.ProviderReparented{Provider: c.Provider, Parent: c.Parent}}, nil
}
