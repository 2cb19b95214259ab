package commands

import (
	"cmp"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// UpdateChassis changes a chassis by a JSON Patch over ChassisFields (Ironic's
// PATCH of chassis).
type UpdateChassis struct {
	operatorsOnly `json:"-"`

	Chassis ledger.UUID      `json:"chassis"`
	Patch   []PatchOperation `json:"patch"`
}

func (c *UpdateChassis) check() *demand.Rejection {
	return cmp.Or(checkUUID("chassis", c.Chassis), checkPatch(c.Patch))
}

func (c *UpdateChassis) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	before, ok := s.Chassis(c.Chassis)
	if !ok {
		return nil, chassisNotFound(demand.CodeChassisNotFound, c.Chassis)
	}
	var after ChassisFields
	fields := ChassisFields{Description: orNil(before.Description), Extra: before.Extra}
	if rejection := cmp.Or(applyPatch(c.Patch, fields, &after), after.check()); rejection != nil {
		return nil, rejection
	}
	description := after.description()
	if description == before.ChassisDescription {
		return nil, nil
	}
	return []ledger.Event{ledger.ChassisDescribed{Chassis: c.Chassis, Description: description}}, nil
}
