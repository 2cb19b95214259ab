package placement

import (
	"slices"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// aggregateGenerationsSince is the microversion from which requests about
// aggregates carry, check and move the provider's generation.
const aggregateGenerationsSince version = 19

func showAggregates(r *request, p *ledger.Provider) (*response, error) {
	aggregates := make([]string, len(p.Aggregates))
	for i := range aggregates {
		aggregates[i] = p.AggregateText(i)
	}
	body := m{"aggregates": aggregates}
	if r.version >= aggregateGenerationsSince {
		body["resource_provider_generation"] = p.Generation
	}
	return ok(body, 0), nil
}

func replaceAggregates(r *request, p *ledger.Provider, doc any) (*response, error) {
	c := &commands.ReplaceProviderAggregates{Provider: p.UUID, KeepGeneration: true}
	members := listOf(doc)
	if r.version >= aggregateGenerationsSince {
		body := objectOf(doc)
		members = listOf(body.get("aggregates"))
		c.KeepGeneration = false
		c.Generation = integerPointer(body, "resource_provider_generation")
	}
	for _, member := range members {
		id, text := uuidOf(member), textOf(member)
		if !ledger.Spells(text, id) {
			text = id.String() // Placement has no room for other forms
		}
		c.Aggregates, c.Spelt = append(c.Aggregates, id), append(c.Spelt, text)
	}
	if slices.EqualFunc(c.Spelt, c.Aggregates, func(text string, id ledger.UUID) bool { return text == id.String() }) {
		c.Spelt = nil
	}
	_, err := r.Submit(c, func(rejection *demand.Rejection) error {
		if rejection.Code == demand.CodeProviderConflict {
			return generationChanged()
		}
		return general(rejection)
	})
	if err != nil {
		return nil, err
	}
	return withProvider(showAggregates)(r)
}

// generationChanged is the failure with the text for traits and aggregates.
func generationChanged() *rest.Failure {
	return conflict(codeConcurrentUpdate,
		"Resource provider's generation already changed. Please update the generation and try again.")
}
