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

// pools are Rankings of what is left of the reservations that a claim draws on.
type pools map[ledger.UUID]*candidates.Ranking

// pools makes them of what is not assumed to be drawn by others, which it reports if there is any.
func (s *Search) pools(c *demand.Claim, near []candidates.Near) (all pools, promised bool, err error) {
	var beside []ledger.UUID
	for i := range near {
		beside = append(beside, near[i].Providers...)
	}
	for i := range c.For {
		from := c.For[i].FromReservation
		if from == nil {
			continue
		}
		reserved, err := s.Consumer(*from)
		if err != nil {
			return nil, false, err
		}
		if r := demand.MayDraw(reserved, *from, c.For[i].Project); r != nil {
			return nil, false, &demand.Rejected{Rejection: r}
		}
		if all[*from] != nil {
			continue
		}
		left := slices.Clone(reserved.Allocations)
		for j := range left {
			for _, a := range s.Ranking.Assumed(drawnOf(*from, left[j].Provider)) {
				if a.Class == left[j].Class {
					left[j].Amount, promised = left[j].Amount-a.Amount, true
				}
			}
		}
		if all == nil {
			all = make(pools)
		}
		all[*from] = s.Ranking.Held(left, beside)
	}
	return all, promised, nil
}

// of is where a consumer's candidates are looked for, and by what. What is drawn stays within
// its aggregates, and needs no room there.
func (all pools) of(
	one *demand.ClaimConsumer, ranking *candidates.Ranking, pref *candidates.Preference,
) (*candidates.Ranking, *candidates.Preference) {
	if one.FromReservation == nil {
		return ranking, pref
	}
	drawing := *pref
	drawing.Fits = nil
	return all[*one.FromReservation], &drawing
}

// drawnOf is the id under which it is assumed that something of a provider is drawn.
func drawnOf(reservation, provider ledger.UUID) ledger.UUID {
	return reservation.Derive(provider.String())
}

// Takes is what a choice takes, as it is assumed until the claim is decided.
func Takes(c *demand.Claim, choice *demand.Choice) (uses []candidates.Use) {
	members := c.Members()
	for i := range choice.Members {
		from := members[i].FromReservation
		for _, use := range choice.Members[i].Uses {
			if from != nil {
				use.Provider = &ledger.Provider{UUID: drawnOf(*from, use.Provider.UUID)}
			}
			uses = append(uses, use)
		}
	}
	return uses
}

func (s *Search) held(id ledger.UUID) ([]ledger.Allocation, error) {
	consumer, err := s.Consumer(id)
	if consumer == nil {
		return nil, err
	}
	return consumer.Allocations, nil
}
