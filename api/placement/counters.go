package placement

import (
	"slices"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// countersSchema is the body of PUT /resource_providers/{uuid}/counters: what a unit of a class draws from a
// counter is an amount, or the name of a mode.
func countersSchema() m {
	draw := m{"anyOf": []any{integer(1), m{"type": "string", "pattern": classPattern, "maxLength": 255}}}
	return closed(m{
		"resource_provider_generation": generationSchema,
		"counters":                     keyed(classPattern, integer(0), 0),
		"draws":                        keyed(classPattern, keyed(classPattern, draw, 1), 0),
	}, "resource_provider_generation")
}

func showCounters(r *request) (*response, error) {
	world, err := r.world() // and its view, in which the provider is then looked for
	if err != nil {
		return nil, err
	}
	return withProvider(func(r *request, p *ledger.Provider) (*response, error) { return countersAnswer(r, world, p) })(r)
}

func countersAnswer(r *request, world *candidates.World, p *ledger.Provider) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	counters, draws, left := m{}, m{}, m{}
	list, err := present.CountersOf(func(root ledger.UUID) (ledger.Forest, error) { return world.Forest(root), nil }, p)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		counters[c.Name], left[c.Name] = c.Total, *c.Left
	}
	for _, d := range present.DrawsOf(classes, p) {
		of, _ := draws[d.Class].(m)
		if of == nil {
			of = m{}
		}
		if of[d.Counter] = d.Amount; d.Mode != "" {
			of[d.Counter] = d.Mode
		}
		draws[d.Class] = of
	}
	return ok(m{
		"resource_provider_generation": p.Generation, "counters": counters, "draws": draws, "left": left,
	}, p.UpdatedAt), nil
}

func replaceCounters(r *request, p *ledger.Provider, doc any) (*response, error) {
	body := objectOf(doc)
	c := &commands.ReplaceProviderCounters{
		Provider: p.UUID, Generation: integerPointer(body, "resource_provider_generation"),
	}
	counters, draws := objectOf(body.get("counters")), objectOf(body.get("draws"))
	for _, name := range counters.keys {
		c.Counters = append(c.Counters, ledger.Counter{Name: name, Total: integerOf(counters.get(name))})
	}
	for _, class := range draws.keys {
		from := objectOf(draws.get(class))
		for _, name := range from.keys {
			draw := ledger.DrawRecord{Class: class, Counter: name, Mode: textOf(from.get(name)), Amount: 1}
			if draw.Mode == "" {
				draw.Amount = integerOf(from.get(name))
			}
			c.Draws = append(c.Draws, draw)
		}
	}
	slices.SortFunc(c.Draws, func(a, b ledger.DrawRecord) int {
		return strings.Compare(a.Class+" "+a.Counter, b.Class+" "+b.Counter)
	})
	_, err := r.Submit(c, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeProviderConflict:
			return generationChanged()
		case demand.CodeCounterInUse:
			return conflict("", "%s", rejection.Message)
		}
		return rest.BadRequest("%s", rejection.Message)
	})
	if err != nil {
		return nil, err
	}
	return showCounters(r)
}
