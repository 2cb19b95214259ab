package commands

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// DeleteChassis removes a chassis. No node may be in it.
type DeleteChassis struct {
	operatorsOnly `json:"-"`

	Chassis ledger.UUID `json:"chassis"`
}

func (c *DeleteChassis) check() *demand.Rejection { return checkUUID("chassis", c.Chassis) }

func (c *DeleteChassis) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, ok := s.Chassis(c.Chassis); !ok {
		return nil, chassisNotFound(demand.CodeChassisNotFound, c.Chassis)
	}
	if s.ChassisInUse(c.Chassis) {
		id := c.Chassis
		return nil, demand.Refuse(
			demand.CodeChassisNotEmpty, demand.Facts{Chassis: &id},
			"Cannot complete the requested action because chassis %s contains nodes.", id,
		)
	}
	return []ledger.Event{ledger.ChassisDeleted{Chassis: c.Chassis}}, nil
}
