package commands

import (
	"cmp"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ChassisFields are the fields of a chassis that clients set, by Ironic's names.
// Absent and null mean the same.
type ChassisFields struct {
	Description *string         `json:"description,omitempty"` // at most 255 characters
	Extra       ledger.Document `json:"extra,omitzero"`
}

func (f *ChassisFields) check() *demand.Rejection {
	if text := deref(f.Description); utf8.RuneCountInString(text) > ledger.MaxChassisDescriptionRunes ||
		!utf8.ValidString(text) {
		return demand.Invalid("description", "takes at most %d characters of valid UTF-8", ledger.MaxChassisDescriptionRunes)
	}
	return nil
}

func (f *ChassisFields) description() ledger.ChassisDescription {
	return ledger.ChassisDescription{Description: deref(f.Description), Extra: f.Extra}
}

// CreateChassis makes a chassis. Nodes can then name it as theirs.
type CreateChassis struct {
	operatorsOnly `json:"-"`

	Chassis ledger.UUID `json:"chassis"`
	ChassisFields
}

func (c *CreateChassis) check() *demand.Rejection {
	return cmp.Or(checkUUID("chassis", c.Chassis), c.ChassisFields.check())
}

func (c *CreateChassis) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if _, exists := s.Chassis(c.Chassis); exists {
		return nil, demand.Refuse(demand.CodeChassisExists, demand.Facts{Chassis: &c.Chassis},
			"A chassis with UUID %s already exists.", c.Chassis)
	}
	return []ledger.Event{ledger.ChassisCreated{Chassis: c.Chassis, Description: c.description()}}, nil
}

func chassisNotFound(code demand.Code, id ledger.UUID) *demand.Rejection {
	return demand.Refuse(code, demand.Facts{Chassis: &id}, "Chassis %s could not be found.", id)
}

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
		return nil, demand.Refuse(demand.CodeChassisNotEmpty, demand.Facts{Chassis: &c.Chassis},
			"Cannot complete the requested action because chassis %s contains nodes.", c.Chassis)
	}
	return []ledger.Event{ledger.ChassisDeleted{Chassis: c.Chassis}}, nil
}
