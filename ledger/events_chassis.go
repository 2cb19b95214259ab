package ledger

import "fmt"

func encodeChassisDescription(e *encoder, d ChassisDescription) {
	e.array(2)
	e.string(d.Description)
	e.string(string(d.Extra))
}

func decodeChassisDescription(d *decoder) ChassisDescription {
	d.exactly(2, "chassis description")
	return ChassisDescription{Description: d.string(), Extra: d.document()}
}

// ChassisCreated says that a chassis exists.
type ChassisCreated struct {
	Chassis     UUID               `json:"chassis"`
	Description ChassisDescription `json:"description"`
}

// EventKind implements Event.
func (ChassisCreated) EventKind() string { return "ChassisCreated" }
func (ChassisCreated) code() eventCode   { return codeChassisCreated }

func (ev ChassisCreated) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Chassis)
	encodeChassisDescription(e, ev.Description)
}

func decodeChassisCreated(d *decoder) Event {
	d.exactly(2, "ChassisCreated")
	return ChassisCreated{Chassis: d.uuid(), Description: decodeChassisDescription(d)}
}

func (ev ChassisCreated) apply(s *State, at moment) error {
	if _, exists := s.Chassis(ev.Chassis); exists || ev.Chassis.IsNil() {
		return fmt.Errorf("%w: chassis %s cannot be created", ErrInvariant, ev.Chassis)
	}
	s.numbers++
	s.setChassis(nil, &Chassis{UUID: ev.Chassis, Number: s.numbers, ChassisDescription: ev.Description, CreatedAt: at.time})
	return nil
}

// ChassisDescribed says what a chassis' operator says about it, all of it.
type ChassisDescribed struct {
	Chassis     UUID               `json:"chassis"`
	Description ChassisDescription `json:"description"`
}

// EventKind implements Event.
func (ChassisDescribed) EventKind() string { return "ChassisDescribed" }
func (ChassisDescribed) code() eventCode   { return codeChassisDescribed }

func (ev ChassisDescribed) encode(e *encoder) {
	e.array(2)
	e.uuid(ev.Chassis)
	encodeChassisDescription(e, ev.Description)
}

func decodeChassisDescribed(d *decoder) Event {
	d.exactly(2, "ChassisDescribed")
	return ChassisDescribed{Chassis: d.uuid(), Description: decodeChassisDescription(d)}
}

func (ev ChassisDescribed) apply(s *State, at moment) error {
	before, ok := s.Chassis(ev.Chassis)
	if !ok {
		return fmt.Errorf("%w: no chassis %s", ErrInvariant, ev.Chassis)
	}
	after := *before
	after.ChassisDescription, after.UpdatedAt = ev.Description, at.time
	s.setChassis(before, &after)
	return nil
}

// ChassisDeleted says that a chassis, which no node was in, is gone.
type ChassisDeleted struct {
	Chassis UUID `json:"chassis"`
}

// EventKind implements Event.
func (ChassisDeleted) EventKind() string { return "ChassisDeleted" }
func (ChassisDeleted) code() eventCode   { return codeChassisDeleted }

func (ev ChassisDeleted) encode(e *encoder) {
	e.array(1)
	e.uuid(ev.Chassis)
}

func decodeChassisDeleted(d *decoder) Event {
	d.exactly(1, "ChassisDeleted")
	return ChassisDeleted{Chassis: d.uuid()}
}

func (ev ChassisDeleted) apply(s *State, _ moment) error {
	before, ok := s.Chassis(ev.Chassis)
	if !ok {
		return fmt.Errorf("%w: no chassis %s", ErrInvariant, ev.Chassis)
	}
	s.setChassis(before, nil)
	return nil
}
