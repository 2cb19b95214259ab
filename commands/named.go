package commands

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// SetPreference gives a preference a name, under which claims and requests for
// candidates may refer to it. Claims that come later are held to what it says
// then. A preference of nothing (null) is removed.
type SetPreference struct {
	operatorsOnly `json:"-"`

	Name   string                  `json:"name"` // 1 to 64 letters, digits, "_", "-" and "."
	Prefer *demand.ClaimPreference `json:"prefer" jsonschema:"nullable"`
}

func (c *SetPreference) check() *demand.Rejection {
	if r := demand.CheckPreferenceName(c.Name); r != nil || c.Prefer == nil {
		return r
	}
	if c.Prefer.Name != "" {
		return demand.Invalid("prefer", "a preference with a name cannot refer to another one, %q", c.Prefer.Name)
	}
	if c.Prefer.Seed != nil {
		return demand.Invalid("prefer", "a seed is of one claim: with a seed for all of them, all would choose the same")
	}
	if len(c.Prefer.Near) > 0 {
		return demand.Invalid("prefer", "which consumers it is near is of one claim: it may stand there beside the name")
	}
	return c.Prefer.Check()
}

func (c *SetPreference) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	before, exists := s.Preference(c.Name)
	if c.Prefer == nil {
		if !exists {
			return nil, nil
		}
		return []ledger.Event{ledger.PreferenceRemoved{Name: c.Name}}, nil
	}
	if r := c.Prefer.CheckNames(s); r != nil {
		return nil, r
	}
	prefer, r := c.Prefer.Document()
	if r != nil || exists && before.Prefer == prefer {
		return nil, r
	}
	return []ledger.Event{ledger.PreferenceSet{Name: c.Name, Prefer: prefer}}, nil
}

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
