package commands

import (
	"fmt"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// A claim may draw on reservations: what its consumers get is taken off what those hold, in
// one record. Several consumers may draw on the same one; each gets all that it asks for from
// the one that it names.

// Draws reports whether some consumer draws on a reservation.
func (c *Claim) Draws() bool {
	return slices.ContainsFunc(c.For, func(one ClaimConsumer) bool { return one.FromReservation != nil })
}

// checkDraws finds reservations that are none in any State.
func (c *Claim) checkDraws() *demand.Rejection {
	if !c.Draws() {
		return nil
	}
	members := make(map[ledger.UUID]bool)
	for _, one := range c.members() {
		members[one.Consumer] = true
	}
	for i := range c.For {
		from := c.For[i].FromReservation
		if from == nil {
			continue
		}
		if from.IsNil() {
			return demand.Invalid("from_reservation", "%s is no reservation: leave it out, or name one", from)
		}
		if members[*from] {
			return demand.Invalid("from_reservation",
				"%s is a consumer of the claim, too: confirm the reservation instead", from)
		}
	}
	return nil
}

// mayDraw finds a consumer whose project may not draw on the reservation that it names.
func (c *Claim) mayDraw(s *ledger.State) *demand.Rejection {
	for i := range c.For {
		if from := c.For[i].FromReservation; from != nil {
			reserved, _ := s.Consumer(*from)
			if r := mayDraw(reserved, *from, c.For[i].Project); r != nil {
				return r
			}
		}
	}
	return nil
}

// mayDraw says of what a project may not draw on no more than that it is not there.
func mayDraw(reserved *ledger.Consumer, id ledger.UUID, project string) *demand.Rejection {
	if reserved != nil && reserved.ReservedUntil > 0 &&
		(reserved.Owner.Project == project || slices.Contains(reserved.Projects, project)) {
		return nil
	}
	return &demand.Rejection{
		Code: demand.CodeNoReservation,
		Message: fmt.Sprintf("there is no reservation %s that project %s may draw on: "+
			"it must exist, must not have ended or been confirmed, and must name the project", id, project),
		Facts: demand.Facts{Consumer: &id, Project: project},
	}
}

// draw takes what members get off the reservations that they name, and returns what those
// hold from then on.
func (a *allocator) draw(members []ClaimConsumer) (rest []ledger.Event, r *demand.Rejection) {
	var drawn []*ledger.Consumer
	for i := range members {
		from := members[i].FromReservation
		if from == nil {
			continue
		}
		at := slices.IndexFunc(drawn, func(c *ledger.Consumer) bool { return c.UUID == *from })
		if at < 0 {
			reserved, _ := a.state.Consumer(*from)
			left := *reserved
			left.Allocations = slices.Clone(reserved.Allocations)
			at, drawn = len(drawn), append(drawn, &left)
		}
		for j := range a.allocations[i].Resources {
			if r := a.drawOne(drawn[at], members[i].Consumer, &a.allocations[i].Resources[j]); r != nil {
				return nil, r
			}
		}
	}
	for _, one := range drawn {
		rest = append(rest, a.rest(one))
	}
	return rest, nil
}

// drawOne takes an amount off what is left of a reservation.
func (a *allocator) drawOne(left *ledger.Consumer, consumer ledger.UUID, res *ProviderAllocation) *demand.Rejection {
	class, _ := a.state.Classes().ID(res.Class)
	p, _ := a.provider(res.Provider)
	inv, _ := p.Inventory(class)
	at := slices.IndexFunc(left.Allocations, func(l ledger.Allocation) bool {
		return l.Provider == res.Provider && l.Class == class
	})
	if at < 0 || left.Allocations[at].Amount < res.Amount {
		return capacityExceeded(consumer, res, inv, inv.Used)
	}
	left.Allocations[at].Amount -= res.Amount
	a.count(inventoryKey{res.Provider, class}, inv.Used).drawn += res.Amount
	return nil
}

// rest is what a reservation holds once something was drawn: it ends with the last of it.
func (a *allocator) rest(left *ledger.Consumer) ledger.Event {
	event := ledger.AllocationsReserved{Until: left.ReservedUntil, AllocationsReplaced: ledger.AllocationsReplaced{
		Consumer: left.UUID, Project: left.Owner.Project, User: left.Owner.User, Type: left.Owner.Type,
	}}
	for _, held := range left.Allocations {
		if held.Amount > 0 {
			event.Allocations = append(event.Allocations, ledger.AllocationRecord{
				Provider: held.Provider, Class: a.state.Classes().Name(held.Class), Amount: held.Amount,
			})
		}
	}
	if len(event.Allocations) == 0 {
		return ledger.ConsumerRemoved{Consumer: left.UUID}
	}
	return event
}

// pools are Rankings of what is left of the reservations that a claim draws on.
type pools map[ledger.UUID]*candidates.Ranking

// pools makes them of what is not assumed to be drawn by others, which it reports if there is any.
func (s *ClaimSearch) pools(c *Claim, near []candidates.Near) (all pools, promised bool, err error) {
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
		if r := mayDraw(reserved, *from, c.For[i].Project); r != nil {
			return nil, false, &RejectedClaim{r}
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
	one *ClaimConsumer, ranking *candidates.Ranking, pref *candidates.Preference,
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
func (c *Claim) Takes(choice *Choice) (uses []candidates.Use) {
	members := c.members()
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

func (s *ClaimSearch) held(id ledger.UUID) ([]ledger.Allocation, error) {
	consumer, err := s.Consumer(id)
	if consumer == nil {
		return nil, err
	}
	return consumer.Allocations, nil
}
