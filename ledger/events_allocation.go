package ledger

import "fmt"

// AllocationRecord is an amount of a class on a provider, as an event states it.
// Amounts are in the class's unit, 1..MaxAmount.
type AllocationRecord struct {
	Provider UUID   `json:"provider"`
	Class    string `json:"class"`
	Amount   int64  `json:"amount"`
}

func (r *AllocationRecord) form(c *coder) { c.uuid(&r.Provider).text(&r.Class).int(&r.Amount) }

// AllocationsReplaced states everything that a consumer holds, in order, and its
// owner. The consumer exists from then on, and its generation is the sequence of
// the commit that carries the event.
type AllocationsReplaced struct {
	Consumer    UUID               `json:"consumer"`
	Project     string             `json:"project"`
	User        string             `json:"user"`
	Type        string             `json:"type,omitempty"`
	Allocations []AllocationRecord `json:"allocations"` // at least one
}

func (ev AllocationsReplaced) topic() Topic { return Topic{OfConsumer, ev.Consumer} }

func (ev *AllocationsReplaced) form(c *coder) {
	c.eventFields(5).uuid(&ev.Consumer).text(&ev.Project).text(&ev.User).text(&ev.Type)
	flat(c, "allocations", 3, &ev.Allocations, (*AllocationRecord).form)
}

func (ev AllocationsReplaced) apply(s *State, at moment) error {
	return ev.replace(s, at, at.time, 0, nil)
}

// replace sets the allocations of the consumer, which was created at some time if it
// is new, and makes it a reservation if until is not 0, on which projects may draw;
// nil: those that might before.
func (ev AllocationsReplaced) replace(s *State, at moment, created, until int64, projects []string) error {
	if len(ev.Allocations) == 0 {
		return fmt.Errorf("%w: consumer %s without allocations", ErrInvariant, ev.Consumer)
	}
	after := &Consumer{
		UUID: ev.Consumer, Generation: at.sequence, CreatedAt: created, UpdatedAt: at.time,
		ReservedUntil: until, Projects: projects,
		Owner:       &Owner{Project: ev.Project, User: ev.User, Type: ev.Type},
		Allocations: make([]Allocation, 0, len(ev.Allocations)),
	}
	for _, r := range ev.Allocations {
		id, ok := s.classes.ID(r.Class)
		if !ok {
			return fmt.Errorf("%w: no resource class %q", ErrInvariant, r.Class)
		}
		if r.Amount < 1 || r.Amount > MaxAmount {
			return fmt.Errorf("%w: consumer %s holds %d of %s", ErrInvariant, ev.Consumer, r.Amount, r.Class)
		}
		after.Allocations = append(after.Allocations, Allocation{Provider: r.Provider, Class: id, Amount: r.Amount})
	}
	if haveTwice(after.Allocations) {
		return fmt.Errorf("%w: consumer %s holds a class twice on one provider", ErrInvariant, ev.Consumer)
	}
	before, existed := s.consumerToEdit(ev.Consumer)
	if existed {
		if before.Generation == at.sequence {
			return fmt.Errorf("%w: consumer %s changed twice in commit %d", ErrInvariant, ev.Consumer, at.sequence)
		}
		after.CreatedAt = before.CreatedAt
		if until != 0 && projects == nil {
			after.Projects = before.Projects
		}
		if _, err := s.countUsage(before, -1); err != nil {
			return err
		}
	}
	owner, err := s.countUsage(after, 1)
	if err != nil {
		return err
	}
	after.Owner = owner
	s.setConsumer(before, after)
	return nil
}

// AllocationsReserved is AllocationsReplaced for a reservation: the allocations
// count against the capacity, and are removed when the time is over unless the
// reservation is confirmed before.
type AllocationsReserved struct {
	AllocationsReplaced
	// Lifetime is the duration of the reservation from the record's time, in
	// nanoseconds; 0: it ends at Until.
	Lifetime int64 `json:"lifetime,omitempty"`
	// Until is the end of an existing reservation, in Unix nanoseconds.
	Until int64 `json:"until,omitempty"`
	// Projects may draw on the reservation, beside the consumer's. Without a Lifetime
	// they stay as they are.
	Projects []string `json:"projects,omitempty"`
}

func (ev *AllocationsReserved) form(c *coder) {
	c.eventFields(4)
	ev.AllocationsReplaced.form(c)
	c.int(&ev.Lifetime).int(&ev.Until).names(&ev.Projects)
}

func (ev AllocationsReserved) apply(s *State, at moment) error {
	until, projects := ev.Until, []string(nil)
	if ev.Lifetime > 0 {
		until, projects = at.time+ev.Lifetime, append([]string{}, ev.Projects...)
	}
	if until <= 0 {
		return fmt.Errorf("%w: reservation of consumer %s without an end", ErrInvariant, ev.Consumer)
	}
	return ev.replace(s, at, at.time, until, projects)
}

// ConsumerRemoved states that a consumer holds nothing any more and no longer
// exists.
type ConsumerRemoved struct {
	Consumer UUID `json:"consumer"`
}

func (ev ConsumerRemoved) topic() Topic { return Topic{OfConsumer, ev.Consumer} }

func (ev *ConsumerRemoved) form(c *coder) { c.eventFields(1).uuid(&ev.Consumer) }

func (ev ConsumerRemoved) apply(s *State, at moment) error {
	before, ok := s.consumerToEdit(ev.Consumer)
	if !ok || before.Generation == at.sequence {
		return fmt.Errorf("%w: consumer %s cannot go", ErrInvariant, ev.Consumer)
	}
	if _, err := s.countUsage(before, -1); err != nil {
		return err
	}
	s.setConsumer(before, nil)
	return nil
}
