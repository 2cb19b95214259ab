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
