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
		id := c.Chassis
		return nil, demand.Refuse(
			demand.CodeChassisExists, demand.Facts{Chassis: &id}, "A chassis with UUID %s already exists.", id,
		)
	}
	return []ledger.Event{ledger.ChassisCreated{Chassis: c.Chassis, Description: c.description()}}, nil
}

func chassisNotFound(code demand.Code, id ledger.UUID) *demand.Rejection {
	return demand.Refuse(code, demand.Facts{Chassis: &id}, "Chassis %s could not be found.", id)
}
