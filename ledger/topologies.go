package ledger

// Topology declares under a name which aggregates are domains, and which of them are in which.
type Topology struct {
	Name    string           `json:"name"`
	Levels  []string         `json:"levels"`  // from wide to narrow
	Members []TopologyMember `json:"members"` // sorted by level, parent and aggregate
}

// TopologyMember is an aggregate that is a domain.
type TopologyMember struct {
	Aggregate UUID   `json:"aggregate"`
	Level     uint64 `json:"level"` // its place in the levels, from 0
	Name      string `json:"name"`
	Parent    UUID   `json:"parent,omitzero"` // of the level before
}

// Topology finds a topology by its name.
func (s *State) Topology(name string) (*Topology, bool) {
	return s.topologies.Get(&Topology{Name: name})
}

// Topologies calls yield for each topology by name until it returns false.
func (s *State) Topologies(yield func(*Topology) bool) { s.topologies.Scan(yield) }

func (t *Topology) form(c *coder) { c.fields("topology", 3); t.visit(c) }

// visit visits the fields, which an event has, too.
func (t *Topology) visit(c *coder) {
	c.text(&t.Name).strings(&t.Levels)
	flat(c, "members", 4, &t.Members, (*TopologyMember).form)
}

// form has the parent first: mostly it was in the member before, and takes a byte then.
func (m *TopologyMember) form(c *coder) {
	c.uuid(&m.Parent).uuid(&m.Aggregate).uint(&m.Level).text(&m.Name)
}
