package ledger

import "fmt"

func (d *ChassisDescription) form(c *coder) {
	c.fields("chassis description", 2).text(&d.Description).document(&d.Extra)
}

// ChassisCreated states that a chassis exists.
type ChassisCreated struct {
	Chassis     UUID               `json:"chassis"`
	Description ChassisDescription `json:"description"`
}

func (ev ChassisCreated) topic() Topic { return Topic{OfChassis, ev.Chassis} }

func (ev *ChassisCreated) form(c *coder) {
	c.eventFields(2).uuid(&ev.Chassis)
	ev.Description.form(c)
}

func (ev ChassisCreated) apply(s *State, at moment) error {
	return s.addChassis(&Chassis{UUID: ev.Chassis, ChassisDescription: ev.Description, CreatedAt: at.time}, "created")
}

// addChassis adds a chassis, and numbers it: it is to be created, or imported.
func (s *State) addChassis(ch *Chassis, how string) error {
	if _, exists := s.Chassis(ch.UUID); exists || ch.UUID.IsNil() {
		return fmt.Errorf("%w: chassis %s cannot be %s", ErrInvariant, ch.UUID, how)
	}
	s.numbers++
	ch.Number = s.numbers
	replace(s.chassis, &s.changes.Chassis, nil, ch)
	return nil
}

// ChassisDescribed states all fields of a chassis that its operator sets.
type ChassisDescribed struct {
	Chassis     UUID               `json:"chassis"`
	Description ChassisDescription `json:"description"`
}

func (ev ChassisDescribed) topic() Topic { return Topic{OfChassis, ev.Chassis} }

func (ev *ChassisDescribed) form(c *coder) {
	c.eventFields(2).uuid(&ev.Chassis)
	ev.Description.form(c)
}

func (ev ChassisDescribed) apply(s *State, at moment) error {
	before, ok := s.Chassis(ev.Chassis)
	if !ok {
		return fmt.Errorf("%w: no chassis %s", ErrInvariant, ev.Chassis)
	}
	after := *before
	after.ChassisDescription, after.UpdatedAt = ev.Description, at.time
	replace(s.chassis, &s.changes.Chassis, before, &after)
	return nil
}

// ChassisDeleted states that a chassis is gone. No node was in it.
type ChassisDeleted struct {
	Chassis UUID `json:"chassis"`
}

func (ev ChassisDeleted) topic() Topic { return Topic{OfChassis, ev.Chassis} }

func (ev *ChassisDeleted) form(c *coder) { c.eventFields(1).uuid(&ev.Chassis) }

func (ev ChassisDeleted) apply(s *State, _ moment) error {
	before, ok := s.Chassis(ev.Chassis)
	if !ok {
		return fmt.Errorf("%w: no chassis %s", ErrInvariant, ev.Chassis)
	}
	replace(s.chassis, &s.changes.Chassis, before, nil)
	return nil
}
