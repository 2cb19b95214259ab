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

// MaxChassisDescriptionRunes is the longest description of a chassis, in
// characters, as in Ironic.
const MaxChassisDescriptionRunes = 255

// Chassis is an enclosure in which nodes are mounted (Ironic's chassis). A node
// names its chassis in its details, as chassis_uuid. Values reached from a State
// or View are shared and must not be changed.
type Chassis struct {
	UUID   UUID
	Number uint64 // number in the order of creation
	ChassisDescription
	CreatedAt int64 // Unix nanoseconds
	UpdatedAt int64 // Unix nanoseconds; 0: never changed
}

// ChassisDescription holds the fields of a chassis that its operator sets.
type ChassisDescription struct {
	Description string   `json:"description,omitempty"`
	Extra       Document `json:"extra,omitzero"`
}

// Chassis finds a chassis by its uuid.
func (s *State) Chassis(id UUID) (*Chassis, bool) { return s.chassis.Get(&Chassis{UUID: id}) }

// AllChassis calls yield for each chassis in UUID order until it returns false.
func (s *State) AllChassis(yield func(*Chassis) bool) { s.chassis.Scan(yield) }

// ChassisInUse reports whether some node is in the chassis. It scans all nodes,
// because only the deletion of a chassis asks.
func (s *State) ChassisInUse(id UUID) bool {
	text := id.String()
	return some(s.Nodes, func(n *Node) bool { return n.Chassis() == text })
}

func (ch *Chassis) form(c *coder) {
	c.fields("chassis", 5).uuid(&ch.UUID).uint(&ch.Number)
	ch.ChassisDescription.form(c)
	c.int(&ch.CreatedAt).int(&ch.UpdatedAt)
}
