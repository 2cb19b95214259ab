package commands

import (
	"cmp"
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// place counts what is held on a provider, or with an amount below 0 no more, for the
// limited aggregates that it is in and the counters that it draws from.
func (g *growth) place(provider ledger.UUID, class ledger.ClassID, amount int64) {
	if !g.state.AggregatesLimited() && !g.state.Drawing() {
		return
	}
	p, exists := g.state.Provider(provider)
	if !exists {
		return // it comes with the same command, and is in no aggregate
	}
	if len(p.DrawsOf(class)) > 0 {
		g.drawn[drawKey{provider, class}] += amount
	}
	for _, id := range g.state.AggregatesOf(p) {
		key := ledger.AggregateKey{Aggregate: id, Class: class}
		if _, limited := g.state.AggregateLimit(key); limited {
			g.aggregates[key] += amount
		}
	}
}

// checkAggregates finds the first limit of an aggregate that would be gone beyond.
func (g *growth) checkAggregates() *demand.Rejection {
	for _, key := range slices.SortedFunc(maps.Keys(g.aggregates), ledger.AggregateKey.Compare) {
		limit, _ := g.state.AggregateLimit(key)
		if more := g.aggregates[key]; more > 0 && limit.Used+more > limit.Most {
			return demand.OverAggregate(g.state.Classes(), limit, more)
		}
	}
	return nil
}

// ofAggregate reports whether a rejection is about the limit of an aggregate: what
// does not fit into one may fit into another.
func ofAggregate(r *demand.Rejection) bool {
	return r.Code == demand.CodeOverLimit && r.Facts.Aggregate != nil
}

// roomFor says which counter, or limit of an aggregate, events would go beyond: another candidate may
// not.
func roomFor(s *ledger.State, events []ledger.Event) *demand.Rejection {
	if !s.AggregatesLimited() && !s.Drawing() {
		return nil
	}
	grown := growthOf(s, events)
	return cmp.Or(grown.checkCounters(), grown.checkAggregates())
}
