package commands

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReplaceProviderCounters sets all counters of a provider, and what a unit of each of its classes
// draws from the counters of the providers above it. What is held stays, also where it is more than
// a counter has: nothing more is given then. The provider's generation moves by 1 even if nothing
// changes.
type ReplaceProviderCounters struct {
	operatorsOnly `json:"-"`

	Provider   ledger.UUID         `json:"provider"`
	Generation *int64              `json:"generation,omitempty"` // the provider's; absent: not checked
	Counters   []ledger.Counter    `json:"counters,omitempty"`   // at most 64
	Draws      []ledger.DrawRecord `json:"draws,omitempty"`      // at most 1,024
}

// Bounds of what one provider says about counters.
const (
	maxCounters = 64
	maxDraws    = 1024
)

func (c *ReplaceProviderCounters) check() *demand.Rejection {
	if len(c.Counters) > maxCounters || len(c.Draws) > maxDraws {
		return demand.Invalid("counters", "a provider has at most %d counters and %d draws, not %d and %d",
			maxCounters, maxDraws, len(c.Counters), len(c.Draws))
	}
	seen := make(map[string]bool, len(c.Counters)+len(c.Draws))
	for i := range c.Counters {
		name := c.Counters[i].Name
		if !isSymbol(name) || seen[name] {
			return demand.Invalid("counters", "%q is no name of a counter (A-Z, 0-9 and _), or is given twice", name)
		}
		seen[name] = true
		if r := checkRange("counters", c.Counters[i].Total, 0); r != nil {
			return r
		}
	}
	for i := range c.Draws {
		if r := checkDraw(&c.Draws[i]); r != nil {
			return r
		}
		pair := c.Draws[i].Class + " " + c.Draws[i].Counter
		if seen[pair] {
			return demand.Invalid("draws", "%s draws from %s twice", c.Draws[i].Class, c.Draws[i].Counter)
		}
		seen[pair] = true
	}
	return checkUUID("provider", c.Provider)
}

func checkDraw(d *ledger.DrawRecord) *demand.Rejection {
	switch {
	case !isSymbol(d.Class):
		return demand.Invalid("draws", "%q is not the name of a resource class", d.Class)
	case !isSymbol(d.Counter):
		return demand.Invalid("draws", "%q is no name of a counter (A-Z, 0-9 and _)", d.Counter)
	case d.Class == d.Counter:
		return demand.Invalid("draws", "%s draws from itself", d.Class)
	case d.Mode == "":
		return checkRange("draws", d.Amount, 1)
	case !isSymbol(d.Mode):
		return demand.Invalid("draws", "%q is no name of a mode (A-Z, 0-9 and _)", d.Mode)
	case d.Amount != 1:
		return demand.Invalid("draws", "the mode %s draws 1 from %s, however many units there are, not %d",
			d.Mode, d.Counter, d.Amount)
	}
	return nil
}

func (c *ReplaceProviderCounters) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	p, r := providerAt(s, c.Provider, c.Generation)
	if r != nil {
		return nil, r
	}
	for i := range c.Draws {
		if _, known := s.Classes().ID(c.Draws[i].Class); !known {
			return nil, demand.ClassUnknown(c.Draws[i].Class)
		}
		if _, above := ledger.CounterAbove(s, p.Parent, c.Draws[i].Counter); !above {
			return nil, counterUnknown(p.UUID, c.Draws[i].Counter)
		}
	}
	counters := slices.Clone(c.Counters)
	slices.SortFunc(counters, func(a, b ledger.Counter) int { return strings.Compare(a.Name, b.Name) })
	for _, old := range p.Counters {
		kept := slices.ContainsFunc(counters, func(c ledger.Counter) bool { return c.Name == old.Name })
		_, above := ledger.CounterAbove(s, p.Parent, old.Name)
		if !kept && !above && slices.Contains(ledger.CountersNeeded(s, p.UUID, old.Name), old.Name) {
			return nil, counterInUse(p.UUID, old.Name)
		}
	}
	return []ledger.Event{ledger.ProviderCountersReplaced{
		Provider: c.Provider, Generation: p.Generation + 1, Counters: counters, Draws: slices.Clone(c.Draws),
	}}, nil
}

func counterUnknown(provider ledger.UUID, counter string) *demand.Rejection {
	return demand.Refuse(demand.CodeCounterUnknown, demand.Facts{Provider: &provider, Name: counter},
		"no provider above %s has a counter %s to draw from", provider, counter)
}

func counterInUse(provider ledger.UUID, counter string) *demand.Rejection {
	return demand.Refuse(demand.CodeCounterInUse, demand.Facts{Provider: &provider, Name: counter},
		"providers below %s draw from its counter %s", provider, counter)
}

// drawsStay rejects a move of a provider below another parent (which may be none) where something
// in its subtree would find no counter to draw from.
func drawsStay(s *ledger.State, p *ledger.Provider, parent ledger.UUID) *demand.Rejection {
	if !s.Drawing() {
		return nil
	}
	for _, missing := range ledger.CountersNeeded(s, p.UUID) {
		if _, above := ledger.CounterAbove(s, parent, missing); !above {
			return counterUnknown(p.UUID, missing)
		}
	}
	return nil
}

// drawKey is an inventory of which more or less is held.
type drawKey struct {
	provider ledger.UUID
	class    ledger.ClassID
}

// counterKey is a counter of a provider.
type counterKey struct {
	provider ledger.UUID
	name     string
}

// checkCounters finds the first counter from which more would be drawn than it has. A counter from
// which too much is drawn already may stay so.
func (g *growth) checkCounters() *demand.Rejection {
	touched := make(map[counterKey]bool)
	for key := range g.drawn {
		p, _ := g.state.Provider(key.provider)
		for _, draw := range p.DrawsOf(key.class) {
			if top, found := ledger.CounterAbove(g.state, p.Parent, draw.Counter); found {
				touched[counterKey{top.UUID, draw.Counter}] = true
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(touched), func(a, b counterKey) int {
		return cmp.Or(a.provider.Compare(b.provider), strings.Compare(a.name, b.name))
	})
	more := func(provider ledger.UUID, class ledger.ClassID) int64 { return g.drawn[drawKey{provider, class}] }
	for _, key := range keys {
		top, _ := g.state.Provider(key.provider)
		if asked, overdraws := ledger.Overdraws(g.state, top, key.name, more); overdraws {
			counter, _ := top.Counter(key.name)
			return counterExceeded(key, counter.Total, ledger.Drawn(g.state, key.provider, key.name, nil), asked)
		}
	}
	return nil
}

func counterExceeded(key counterKey, total, used, asked int64) *demand.Rejection {
	return demand.Refuse(
		demand.CodeCapacityExceeded,
		demand.Facts{Provider: &key.provider, Class: key.name, Asked: asked, Total: total, Ratio: 1, Used: used},
		"%d more of counter %s of provider %s exceeds its total of %d, of which %d are drawn",
		asked, key.name, key.provider, total, used,
	)
}
