package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// A claim may draw on reservations: what its consumers get is taken off what those hold, in
// one record. Several consumers may draw on the same one; each gets all that it asks for from
// the one that it names.

// mayDraw finds a consumer whose project may not draw on the reservation that it names.
func (c *Claim) mayDraw(s *ledger.State) *demand.Rejection {
	for i := range c.For {
		if from := c.For[i].FromReservation; from != nil {
			reserved, _ := s.Consumer(*from)
			if r := demand.MayDraw(reserved, *from, c.For[i].Project); r != nil {
				return r
			}
		}
	}
	return nil
}

// draw takes what members get off the reservations that they name, and returns what those
// hold from then on.
func (a *allocator) draw(members []demand.ClaimConsumer) (rest []ledger.Event, r *demand.Rejection) {
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
