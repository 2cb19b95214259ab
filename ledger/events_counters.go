package ledger

import (
	"fmt"
	"slices"
)

// DrawRecord is a Draw as an event states it.
type DrawRecord struct {
	Class   string `json:"class"`
	Counter string `json:"counter"`
	Amount  int64  `json:"amount"`
	Mode    string `json:"mode,omitempty"`
}

func (r *DrawRecord) form(c *coder) { c.text(&r.Class).text(&r.Counter).int(&r.Amount).text(&r.Mode) }

func (t *Counter) form(c *coder) { c.text(&t.Name).int(&t.Total) }

func (d *Draw) form(c *coder) { c.class(&d.Class).text(&d.Counter).int(&d.Amount).text(&d.Mode) }

// ProviderCountersReplaced states all counters of a provider, and what its classes draw from those
// above it.
type ProviderCountersReplaced struct {
	Provider   UUID         `json:"provider"`
	Generation int64        `json:"generation"`
	Counters   []Counter    `json:"counters,omitempty"` // sorted by name
	Draws      []DrawRecord `json:"draws,omitempty"`
}

func (ev ProviderCountersReplaced) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderCountersReplaced) form(c *coder) {
	c.eventFields(4).uuid(&ev.Provider).int(&ev.Generation)
	flat(c, "counters", 2, &ev.Counters, (*Counter).form)
	flat(c, "draws", 4, &ev.Draws, (*DrawRecord).form)
}

func (ev ProviderCountersReplaced) apply(s *State, at moment) error {
	p, err := s.advanceProvider(ev.Provider, ev.Generation, at)
	if err != nil {
		return err
	}
	draws, err := ev.draws(s.classes)
	if err != nil {
		return err
	}
	// A new copy, because the table counts the providers that draw.
	return s.replaceProvider(p.UUID, func(p *Provider) { p.Counters, p.Draws = ev.Counters, draws })
}

// draws checks what the event states, and returns the draws in their order.
func (ev ProviderCountersReplaced) draws(classes *ClassTable) (draws []Draw, err error) {
	for i, c := range ev.Counters {
		if i > 0 && ev.Counters[i-1].Name >= c.Name || c.Total < 0 {
			return nil, fmt.Errorf("%w: counter %q of provider %s", ErrInvariant, c.Name, ev.Provider)
		}
	}
	for _, r := range ev.Draws {
		id, known := classes.ID(r.Class)
		if !known || r.Amount < 1 {
			return nil, fmt.Errorf("%w: draw of %q of provider %s", ErrInvariant, r.Class, ev.Provider)
		}
		draws = append(draws, Draw{Class: id, Counter: r.Counter, Amount: r.Amount, Mode: r.Mode})
	}
	slices.SortFunc(draws, compareDraws)
	for i := range draws {
		if i > 0 && compareDraws(draws[i-1], draws[i]) == 0 {
			return nil, fmt.Errorf("%w: class %d of provider %s draws from %q twice",
				ErrInvariant, draws[i].Class, ev.Provider, draws[i].Counter)
		}
	}
	return draws, nil
}
