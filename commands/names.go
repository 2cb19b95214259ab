package commands

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// CreateTrait makes a custom trait.
type CreateTrait struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"` // CUSTOM_ and A-Z, 0-9, _; at most 255 bytes
}

func (c *CreateTrait) check() *demand.Rejection { return checkCustom(c.Name, "trait") }

func (c *CreateTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if s.HasTrait(c.Name) {
		return nil, demand.Refuse(demand.CodeTraitExists, demand.Facts{Name: c.Name}, "trait %s exists", c.Name)
	}
	return []ledger.Event{ledger.TraitCreated{Name: c.Name}}, nil
}

// DeleteTrait removes a custom trait that no provider carries.
type DeleteTrait struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"`
}

func (c *DeleteTrait) check() *demand.Rejection { return checkGiven("name", c.Name) }

func (c *DeleteTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if !s.HasTrait(c.Name) {
		return nil, demand.TraitUnknown([]string{c.Name})
	}
	if !strings.HasPrefix(c.Name, CustomPrefix) {
		return nil, demand.Refuse(
			demand.CodeTraitStandard, demand.Facts{Name: c.Name}, "trait %s is a standard one", c.Name,
		)
	}
	if s.TraitInUse(c.Name) {
		return nil, demand.Refuse(
			demand.CodeTraitInUse, demand.Facts{Name: c.Name}, "a provider has trait %s", c.Name,
		)
	}
	return []ledger.Event{ledger.TraitDeleted{Name: c.Name}}, nil
}

// CreateResourceClass makes a custom resource class.
type CreateResourceClass struct {
	operatorsOnly `json:"-"`

	Name string `json:"name"` // CUSTOM_ and A-Z, 0-9, _; at most 255 bytes
}

func (c *CreateResourceClass) check() *demand.Rejection { return checkCustom(c.Name, "resource class") }

func (c *CreateResourceClass) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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

func (c *RenameResourceClass) check() *demand.Rejection {
	return checkCustom(c.NewName, "resource class")
}

func (c *RenameResourceClass) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
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

func (c *DeleteResourceClass) check() *demand.Rejection { return checkGiven("name", c.Name) }

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

func checkCustom(name, what string) *demand.Rejection {
	if !isCustom(name) {
		return demand.Invalid("name", "%q is not the name of a custom %s", name, what)
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

//go:embed standard_traits.json
var standardTraitsJSON []byte // os-traits 3.9.0

//go:embed standard_classes.json
var standardClassesJSON []byte // os-resource-classes 1.1.0, in the order of their numbers

// AddStandardNames begins a ledger, and adds the standard traits and resource
// classes that the ledger lacks. Every server submits it once at its start. It
// changes nothing unless the ledger is new, or this server knows more names than
// earlier servers.
type AddStandardNames struct {
	operatorsOnly `json:"-"`

	Ledger  ledger.UUID `json:"ledger"` // the id for the ledger, if it is new
	Classes []string    `json:"classes"`
	Traits  []string    `json:"traits"`
}

// NewAddStandardNames returns the command with the names that this build knows.
func NewAddStandardNames(id ledger.UUID) (*AddStandardNames, error) {
	c := &AddStandardNames{Ledger: id}
	if err := json.Unmarshal(standardTraitsJSON, &c.Traits); err != nil {
		return nil, fmt.Errorf("commands: standard traits: %w", err)
	}
	if err := json.Unmarshal(standardClassesJSON, &c.Classes); err != nil {
		return nil, fmt.Errorf("commands: standard resource classes: %w", err)
	}
	return c, nil
}

func (c *AddStandardNames) check() *demand.Rejection { return checkUUID("ledger", c.Ledger) }

func (c *AddStandardNames) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if s.LedgerID().IsNil() {
		events = append(events, ledger.LedgerCreated{Ledger: c.Ledger})
	}
	var added ledger.StandardNamesAdded
	for i, name := range c.Classes {
		if _, exists := s.Classes().ID(name); !exists {
			added.Classes = append(added.Classes, ledger.StandardClass{ID: ledger.ClassID(i), Name: name})
		}
	}
	for _, name := range c.Traits {
		if !s.HasTrait(name) {
			added.Traits = append(added.Traits, name)
		}
	}
	if len(added.Classes)+len(added.Traits) > 0 {
		events = append(events, added)
	}
	return events, nil
}
