package ledger

import (
	"fmt"
	"slices"
)

// ProviderCreated states that a provider exists, at generation 0.
type ProviderCreated struct {
	Provider UUID   `json:"provider"`
	Name     string `json:"name"`
	Parent   UUID   `json:"parent,omitzero"` // NilUUID: the root of a new tree
}

func (ev ProviderCreated) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderCreated) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).text(&ev.Name).uuid(&ev.Parent)
}

func (ev ProviderCreated) apply(s *State, at moment) error {
	if _, exists := s.Provider(ev.Provider); exists {
		return fmt.Errorf("%w: provider %s created twice", ErrInvariant, ev.Provider)
	}
	if _, taken := s.ProviderNamed(ev.Name); taken {
		return fmt.Errorf("%w: provider name %q used twice", ErrInvariant, ev.Name)
	}
	root := ev.Provider
	if !ev.Parent.IsNil() {
		parent, ok := s.Provider(ev.Parent)
		if !ok {
			return fmt.Errorf("%w: no parent provider %s", ErrInvariant, ev.Parent)
		}
		root = parent.Root
	}
	s.setProvider(nil, &Provider{
		UUID: ev.Provider, Name: ev.Name, Parent: ev.Parent, Root: root,
		CreatedAt: at.time, UpdatedAt: at.time, epoch: s.epoch,
	})
	return nil
}

// ProviderRenamed states a provider's new name.
type ProviderRenamed struct {
	Provider UUID   `json:"provider"`
	Name     string `json:"name"`
}

func (ev ProviderRenamed) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderRenamed) form(c *coder) { c.eventFields(2).uuid(&ev.Provider).text(&ev.Name) }

func (ev ProviderRenamed) apply(s *State, at moment) error {
	if holder, taken := s.ProviderNamed(ev.Name); taken && holder != ev.Provider {
		return fmt.Errorf("%w: provider name %q used twice", ErrInvariant, ev.Name)
	}
	return s.replaceProvider(ev.Provider, func(p *Provider) {
		p.Name, p.UpdatedAt = ev.Name, at.time
	})
}

// replaceProvider changes fields that the provider tables index. Unlike
// editProvider it makes a new copy even within a commit.
func (s *State) replaceProvider(id UUID, change func(*Provider)) error {
	before, ok := s.Provider(id)
	if !ok {
		return fmt.Errorf("%w: no provider %s", ErrInvariant, id)
	}
	after := *before
	after.Inventories = slices.Clone(before.Inventories)
	after.epoch = s.epoch
	change(&after)
	s.setProvider(before, &after)
	return nil
}

// ProviderReparented states that a provider, with its subtree, has another parent
// (microversion 1.37, or 1.14 for a root).
type ProviderReparented struct {
	Provider UUID `json:"provider"`
	Parent   UUID `json:"parent,omitzero"` // NilUUID: the provider became a root
}

func (ev ProviderReparented) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderReparented) form(c *coder) { c.eventFields(2).uuid(&ev.Provider).uuid(&ev.Parent) }

func (ev ProviderReparented) apply(s *State, at moment) error {
	root := ev.Provider
	if !ev.Parent.IsNil() {
		if s.InSubtree(ev.Parent, ev.Provider) {
			return fmt.Errorf("%w: provider %s below itself", ErrInvariant, ev.Provider)
		}
		parent, ok := s.Provider(ev.Parent)
		if !ok {
			return fmt.Errorf("%w: no parent provider %s", ErrInvariant, ev.Parent)
		}
		root = parent.Root
	}
	s.countTree(ev.Provider, -1)
	err := s.replaceProvider(ev.Provider, func(p *Provider) {
		p.Parent, p.Root, p.UpdatedAt = ev.Parent, root, at.time
	})
	if err != nil {
		return err
	}
	err = s.reroot(ev.Provider, root)
	s.countTree(ev.Provider, 1)
	return err
}

// reroot makes root the root of a provider and its descendants.
func (s *State) reroot(id, root UUID) error {
	var below []UUID
	s.Children(id, func(child UUID) bool {
		below = append(below, child)
		return true
	})
	for _, child := range below {
		p, err := s.editProvider(child)
		if err != nil {
			return err
		}
		p.Root = root
		if err := s.reroot(child, root); err != nil {
			return err
		}
	}
	return nil
}

// InSubtree reports whether a provider is top or a descendant of top.
func (s *State) InSubtree(id, top UUID) bool {
	for !id.IsNil() {
		if id == top {
			return true
		}
		p, ok := s.Provider(id)
		if !ok {
			return false
		}
		id = p.Parent
	}
	return false
}

