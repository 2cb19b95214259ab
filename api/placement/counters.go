package placement

import (
	"slices"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
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

func showCounters(h *Handler, r *request) (*response, error) {
	world, err := h.world(r)
	if err != nil {
		return nil, err
	}
	p, err := r.provider()
	if err != nil {
		return nil, err
	}
	classes, err := r.view.Classes()
	if err != nil {
		return nil, err
	}
	counters, draws := m{}, m{}
	left := m{}
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

func replaceCounters(h *Handler, r *request) (*response, error) {
	p, doc, err := r.providerAndBody()
	if err != nil {
		return nil, err
	}
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
	_, rejection, err := h.submit(r, c)
	switch {
	case err != nil:
		return nil, err
	case rejection == nil:
		return showCounters(h, r)
	case rejection.Code == demand.CodeProviderConflict:
		return nil, generationChanged()
	case rejection.Code == demand.CodeCounterInUse:
		return nil, conflict("", "%s", rejection.Message)
	}
	return nil, rest.BadRequest("%s", rejection.Message)
}
