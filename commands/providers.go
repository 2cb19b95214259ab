package commands

import (
	"cmp"
	"slices"
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
	return cmp.Or(checkGiven("name", c.Name), checkUUID("provider", c.Provider), checkProviderName(c.Name))
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
	return demand.Refuse(demand.CodeParentUnknown, demand.Facts{Provider: &provider, Name: parent.String()},
		"no provider %s to be the parent", parent)
}

func parentLoop(provider, parent ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeParentLoop, demand.Facts{Provider: &provider, Name: parent.String()},
		"provider %s cannot hang below %s, which is itself or below it", provider, parent)
}

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
		return nil, demand.Refuse(demand.CodeParentFixed, demand.Facts{Provider: &c.Provider, Name: p.Parent.String()},
			"provider %s has a parent already", c.Provider)
	}
	if s.InSubtree(c.Parent, c.Provider) {
		return nil, parentLoop(c.Provider, c.Parent)
	}
	if r := drawsStay(s, p, c.Parent); r != nil {
		return nil, r
	}
	return []ledger.Event{ledger.ProviderReparented{Provider: c.Provider, Parent: c.Parent}}, nil
}

// UpdateProvider renames and re-parents a provider in one step, as
// Placement's PUT /resource_providers/{uuid} does.
type UpdateProvider struct {
	operatorsOnly `json:"-"`

	Rename   RenameProvider    `json:"rename"`
	Reparent *ReparentProvider `json:"reparent,omitempty"` // absent: the parent stays
}

func (c *UpdateProvider) check() *demand.Rejection {
	if c.Reparent != nil && c.Reparent.Provider != c.Rename.Provider {
		return demand.Invalid("reparent.provider", "is not the provider to rename")
	}
	return c.Rename.check()
}

func (c *UpdateProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if c.Reparent != nil {
		moved, rejection := c.Reparent.decide(s)
		if rejection != nil {
			return nil, rejection
		}
		events = append(events, moved...)
	}
	renamed, rejection := c.Rename.decide(s)
	if rejection != nil {
		return nil, rejection
	}
	return append(events, renamed...), nil
}

// DeleteProvider removes a provider with its inventories, traits and
// aggregate memberships. It must have no children and no allocations.
type DeleteProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (c *DeleteProvider) check() *demand.Rejection { return checkUUID("provider", c.Provider) }

func (c *DeleteProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := changeableProvider(s, c.Provider)
	if r != nil {
		return nil, r
	}
	var child *ledger.UUID
	s.Children(c.Provider, func(id ledger.UUID) bool { child = &id; return false })
	if child != nil {
		return nil, demand.Refuse(demand.CodeProviderHasChild, demand.Facts{Provider: &c.Provider, Name: child.String()},
			"provider %s has children, %s among them", c.Provider, child)
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

// RemoveProvider removes a provider with its descendants and all allocations of
// them, as if its machine were lost: its consumers keep what they hold elsewhere.
// It is for what-if questions only. Registry does not have it, so no client can
// submit it.
type RemoveProvider struct {
	operatorsOnly `json:"-"`

	Provider ledger.UUID `json:"provider"`
}

func (*RemoveProvider) consumers() []ledger.UUID { return nil }

func (c *RemoveProvider) check() *demand.Rejection {
	return (&DeleteProvider{Provider: c.Provider}).check()
}

func (c *RemoveProvider) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Provider(c.Provider); !exists {
		return (&DeleteProvider{Provider: c.Provider}).decide(s)
	}
	tree := below(s, c.Provider, nil)
	gone := make(map[ledger.UUID]bool, len(tree))
	for _, id := range tree {
		gone[id] = true
	}
	var events []ledger.Event
	s.Consumers(func(consumer *ledger.Consumer) bool {
		if slices.ContainsFunc(consumer.Allocations, func(a ledger.Allocation) bool { return gone[a.Provider] }) {
			events = append(events, keeping(s, consumer, func(a ledger.Allocation) bool { return !gone[a.Provider] }))
		}
		return true
	})
	for _, id := range tree {
		if node, isNode := s.Node(id); isNode && s.NodeProviders() {
			if !node.Allocation.IsNil() {
				events = append(events, ledger.NodeAllocationReleased{Allocation: node.Allocation})
			}
			events = append(events, ledger.NodeDeleted{Node: id})
		}
		events = append(events, ledger.ProviderDeleted{Provider: id})
	}
	return events, nil
}

// below lists a provider and its descendants, each after its own descendants.
func below(s *ledger.State, id ledger.UUID, list []ledger.UUID) []ledger.UUID {
	s.Children(id, func(child ledger.UUID) bool {
		list = below(s, child, list)
		return true
	})
	return append(list, id)
}

// ReplaceProviderTraits sets all traits of a provider. If that changes anything,
// the provider's generation moves by 1.
type ReplaceProviderTraits struct {
	operatorsOnly `json:"-"`

	Provider   ledger.UUID `json:"provider"`
	Generation *int64      `json:"generation,omitempty"` // the provider's; absent: not checked
	Traits     []string    `json:"traits"`               // duplicates count once
}

func (c *ReplaceProviderTraits) check() *demand.Rejection {
	for _, name := range c.Traits {
		if name == "" || len(name) > ledger.MaxSymbolBytes {
			return demand.Invalid("traits", "%q is not the name of a trait", name)
		}
	}
	return checkUUID("provider", c.Provider)
}

func (c *ReplaceProviderTraits) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := providerAt(s, c.Provider, c.Generation)
	if r != nil {
		return nil, r
	}
	names := slices.Clone(c.Traits)
	slices.Sort(names)
	names = slices.Compact(names)
	var unknown []string
	for _, name := range names {
		if !s.HasTrait(name) {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return nil, demand.TraitUnknown(unknown)
	}
	if n := nodeOf(s, p.UUID); n != nil && slices.ContainsFunc(n.Traits, func(name string) bool {
		return !slices.Contains(names, name)
	}) {
		return nil, followsFromNode(p.UUID)
	}
	if slices.Equal(names, p.Traits) {
		return nil, nil
	}
	return []ledger.Event{ledger.ProviderTraitsReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Traits: names,
	}}, nil
}

