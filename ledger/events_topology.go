package ledger

import "fmt"

// TopologySet says what a topology is from now on.
type TopologySet struct{ Topology }

func (ev *TopologySet) form(c *coder) {
	c.eventFields(3)
	ev.visit(c)
}

func (ev TopologySet) apply(s *State, _ moment) error {
	if ev.Name == "" || len(ev.Name) > MaxPreferenceName || len(ev.Levels) == 0 {
		return fmt.Errorf("%w: a topology cannot have the name %q and %d levels", ErrInvariant, ev.Name, len(ev.Levels))
	}
	levels := make(map[UUID]uint64, len(ev.Members))
	for _, m := range ev.Members {
		above, known := levels[m.Parent]
		widest := m.Level == 0 && m.Parent.IsNil()
		if m.Level >= uint64(len(ev.Levels)) || !widest && (!known || above+1 != m.Level) {
			return fmt.Errorf("%w: aggregate %s of level %d is in %s", ErrInvariant, m.Aggregate, m.Level, m.Parent)
		}
		levels[m.Aggregate] = m.Level
	}
	before, _ := s.Topology(ev.Name)
	replace(s.topologies, &s.changes.Topologies, before, &ev.Topology)
	return nil
}

// TopologyRemoved says that there is such a topology no more.
type TopologyRemoved struct {
	Name string `json:"name"`
}

func (ev *TopologyRemoved) form(c *coder) { c.eventFields(1).text(&ev.Name) }

func (ev TopologyRemoved) apply(s *State, _ moment) error {
	before, exists := s.Topology(ev.Name)
	if !exists {
		return fmt.Errorf("%w: there is no topology %q", ErrInvariant, ev.Name)
	}
	replace(s.topologies, &s.changes.Topologies, before, nil)
	return nil
}

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
