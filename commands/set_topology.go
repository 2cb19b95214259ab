package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// SetTopology declares under a name which aggregates are domains and which of them are in
// which, in the place of what it declared before. A topology of nothing (null) is removed.
type SetTopology struct {
	operatorsOnly `json:"-"`

	Name     string           `json:"name"` // 1 to 64 letters, digits, "_", "-" and "."
	Topology *demand.Topology `json:"topology" jsonschema:"nullable"`
}

func (c *SetTopology) check() *demand.Rejection {
	if r := demand.CheckPreferenceName(c.Name); r != nil || c.Topology == nil {
		return r
	}
	return c.Topology.Check()
}

func (c *SetTopology) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	before, exists := s.Topology(c.Name)
	if c.Topology == nil {
		if !exists {
			return nil, nil
		}
		return []ledger.Event{ledger.TopologyRemoved{Name: c.Name}}, nil
	}
	after := c.Topology.Kept(c.Name)
	if exists && slices.Equal(before.Levels, after.Levels) && slices.Equal(before.Members, after.Members) {
		return nil, nil
	}
	return []ledger.Event{ledger.TopologySet{Topology: after}}, nil
}
