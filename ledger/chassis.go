package ledger

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

// ChassisChange is one change of a chassis.
type ChassisChange struct{ Before, After *Chassis }

type chassisEntry struct {
	id UUID
	c  *Chassis
}

// Chassis finds a chassis by its uuid.
func (s *State) Chassis(id UUID) (*Chassis, bool) {
	entry, ok := s.chassis.Get(chassisEntry{id: id})
	return entry.c, ok
}

// AllChassis calls yield for each chassis in UUID order until it returns false.
func (s *State) AllChassis(yield func(*Chassis) bool) {
	s.chassis.Scan(func(entry chassisEntry) bool { return yield(entry.c) })
}

// ChassisInUse reports whether some node is in the chassis. It scans all nodes,
// because only the deletion of a chassis asks.
func (s *State) ChassisInUse(id UUID) bool {
	found, text := false, id.String()
	s.Nodes(func(n *Node) bool {
		found = n.Chassis() == text
		return !found
	})
	return found
}

// setChassis replaces one version of a chassis by another; nil means that it does
// not exist.
func (s *State) setChassis(before, after *Chassis) {
	s.changes.Chassis = append(s.changes.Chassis, ChassisChange{Before: before, After: after})
	s.indexChassis(before, after)
}

func (s *State) indexChassis(before, after *Chassis) {
	if after == nil {
		s.chassis.Delete(chassisEntry{id: before.UUID})
		return
	}
	s.chassis.Set(chassisEntry{after.UUID, after})
}

func (ch *Chassis) form(c *coder) {
	c.fields("chassis", 5).uuid(&ch.UUID).uint(&ch.Number)
	ch.ChassisDescription.form(c)
	c.int(&ch.CreatedAt).int(&ch.UpdatedAt)
}
