package claiming

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

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
