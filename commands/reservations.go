package commands

import (
	"math"
	"slices"
	"time"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

const (
	// MaxReservationSeconds is the longest duration of a reservation: a year.
	MaxReservationSeconds = 366 * 24 * 3600
	// MaxReservationProjects is how many projects a reservation names.
	MaxReservationProjects = 256
)

// Reserve is the first phase of a two-phase allocation. Its allocations count
// against the capacity like any others and are shown like them, until
// ConfirmReservation makes them permanent, CancelReservation releases them, or
// the time is over. Otherwise it follows the rules of AllocateForConsumers. A
// consumer with permanent allocations cannot become a reservation.
type Reserve struct {
	Allocations []ConsumerAllocations `json:"allocations"`
	// Seconds is the duration of the reservation from the time of its record:
	// above 0, at most a year, with a precision of nanoseconds.
	Seconds float64 `json:"seconds"`
	// Projects may draw on the reservation with claims, beside the consumer's.
	Projects []string `json:"projects,omitempty"`
}

func (c *Reserve) consumers() []ledger.UUID { return consumersOf(c.Allocations) }

func (c *Reserve) check() *demand.Rejection {
	if math.IsNaN(c.Seconds) || c.Seconds <= 0 || c.Seconds > MaxReservationSeconds || c.lifetime() <= 0 {
		return demand.Invalid("seconds", "%v is not above 0 and at most %d", c.Seconds, MaxReservationSeconds)
	}
	if n := len(c.Projects); n > MaxReservationProjects {
		return demand.Invalid("projects", "a reservation names up to %d, not %d", MaxReservationProjects, n)
	}
	for i, project := range c.Projects {
		if r := checkOwner("projects", project); r != nil {
			return r
		}
		if slices.Contains(c.Projects[:i], project) {
			return demand.Invalid("projects", "%s is named twice", project)
		}
	}
	for i := range c.Allocations {
		if len(c.Allocations[i].Resources) == 0 {
			return demand.Invalid("resources", "a reservation must hold something, but consumer %s asks for nothing", c.Allocations[i].Consumer)
		}
	}
	return (&AllocateForConsumers{Allocations: c.Allocations}).check()
}

func (c *Reserve) lifetime() int64 { return int64(c.Seconds * float64(time.Second)) }

func (*Reserve) onlyHoldings() {}

func (c *Reserve) forProject(s *ledger.State, project string) *demand.Rejection {
	return checkOwners(s, c.Allocations, project)
}

func (c *Reserve) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a := newAllocator(s, c.Allocations)
	a.lifetime, a.projects = c.lifetime(), c.Projects
	if r := a.checkGenerations(); r != nil {
		return nil, r
	}
	for _, consumer := range a.before {
		if consumer != nil && consumer.ReservedUntil == 0 {
			return nil, notReserved(consumer.UUID)
		}
	}
	if r := a.checkProvidersExist(); r != nil {
		return nil, r
	}
	return a.events()
}

func notReserved(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeNotReserved, demand.Facts{Consumer: &id}, "what consumer %s holds is allocated for good", id,
	)
}

func reservation(s *ledger.State, id ledger.UUID) (*ledger.Consumer, *demand.Rejection) {
	consumer, ok := s.Consumer(id)
	if !ok {
		return nil, consumerNotFound(id)
	}
	if consumer.ReservedUntil == 0 {
		return nil, notReserved(id)
	}
	return consumer, nil
}

// ConfirmReservation makes a consumer's reservation permanent. It is possible
// until the end of the reservation is recorded.
type ConfirmReservation struct {
	Consumer ledger.UUID `json:"consumer"`
}

func (c *ConfirmReservation) consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

func (c *ConfirmReservation) check() *demand.Rejection { return checkUUID("consumer", c.Consumer) }

func (*ConfirmReservation) onlyHoldings() {}

func (c *ConfirmReservation) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideHolder(s, c.Consumer, project)
}

func (c *ConfirmReservation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	consumer, rejection := reservation(s, c.Consumer)
	if rejection != nil {
		return nil, rejection
	}
	return []ledger.Event{holdings(s, consumer, func(ledger.Allocation) bool { return true })}, nil
}

// CancelReservation releases what a consumer has reserved.
type CancelReservation struct {
	Consumer ledger.UUID `json:"consumer"`
}

func (c *CancelReservation) consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

func (c *CancelReservation) check() *demand.Rejection { return checkUUID("consumer", c.Consumer) }

func (*CancelReservation) onlyHoldings() {}

func (c *CancelReservation) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideHolder(s, c.Consumer, project)
}

func (c *CancelReservation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	consumer, rejection := reservation(s, c.Consumer)
	if rejection != nil {
		return nil, rejection
	}
	return removeConsumer(s, consumer), nil
}

// ExpireReservation releases what a consumer reserved and did not confirm in time. The
// server submits it, with the server's clock. It changes nothing if the reservation was
// confirmed, cancelled or made anew.
type ExpireReservation struct {
	operatorsOnly `json:"-"`

	Consumer ledger.UUID `json:"consumer"`
	Now      int64       `json:"now"` // Unix nanoseconds
}

func (c *ExpireReservation) consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

func (c *ExpireReservation) check() *demand.Rejection { return checkUUID("consumer", c.Consumer) }

func (*ExpireReservation) onlyHoldings() {}

func (c *ExpireReservation) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	consumer, ok := s.Consumer(c.Consumer)
	if !ok || consumer.ReservedUntil == 0 || consumer.ReservedUntil > c.Now {
		return nil, nil
	}
	return removeConsumer(s, consumer), nil
}
