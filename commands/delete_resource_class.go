package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteResourceClass removes a custom resource class of which no provider
// has inventory, and its limits with it.
type DeleteResourceClass struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

func (c *DeleteResourceClass) check() *demand.Rejection {
	if c.Name == "" {
		return demand.Invalid("name", "is required")
	}
	return nil
}

func (c *DeleteResourceClass) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	id, rejection := customClass(s, c.Name)
	if rejection != nil {
		return nil, rejection
	}
	if s.ClassInUse(id) {
		return nil, demand.Refuse(
			demand.CodeClassInUse, demand.Facts{Class: c.Name}, "a provider has inventory of resource class %s", c.Name,
		)
	}
	return append(withoutLimits(s, id, c.Name), ledger.ClassDeleted{ID: id, Name: c.Name}), nil
}

// withoutLimits takes away the limits of a class that goes: no command could name them
// any more.
func withoutLimits(s *ledger.State, id ledger.ClassID, name string) (events []ledger.Event) {
	s.Limits(func(l *ledger.Limit) bool {
		if l.Type == "" && l.Class == id {
			events = append(events, ledger.LimitRemoved{Project: l.Project, Class: name})
		}
		return true
	})
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool {
		if l.Class == id {
			events = append(events, ledger.AggregateLimitRemoved{Aggregate: l.Aggregate, Class: name})
		}
		return true
	})
	return events
}
