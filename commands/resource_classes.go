package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func checkCustomClass(name string) *demand.Rejection {
	if !isCustom(name) {
		return demand.Invalid("name", "%q is not the name of a custom resource class", name)
	}
	return nil
}

func classExists(name string) *demand.Rejection {
	return demand.Refuse(demand.CodeClassExists, demand.Facts{Class: name}, "resource class %s exists", name)
}

// customClass finds a class that clients may change.
func customClass(s *ledger.State, name string) (ledger.ClassID, *demand.Rejection) {
	id, ok := s.Classes().ID(name)
	if !ok {
		return 0, demand.ClassUnknown(name)
	}
	if id < ledger.FirstCustomClass {
		return 0, demand.Refuse(
			demand.CodeClassStandard, demand.Facts{Class: name}, "resource class %s is a standard one", name,
		)
	}
	return id, nil
}

// CreateResourceClass makes a custom resource class.
type CreateResourceClass struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"` // CUSTOM_ and A-Z, 0-9, _; at most 255 bytes
}

func (c *CreateResourceClass) Check() *demand.Rejection { return checkCustomClass(c.Name) }

func (c *CreateResourceClass) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Classes().ID(c.Name); exists {
		return nil, classExists(c.Name)
	}
	return []ledger.Event{ledger.ClassCreated{ID: s.NextClassID(), Name: c.Name}}, nil
}

// RenameResourceClass gives a custom resource class another name
// (microversions 1.2-1.6). Inventories and allocations of it stay.
type RenameResourceClass struct {
	operatorsOnly `json:"-"`

	Name    string `json:"name"`
	NewName string `json:"new_name"`
}

func (c *RenameResourceClass) Check() *demand.Rejection { return checkCustomClass(c.NewName) }

func (c *RenameResourceClass) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	id, rejection := customClass(s, c.Name)
	if rejection != nil {
		return nil, rejection
	}
	if c.Name == c.NewName {
		return nil, nil
	}
	if _, exists := s.Classes().ID(c.NewName); exists {
		return nil, classExists(c.NewName)
	}
	if s.NodeProviders() && s.HasNodeClass(func(class string) bool { return NodeClassName(class) == c.Name }) {
		return nil, demand.Refuse(
			demand.CodeNodeIsProvider, demand.Facts{Class: c.Name}, "resource class %s is that of bare metal nodes", c.Name,
		)
	}
	return []ledger.Event{ledger.ClassRenamed{ID: id, Name: c.NewName}}, nil
}

// DeleteResourceClass removes a custom resource class of which no provider
// has inventory, and its limits with it.
type DeleteResourceClass struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

func (c *DeleteResourceClass) Check() *demand.Rejection {
	if c.Name == "" {
		return demand.Invalid("name", "is required")
	}
	return nil
}

func (c *DeleteResourceClass) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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