// ProviderDeleted states that a provider is gone, with its inventories, traits
// and aggregate memberships. It had no children and no allocations.
type ProviderDeleted struct {
	Provider UUID `json:"provider"`
}

func (ev ProviderDeleted) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderDeleted) form(c *coder) { c.eventFields(1).uuid(&ev.Provider) }

func (ev ProviderDeleted) apply(s *State, _ moment) error {
	p, ok := s.Provider(ev.Provider)
	if !ok {
		return fmt.Errorf("%w: no provider %s", ErrInvariant, ev.Provider)
	}
	if len(p.InUse()) > 0 {
		return fmt.Errorf("%w: provider %s deleted while in use", ErrInvariant, ev.Provider)
	}
	parent := false
	s.Children(ev.Provider, func(UUID) bool { parent = true; return false })
	if parent {
		return fmt.Errorf("%w: provider %s deleted above children", ErrInvariant, ev.Provider)
	}
	s.setProvider(p, nil)
	return nil
}

// ProviderGeneration is the generation that a provider has from now on.
type ProviderGeneration struct {
	Provider   UUID  `json:"provider"`
	Generation int64 `json:"generation"`
}

func (g *ProviderGeneration) form(c *coder) { c.uuid(&g.Provider).int(&g.Generation) }

// ProviderGenerationsAdvanced states that allocations moved the generations of
// their providers. It follows from other events.
type ProviderGenerationsAdvanced struct {
	Providers []ProviderGeneration `json:"providers"`
}

func (ev *ProviderGenerationsAdvanced) form(c *coder) {
	flat(c, c.event, 2, &ev.Providers, (*ProviderGeneration).form)
}

func (ev ProviderGenerationsAdvanced) apply(s *State, at moment) error {
	for _, g := range ev.Providers {
		if _, err := s.advanceProvider(g.Provider, g.Generation, at); err != nil {
			return err
		}
	}
	return nil
}

// advanceProvider gives a provider its next generation and returns this
// commit's copy of it.
func (s *State) advanceProvider(id UUID, generation int64, at moment) (*Provider, error) {
	p, err := s.editProvider(id)
	if err != nil {
		return nil, err
	}
	if generation < p.Generation {
		return nil, fmt.Errorf("%w: generation of provider %s goes back from %d to %d",
			ErrInvariant, id, p.Generation, generation)
	}
	p.Generation, p.UpdatedAt = generation, at.time
	return p, nil
}

// ProviderTraitsReplaced states all traits of a provider.
type ProviderTraitsReplaced struct {
	Provider   UUID     `json:"provider"`
	Generation int64    `json:"generation"`
	Traits     []string `json:"traits"` // sorted, without duplicates
}

func (ev ProviderTraitsReplaced) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderTraitsReplaced) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).int(&ev.Generation).strings(&ev.Traits)
}

func (ev ProviderTraitsReplaced) apply(s *State, at moment) error {
	for i, name := range ev.Traits {
		if !s.HasTrait(name) || i > 0 && ev.Traits[i-1] >= name {
			return fmt.Errorf("%w: trait %q of provider %s", ErrInvariant, name, ev.Provider)
		}
	}
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	p.Traits = ev.Traits
	return nil
}

// ProviderAggregatesReplaced states all aggregates that a provider is a member
// of.
type ProviderAggregatesReplaced struct {
	Provider   UUID   `json:"provider"`
	Generation int64  `json:"generation"`
	Aggregates []UUID `json:"aggregates"` // in the client's order, without duplicates
	// Spelt are the aggregates as clients spelt them first, one for each; absent: all
	// with dashes in lower case.
	Spelt []string `json:"spelt,omitempty"`
}

func (ev ProviderAggregatesReplaced) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderAggregatesReplaced) form(c *coder) {
	c.eventFields(3).uuid(&ev.Provider).int(&ev.Generation).speltUUIDs(&ev.Aggregates, &ev.Spelt)
}

func (ev ProviderAggregatesReplaced) apply(s *State, at moment) error {
	for i, id := range ev.Aggregates {
		if slices.Contains(ev.Aggregates[:i], id) {
			return fmt.Errorf("%w: provider %s twice in aggregate %s", ErrInvariant, ev.Provider, id)
		}
	}
	if ev.Spelt != nil && !slices.EqualFunc(ev.Spelt, ev.Aggregates, Spells) {
		return fmt.Errorf("%w: provider %s: %q do not spell %s", ErrInvariant, ev.Provider, ev.Spelt, ev.Aggregates)
	}
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	s.countTree(ev.Provider, -1)
	p.Aggregates, p.Spelt = ev.Aggregates, ev.Spelt
	s.countTree(ev.Provider, 1)
	return nil
}
