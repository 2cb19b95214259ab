package claiming

import (
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// room is what a search knows of the limits of aggregates.
type room struct {
	search *Search
	limits map[ledger.AggregateKey]*ledger.AggregateLimit
	// own is what the claim's consumers hold, which its decision takes off.
	own map[ledger.AggregateKey]int64
	// before is what was assumed before the claim's first consumer got something.
	before map[ledger.AggregateKey]int64
	// first is the first refusal.
	first *demand.Rejection
}

// room reads the limits; nil: there are none.
func (s *Search) room(c *demand.Claim, members []demand.ClaimConsumer) (*room, error) {
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
				r.first = demand.OverAggregate(r.search.Classes, &limit, more)
			}
			return false
		}
	}
	return true
}
