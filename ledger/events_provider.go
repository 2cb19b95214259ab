package ledger

import (
	"fmt"
	"slices"
)

// ProviderCreated says that a provider exists, at generation 0.
type ProviderCreated struct {
	Provider UUID   `json:"provider"`
	Name     string `json:"name"`
	Parent   UUID   `json:"parent,omitzero"` // NilUUID: the root of a new tree
}

// EventKind implements Event.
func (ProviderCreated) EventKind() string { return "ProviderCreated" }
func (ProviderCreated) code() eventCode   { return codeProviderCreated }

func (ev ProviderCreated) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.string(ev.Name)
	e.uuid(ev.Parent)
}

func decodeProviderCreated(d *decoder) Event {
	d.exactly(3, "ProviderCreated")
	return ProviderCreated{Provider: d.uuid(), Name: d.string(), Parent: d.uuid()}
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

// ProviderRenamed says that a provider has another name.
type ProviderRenamed struct {
	Provider UUID   `json:"provider"`
	Name     string `json:"name"`
}

// EventKind implements Event.
func (ProviderRenamed) EventKind() string { return "ProviderRenamed" }
func (ProviderRenamed) code() eventCode   { return codeProviderRenamed }

func (ev ProviderRenamed) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Provider)
	e.string(ev.Name)
}

func decodeProviderRenamed(d *decoder) Event {
	d.exactly(2, "ProviderRenamed")
	return ProviderRenamed{Provider: d.uuid(), Name: d.string()}
}

func (ev ProviderRenamed) apply(s *State, at moment) error {
	if holder, taken := s.ProviderNamed(ev.Name); taken && holder != ev.Provider {
		return fmt.Errorf("%w: provider name %q used twice", ErrInvariant, ev.Name)
	}
	return s.replaceProvider(ev.Provider, func(p *Provider) {
		p.Name, p.UpdatedAt = ev.Name, at.time
	})
}

// replaceProvider changes fields that the provider tables index: unlike
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

// ProviderReparented says that a provider, with its whole subtree, hangs
// below another parent (microversion 1.37, or 1.14 for a root).
type ProviderReparented struct {
	Provider UUID `json:"provider"`
	Parent   UUID `json:"parent,omitzero"` // NilUUID: the provider became a root
}

// EventKind implements Event.
func (ProviderReparented) EventKind() string { return "ProviderReparented" }
func (ProviderReparented) code() eventCode   { return codeProviderReparented }

func (ev ProviderReparented) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Provider)
	e.uuid(ev.Parent)
}

func decodeProviderReparented(d *decoder) Event {
	d.exactly(2, "ProviderReparented")
	return ProviderReparented{Provider: d.uuid(), Parent: d.uuid()}
}

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
	err := s.replaceProvider(ev.Provider, func(p *Provider) {
		p.Parent, p.Root, p.UpdatedAt = ev.Parent, root, at.time
	})
	if err != nil {
		return err
	}
	return s.reroot(ev.Provider, root)
}

// reroot makes root the root of everything below a provider.
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

// InSubtree reports whether a provider is top or below it.
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

// ProviderDeleted says that a provider is gone, with its inventories, traits
// and aggregate memberships. It had no children and no allocations.
type ProviderDeleted struct {
	Provider UUID `json:"provider"`
}

// EventKind implements Event.
func (ProviderDeleted) EventKind() string { return "ProviderDeleted" }
func (ProviderDeleted) code() eventCode   { return codeProviderDeleted }

func (ev ProviderDeleted) encode(e *encoder) {
	e.array(1)
	e.uuid(ev.Provider)
}

func decodeProviderDeleted(d *decoder) Event {
	d.exactly(1, "ProviderDeleted")
	return ProviderDeleted{Provider: d.uuid()}
}

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

// ProviderGeneration is the generation a provider has from now on.
type ProviderGeneration struct {
	Provider   UUID  `json:"provider"`
	Generation int64 `json:"generation"`
}

// ProviderGenerationsAdvanced says that allocations moved the generations of
// the providers they name.
type ProviderGenerationsAdvanced struct {
	Providers []ProviderGeneration `json:"providers"`
}

// EventKind implements Event.
func (ProviderGenerationsAdvanced) EventKind() string { return "ProviderGenerationsAdvanced" }
func (ProviderGenerationsAdvanced) code() eventCode   { return codeProviderGenerationsAdvanced }

func (ev ProviderGenerationsAdvanced) encode(e *encoder) {
	e.array(2 * len(ev.Providers))
	for _, p := range ev.Providers {
		e.uuid(p.Provider)
		e.int(p.Generation)
	}
}

func decodeProviderGenerationsAdvanced(d *decoder) Event {
	n := d.array()
	if n%2 != 0 {
		d.fail("ProviderGenerationsAdvanced has %d fields", n)
	}
	ev := ProviderGenerationsAdvanced{Providers: make([]ProviderGeneration, 0, n/2)}
	for i := 0; i < n/2 && d.err == nil; i++ {
		ev.Providers = append(ev.Providers, ProviderGeneration{Provider: d.uuid(), Generation: d.int()})
	}
	return ev
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

// ProviderTraitsReplaced says which traits a provider has.
type ProviderTraitsReplaced struct {
	Provider   UUID     `json:"provider"`
	Generation int64    `json:"generation"`
	Traits     []string `json:"traits"` // sorted, without duplicates
}

// EventKind implements Event.
func (ProviderTraitsReplaced) EventKind() string { return "ProviderTraitsReplaced" }
func (ProviderTraitsReplaced) code() eventCode   { return codeProviderTraitsReplaced }

func (ev ProviderTraitsReplaced) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.int(ev.Generation)
	e.strings(ev.Traits)
}

func decodeProviderTraitsReplaced(d *decoder) Event {
	d.exactly(3, "ProviderTraitsReplaced")
	return ProviderTraitsReplaced{Provider: d.uuid(), Generation: d.int(), Traits: d.strings()}
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

// ProviderAggregatesReplaced says which aggregates a provider is a member of.
type ProviderAggregatesReplaced struct {
	Provider   UUID   `json:"provider"`
	Generation int64  `json:"generation"`
	Aggregates []UUID `json:"aggregates"` // in the client's order, without duplicates
}

// EventKind implements Event.
func (ProviderAggregatesReplaced) EventKind() string { return "ProviderAggregatesReplaced" }
func (ProviderAggregatesReplaced) code() eventCode   { return codeProviderAggregatesReplaced }

func (ev ProviderAggregatesReplaced) encode(e *encoder) {
	e.array(3)
	e.uuid(ev.Provider)
	e.int(ev.Generation)
	e.uuids(ev.Aggregates)
}

func decodeProviderAggregatesReplaced(d *decoder) Event {
	d.exactly(3, "ProviderAggregatesReplaced")
	return ProviderAggregatesReplaced{Provider: d.uuid(), Generation: d.int(), Aggregates: d.uuids()}
}

func (ev ProviderAggregatesReplaced) apply(s *State, at moment) error {
	for i, id := range ev.Aggregates {
		if slices.Contains(ev.Aggregates[:i], id) {
			return fmt.Errorf("%w: provider %s twice in aggregate %s", ErrInvariant, ev.Provider, id)
		}
	}
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	p.Aggregates = ev.Aggregates
	return nil
}
