package commands

import (
	"slices"

	"github.com/allot-project/allot/ledger"
)

// ReplaceProviderAggregates sets all aggregates of a provider. The provider's
// generation moves by 1 even if nothing changes.
type ReplaceProviderAggregates struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	Provider   ledger.UUID   `json:"provider"`
	Generation *int64        `json:"generation,omitempty"` // the provider's; absent: not checked
	Aggregates []ledger.UUID `json:"aggregates"`
	// KeepGeneration keeps the provider's generation unchanged, as Placement does
	// below 1.19.
	KeepGeneration bool `json:"keep_generation,omitempty"`
}

// maxAggregates is the largest number of aggregates of one provider.
const maxAggregates = 4096

// CommandName implements Command.
func (*ReplaceProviderAggregates) CommandName() string { return "ReplaceProviderAggregates" }

// Check implements Command.
func (c *ReplaceProviderAggregates) Check() *Rejection {
	if len(c.Aggregates) > maxAggregates {
		return invalid("aggregates", "a provider is in at most %d aggregates", maxAggregates)
	}
	seen := make(map[ledger.UUID]bool, len(c.Aggregates))
	for _, id := range c.Aggregates {
		if seen[id] {
			return invalid("aggregates", "%s is given twice", id)
		}
		seen[id] = true
	}
	return checkUUID("provider", c.Provider)
}

// Decide implements Command.
func (c *ReplaceProviderAggregates) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	p, ok := s.Provider(c.Provider)
	if !ok {
		return nil, providerNotFound(c.Provider)
	}
	if r := checkProviderGeneration(p, c.Generation); r != nil {
		return nil, r
	}
	event := ledger.ProviderAggregatesReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Aggregates: slices.Clone(c.Aggregates),
	}
	if c.KeepGeneration {
		event.Generation = p.Generation
		if slices.Equal(event.Aggregates, p.Aggregates) {
			return nil, nil
		}
	}
	return []ledger.Event{event}, nil
}
