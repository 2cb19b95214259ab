package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
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
