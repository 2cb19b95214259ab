package commands

import (
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// DeleteChassis removes a chassis. No node may be in it.
type DeleteChassis struct {
	noConsumers   `json:"-"`
	operatorsOnly `json:"-"`

	Chassis ledger.UUID `json:"chassis"`
}

// CommandName implements Command.
func (*DeleteChassis) CommandName() string { return "DeleteChassis" }

// Check implements Command.
func (c *DeleteChassis) Check() *Rejection { return checkUUID("chassis", c.Chassis) }

// Decide implements Command.
func (c *DeleteChassis) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	if _, ok := s.Chassis(c.Chassis); !ok {
		return nil, chassisNotFound(CodeChassisNotFound, c.Chassis)
	}
	if s.ChassisInUse(c.Chassis) {
		id := c.Chassis
		return nil, &Rejection{
			Code:    CodeChassisNotEmpty,
			Message: fmt.Sprintf("Cannot complete the requested action because chassis %s contains nodes.", id),
			Facts:   Facts{Chassis: &id},
		}
	}
	return []ledger.Event{ledger.ChassisDeleted{Chassis: c.Chassis}}, nil
}
