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

// Chassis finds a chassis by its uuid.
func (s *State) Chassis(id UUID) (*Chassis, bool) { return s.chassis.Get(&Chassis{UUID: id}) }

// AllChassis calls yield for each chassis in UUID order until it returns false.
func (s *State) AllChassis(yield func(*Chassis) bool) { s.chassis.Scan(yield) }

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

func (ch *Chassis) form(c *coder) {
	c.fields("chassis", 5).uuid(&ch.UUID).uint(&ch.Number)
	ch.ChassisDescription.form(c)
	c.int(&ch.CreatedAt).int(&ch.UpdatedAt)
}