// ReplaceProviderAggregates sets all aggregates of a provider. The provider's
// generation moves by 1 even if nothing changes.
type ReplaceProviderAggregates struct {
	operatorsOnly `json:"-"`

	Provider   ledger.UUID   `json:"provider"`
	Generation *int64        `json:"generation,omitempty"` // the provider's; absent: not checked
	Aggregates []ledger.UUID `json:"aggregates"`
	// Spelt are the aggregates as REST shows them, one for each, in hexadecimal digits;
	// absent: with dashes in lower case. An aggregate that the provider is in keeps its
	// spelling.
	Spelt []string `json:"spelt,omitempty"`
	// KeepGeneration keeps the provider's generation unchanged, as Placement does
	// below 1.19.
	KeepGeneration bool `json:"keep_generation,omitempty"`
}

// maxAggregates is the largest number of aggregates of one provider.
const maxAggregates = 4096

func (c *ReplaceProviderAggregates) check() *demand.Rejection {
	if len(c.Aggregates) > maxAggregates {
		return demand.Invalid("aggregates", "a provider is in at most %d aggregates", maxAggregates)
	}
	seen := make(map[ledger.UUID]bool, len(c.Aggregates))
	for _, id := range c.Aggregates {
		if seen[id] {
			return demand.Invalid("aggregates", "%s is given twice", id)
		}
		seen[id] = true
	}
	if c.Spelt != nil && !slices.EqualFunc(c.Spelt, c.Aggregates, ledger.Spells) {
		return demand.Invalid("spelt", "has to spell each of the aggregates, in their order")
	}
	return checkUUID("provider", c.Provider)
}

func (c *ReplaceProviderAggregates) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := providerAt(s, c.Provider, c.Generation)
	if r != nil {
		return nil, r
	}
	event := ledger.ProviderAggregatesReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Aggregates: slices.Clone(c.Aggregates),
		Spelt: c.spelling(p),
	}
	if c.KeepGeneration {
		event.Generation = p.Generation
		if slices.Equal(event.Aggregates, p.Aggregates) {
			return nil, nil
		}
	}
	return []ledger.Event{event}, nil
}

// spelling returns the spellings of the aggregates, of which those of the provider
// remain; nil: all as UUID.String does.
func (c *ReplaceProviderAggregates) spelling(p *ledger.Provider) []string {
	if c.Spelt == nil && p.Spelt == nil {
		return nil
	}
	spelt, own := make([]string, len(c.Aggregates)), false
	for i, id := range c.Aggregates {
		spelt[i] = id.String()
		if before := slices.Index(p.Aggregates, id); before >= 0 {
			spelt[i] = p.AggregateText(before)
		} else if c.Spelt != nil {
			spelt[i] = c.Spelt[i]
		}
		own = own || spelt[i] != id.String()
	}
	if !own {
		return nil
	}
	return spelt
}
