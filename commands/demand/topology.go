package demand

import (
	"cmp"
	"maps"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Bounds of topologies.
const (
	MaxTopologyLevels  = 8
	MaxTopologyMembers = 16384
)

// Topology says which aggregates are domains, and which of them are in which: such as racks in
// blocks.
type Topology struct {
	Levels  []string                  `json:"levels"`  // from wide to narrow
	Members map[string]TopologyMember `json:"members"` // by the aggregate's uuid
}

// TopologyMember is a domain. That it is in is of the next wider level; one of the widest is in none.
type TopologyMember struct {
	Level  string       `json:"level"`
	Name   string       `json:"name"`
	Parent *ledger.UUID `json:"parent,omitempty"`
}

// Smallest asks for a domain of whichever level is narrowest, so no level has that name.
const Smallest = "smallest"

// Check finds what is no topology. Since a domain is in one of the next wider level, none is in
// itself.
func (t *Topology) Check() *Rejection {
	if n := len(t.Levels); n == 0 || n > MaxTopologyLevels {
		return Invalid("levels", "a topology has 1 to %d levels, not %d", MaxTopologyLevels, n)
	}
	if n := len(t.Members); n > MaxTopologyMembers {
		return Invalid("members", "a topology has up to %d members, not %d", MaxTopologyMembers, n)
	}
	for i, level := range t.Levels {
		if !isName(level) || level == Smallest {
			return Invalid("levels", "%q is not %s, or is %q", level, names, Smallest)
		}
		if slices.Contains(t.Levels[:i], level) {
			return Invalid("levels", "%q is named twice", level)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Members)) {
		if r := t.checkMember(id, t.Members[id]); r != nil {
			return r
		}
	}
	return nil
}

func (t *Topology) checkMember(id string, one TopologyMember) *Rejection {
	aggregate, err := ledger.ParseUUID(id)
	level := slices.Index(t.Levels, one.Level)
	switch {
	case err != nil || aggregate.IsNil():
		return Invalid("members", "%q is no aggregate: name it by its uuid", id)
	case id != aggregate.String():
		return Invalid("members", "%s is written otherwise: %s", id, aggregate)
	case level < 0:
		return Invalid("members", "%s is of level %q, and the levels are %q", id, one.Level, t.Levels)
	case !isName(one.Name):
		return Invalid("members", "%s has the name %q, which is not %s", id, one.Name, names)
	case level == 0 && one.Parent != nil:
		return Invalid("members", "%s is of the widest level, %q, and has parent %s: leave it out", id, one.Level, one.Parent)
	case level > 0 && one.Parent == nil:
		return Invalid("members", "%s is of level %q, and has no parent: name one of level %q",
			id, one.Level, t.Levels[level-1])
	case level > 0:
		parent, known := t.Members[one.Parent.String()]
		if !known {
			return Invalid("members", "%s has parent %s, which is no member", id, one.Parent)
		}
		if parent.Level != t.Levels[level-1] {
			return Invalid("members", "%s is of level %q, and its parent %s of level %q instead of %q",
				id, one.Level, one.Parent, parent.Level, t.Levels[level-1])
		}
	}
	return nil
}

// Kept is a topology as the ledger keeps it.
func (t *Topology) Kept(name string) ledger.Topology {
	out := ledger.Topology{Name: name, Levels: t.Levels}
	for text, one := range t.Members {
		id, _ := ledger.ParseUUID(text) // Check has read it
		member := ledger.TopologyMember{Aggregate: id, Level: uint64(slices.Index(t.Levels, one.Level)), Name: one.Name}
		if one.Parent != nil {
			member.Parent = *one.Parent
		}
		out.Members = append(out.Members, member)
	}
	slices.SortFunc(out.Members, func(a, b ledger.TopologyMember) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), a.Parent.Compare(b.Parent), a.Aggregate.Compare(b.Aggregate))
	})
	return out
}

// TopologyOf is the reverse of Kept.
func TopologyOf(kept *ledger.Topology) *Topology {
	t := &Topology{Levels: kept.Levels, Members: make(map[string]TopologyMember, len(kept.Members))}
	for _, one := range kept.Members {
		member := TopologyMember{Level: kept.Levels[one.Level], Name: one.Name}
		if !one.Parent.IsNil() {
			member.Parent = &one.Parent
		}
		t.Members[one.Aggregate.String()] = member
	}
	return t
}

// DomainOf is the narrowest domain among some aggregates; of several, the first by its id.
func (t *Topology) DomainOf(aggregates []ledger.UUID) (domain ledger.UUID, is bool) {
	narrowest := -1
	for _, id := range aggregates {
		one, member := t.Members[id.String()]
		level := slices.Index(t.Levels, one.Level)
		if member && (level > narrowest || level == narrowest && id.Before(domain)) {
			domain, narrowest = id, level
		}
	}
	return domain, narrowest >= 0
}
