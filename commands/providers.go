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

func (c *CreateProvider) Check() *demand.Rejection {
	if c.Name == "" {
		return demand.Invalid("name", "is required")
	}
	return cmp.Or(checkUUID("provider", c.Provider), checkProviderName(c.Name))
}

func (c *CreateProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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

// UpdateProvider renames and re-parents a provider in one step, as
// Placement's PUT /resource_providers/{uuid} does.
type UpdateProvider struct {
	operatorsOnly `json:"-"`

	Rename   RenameProvider    `json:"rename"`
	Reparent *ReparentProvider `json:"reparent,omitempty"` // absent: the parent stays
}

func (c *UpdateProvider) Check() *demand.Rejection {
	if c.Reparent != nil && c.Reparent.Provider != c.Rename.Provider {
		return demand.Invalid("reparent.provider", "is not the provider to rename")
	}
	return c.Rename.Check()
}

func (c *UpdateProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if c.Reparent != nil {
		moved, rejection := c.Reparent.Decide(s)
		if rejection != nil {
			return nil, rejection
		}
		events = append(events, moved...)
	}
	renamed, rejection := c.Rename.Decide(s)
	if rejection != nil {
		return nil, rejection
	}
	return append(events, renamed...), nil
}

// RenameProvider gives a provider another name. Its generation stays.
type RenameProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
	Name     string      `json:"name"` // unique, at most 200 characters
}

// Check implements Command. Unlike CreateProvider it accepts an empty name, as
// Placement's PUT does.
func (c *RenameProvider) Check() *demand.Rejection {
	return cmp.Or(checkUUID("provider", c.Provider), checkProviderName(c.Name))
}

func (c *RenameProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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

func (c *ReparentProvider) Check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *ReparentProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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

// DeleteProvider removes a provider with its inventories, traits and
// aggregate memberships. It must have no children and no allocations.
type DeleteProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (c *DeleteProvider) Check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteProvider) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	var child *ledger.UUID
	s.Children(c.Provider, func(id ledger.UUID) bool { child = &id; return false })
	if child != nil {
		return nil, demand.Refuse(
			demand.CodeProviderHasChild, demand.Facts{Provider: &c.Provider, Name: child.String()},
			"provider %s has children, %s among them", c.Provider, child,
		)
	}
	if used := p.InUse(); used != nil {
		return nil, demand.Refuse(
			demand.CodeProviderInUse, demand.Facts{Provider: &c.Provider, Classes: classNames(s, used)},
			"provider %s has allocations", c.Provider,
		)
	}
	return []ledger.Event{ledger.ProviderDeleted{Provider: c.Provider}}, nil
}

func classNames(s *ledger.State, ids []ledger.ClassID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = s.Classes().Name(id)
	}
	return names
}
