package commands

import (
	"fmt"
	"math"
	"time"

	"github.com/allot-project/allot/ledger"
)

// MaxReservationSeconds is the longest that a reservation can last: a year.
const MaxReservationSeconds = 366 * 24 * 3600

// Reserve is the first phase of an allocation in two: what the consumers get
// counts against capacity like any allocation, and is shown as one, until
// ConfirmReservation makes it last, CancelReservation gives it back, or the
// time is over. Everything else is as with AllocateForConsumers. A consumer
// that holds something for good cannot be made a reservation.
type Reserve struct {
	Allocations []ConsumerAllocations `json:"allocations"`
	// Seconds is how long the reservation lasts, from the time of its record;
	// above 0, up to a year, with a precision of nanoseconds.
	Seconds float64 `json:"seconds"`
}

// CommandName implements Command.
func (*Reserve) CommandName() string { return "Reserve" }

// Consumers implements Command.
func (c *Reserve) Consumers() []ledger.UUID {
	return (&AllocateForConsumers{Allocations: c.Allocations}).Consumers()
}

// Check implements Command.
func (c *Reserve) Check() *Rejection {
	if math.IsNaN(c.Seconds) || c.Seconds <= 0 || c.Seconds > MaxReservationSeconds || c.lifetime() <= 0 {
		return invalid("seconds", "%v is not above 0 and up to %d", c.Seconds, MaxReservationSeconds)
	}
	for i := range c.Allocations {
		if len(c.Allocations[i].Resources) == 0 {
			return invalid("resources", "a reservation holds something: consumer %s asks for nothing", c.Allocations[i].Consumer)
		}
	}
	return (&AllocateForConsumers{Allocations: c.Allocations}).Check()
}

func (c *Reserve) lifetime() int64 { return int64(c.Seconds * float64(time.Second)) }

func (*Reserve) onlyHoldings() {}

// ForProject implements Command.
func (c *Reserve) ForProject(s *ledger.State, project string) *Rejection {
	return checkOwners(s, c.Allocations, project)
}

// Decide implements Command.
func (c *Reserve) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	a := newAllocator(s, c.Allocations)
	a.lifetime = c.lifetime()
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
	return a.decide()
}

func notReserved(id ledger.UUID) *Rejection {
	return &Rejection{
		Code: CodeNotReserved, Message: fmt.Sprintf("what consumer %s holds is allocated for good", id),
		Facts: Facts{Consumer: &id},
	}
}

// reservation finds a reservation that a command is about.
func reservation(s *ledger.State, id ledger.UUID) (*ledger.Consumer, *Rejection) {
	consumer, ok := s.Consumer(id)
	if !ok {
		return nil, consumerNotFound(id)
	}
	if consumer.ReservedUntil == 0 {
		return nil, notReserved(id)
	}
	return consumer, nil
}

// ConfirmReservation makes what a consumer has reserved its own for good. It
// is possible until the end of the reservation is recorded.
type ConfirmReservation struct {
	Consumer ledger.UUID `json:"consumer"`
}

// CommandName implements Command.
func (*ConfirmReservation) CommandName() string { return "ConfirmReservation" }

// Consumers implements Command.
func (c *ConfirmReservation) Consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

// Check implements Command.
func (c *ConfirmReservation) Check() *Rejection { return checkUUID("consumer", c.Consumer) }

func (*ConfirmReservation) onlyHoldings() {}

// ForProject implements Command.
func (c *ConfirmReservation) ForProject(s *ledger.State, project string) *Rejection {
	return checkHolder(s, c.Consumer, project)
}

// Decide implements Command.
func (c *ConfirmReservation) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	consumer, rejection := reservation(s, c.Consumer)
	if rejection != nil {
		return nil, rejection
	}
	event := ledger.AllocationsReplaced{
		Consumer: consumer.UUID, Project: consumer.Owner.Project, User: consumer.Owner.User, Type: consumer.Owner.Type,
	}
	for _, held := range consumer.Allocations {
		event.Allocations = append(event.Allocations, ledger.AllocationRecord{
			Provider: held.Provider, Class: s.Classes().Name(held.Class), Amount: held.Amount,
		})
	}
	return []ledger.Event{event}, nil
}

// CancelReservation gives back what a consumer has reserved.
type CancelReservation struct {
	Consumer ledger.UUID `json:"consumer"`
}

// CommandName implements Command.
func (*CancelReservation) CommandName() string { return "CancelReservation" }

// Consumers implements Command.
func (c *CancelReservation) Consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

// Check implements Command.
func (c *CancelReservation) Check() *Rejection { return checkUUID("consumer", c.Consumer) }

func (*CancelReservation) onlyHoldings() {}

// ForProject implements Command.
func (c *CancelReservation) ForProject(s *ledger.State, project string) *Rejection {
	return checkHolder(s, c.Consumer, project)
}

// Decide implements Command.
func (c *CancelReservation) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	consumer, rejection := reservation(s, c.Consumer)
	if rejection != nil {
		return nil, rejection
	}
	return removeConsumer(s, consumer), nil
}

// ExpireReservation takes away what a consumer reserved and nobody confirmed
// in time. The server submits it, with its clock; a reservation that was
// confirmed, cancelled or made anew is left alone.
type ExpireReservation struct {
	operatorsOnly `json:"-"`

	Consumer ledger.UUID `json:"consumer"`
	Now      int64       `json:"now"` // Unix nanoseconds
}

// CommandName implements Command.
func (*ExpireReservation) CommandName() string { return "ExpireReservation" }

// Consumers implements Command.
func (c *ExpireReservation) Consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

// Check implements Command.
func (c *ExpireReservation) Check() *Rejection { return checkUUID("consumer", c.Consumer) }

func (*ExpireReservation) onlyHoldings() {}

// Decide implements Command.
func (c *ExpireReservation) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	consumer, ok := s.Consumer(c.Consumer)
	if !ok || consumer.ReservedUntil == 0 || consumer.ReservedUntil > c.Now {
		return nil, nil
	}
	return removeConsumer(s, consumer), nil
}
