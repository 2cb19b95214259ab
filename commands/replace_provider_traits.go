package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
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
