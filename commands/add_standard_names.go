package commands

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
