package commands

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
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
			return overAggregate(g.state.Classes(), limit, more)
		}
	}
	return nil
}

func overAggregate(classes *ledger.ClassTable, limit *ledger.AggregateLimit, more int64) *demand.Rejection {
	most, aggregate, class := limit.Most, limit.Aggregate, classes.Name(limit.Class)
	return &demand.Rejection{
		Code: demand.CodeOverLimit,
		Message: fmt.Sprintf("%d more of %s would be held in aggregate %s: its limit is %d, and %d are used",
			more, class, aggregate, most, limit.Used),
		Facts: demand.Facts{Aggregate: &aggregate, Class: class, Limit: &most, Used: limit.Used, Asked: more},
	}
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

// room is what a search knows of the limits of aggregates.
type room struct {
	search *ClaimSearch
	limits map[ledger.AggregateKey]*ledger.AggregateLimit
	// own is what the claim's consumers hold, which its decision takes off.
	own map[ledger.AggregateKey]int64
	// before is what was assumed before the claim's first consumer got something.
	before map[ledger.AggregateKey]int64
	// first is the first refusal.
	first *demand.Rejection
}

// room reads the limits; nil: there are none.
func (s *ClaimSearch) room(c *Claim) (*room, error) {
	if len(s.Limits) == 0 {
		return nil, nil
	}
	r := &room{
		search: s, limits: make(map[ledger.AggregateKey]*ledger.AggregateLimit, len(s.Limits)),
		own: make(map[ledger.AggregateKey]int64), before: make(map[ledger.AggregateKey]int64),
	}
	s.Ranking.CountAggregates()
	for _, l := range s.Limits {
		r.limits[l.AggregateKey], r.before[l.AggregateKey] = l, s.Ranking.AssumedIn(l.AggregateKey)
	}
	if c.OwnFree {
		return r, nil // it is assumed to be given back
	}
	members := c.members()
	for i := range members {
		held, err := s.held(members[i].Consumer)
		if err != nil {
			return nil, err
		}
		for _, a := range held {
			if p, known := s.Ranking.Provider(a.Provider); known {
				r.add(r.own, p, a.Class, a.Amount)
			}
		}
	}
	return r, nil
}

// add adds for the limited aggregates of a provider.
func (r *room) add(sums map[ledger.AggregateKey]int64, p *ledger.Provider, class ledger.ClassID, amount int64) {
	root, _ := r.search.Ranking.Provider(p.Root)
	for _, id := range ledger.WithRoot(p, root) {
		key := ledger.AggregateKey{Aggregate: id, Class: class}
		if _, limited := r.limits[key]; limited {
			sums[key] += amount
		}
	}
}

// fits reports whether the aggregates have room for a candidate, beside what the claim's
// consumers before it get.
func (r *room) fits(uses []candidates.Use) bool {
	asked := make(map[ledger.AggregateKey]int64)
	for _, use := range uses {
		r.add(asked, use.Provider, use.Class, use.Amount)
	}
	for _, key := range slices.SortedFunc(maps.Keys(asked), ledger.AggregateKey.Compare) {
		limit := *r.limits[key]
		limit.Used += r.before[key]
		got := r.search.Ranking.AssumedIn(key) - r.before[key]
		if more := got + asked[key] - r.own[key]; more > 0 && limit.Used+more > limit.Most {
			if r.first == nil {
				r.first = overAggregate(r.search.Classes, &limit, more)
			}
			return false
		}
	}
	return true
}
