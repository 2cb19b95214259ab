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
		if level == Smallest {
			return Invalid("levels", "%q means the narrowest level, and names none", level)
		}
		if !isName(level) {
			return Invalid("levels", "%q is not %s", level, names)
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

// TopologyGang is how the members of a gang, which all ask for the same, stand in a topology.
type TopologyGang struct {
	// Within is the level of the domain that holds them all, or Smallest.
	Within string
	// Slices has each host hold whole multiples of so many; 0: any number.
	Slices int
	// Spread is the level over whose domains they stand: over as many as possible, and at
	// least two; empty: they stand close together.
	Spread string
}

// Levels is how the rule has a gang stand in its topology.
func (g *GangRule) Levels() *TopologyGang {
	return &TopologyGang{Within: g.Within, Slices: g.Slices, Spread: g.Spread.Level}
}

// Check finds what a topology cannot have, for a number of members.
func (g *TopologyGang) Check(levels []string, members int) *Rejection {
	within, spread := slices.Index(levels, g.Within), slices.Index(levels, g.Spread)
	switch {
	case within < 0 && g.Within != Smallest:
		return Invalid("within", "%q: the levels are %q, and %q is possible", g.Within, levels, Smallest)
	case g.Slices < 0 || g.Slices > 1 && members%g.Slices != 0:
		return Invalid("slices", "%d members are no whole slices of %d", members, g.Slices)
	case g.Spread != "" && spread < 0:
		return Invalid("spread", "%q: the levels are %q", g.Spread, levels)
	case g.Spread != "" && (spread == 0 || spread <= within):
		return Invalid("spread", "%q is not narrower than the domain that holds all", g.Spread)
	case g.Spread != "" && members < 2*max(1, g.Slices):
		return Invalid("spread", "%d members in slices of %d are not for two domains", members, max(1, g.Slices))
	}
	return nil
}

// Host is how many members a host has room for, and the narrowest domain that it is in.
type Host struct {
	Domain ledger.UUID
	Room   int
}

// domain is a domain with what is in it.
type domain struct {
	id       ledger.UUID
	level    int
	room     int // in whole slices, of all in it
	children []*domain
	hosts    []int // that are in none of the children
}

// fit is the search for a domain.
type fit struct {
	hosts  []Host
	slices int
	levels [][]*domain
	shares []int
}

// Fit finds the domain that holds a gang, and how many members each host gets; false: none
// does. Of several that do, it is the one over most of whose domains they can spread, then the
// one with the least room, then the first by its id. Check must have passed.
func (g *TopologyGang) Fit(t *Topology, hosts []Host, members int) (within ledger.UUID, shares []int, ok bool) {
	f := &fit{hosts: hosts, slices: max(1, g.Slices), shares: make([]int, len(hosts))}
	f.domains(t)
	spread := slices.Index(t.Levels, g.Spread)
	first, last := len(t.Levels)-1, 0
	if level := slices.Index(t.Levels, g.Within); level >= 0 {
		first, last = level, level
	} else if spread > 0 {
		first = spread - 1
	}
	for level := first; level >= last; level-- {
		var best *domain
		var parts []*domain
		for _, d := range f.levels[level] {
			over, holds := f.over(d, spread, members)
			if holds && (best == nil || len(over) > len(parts) || len(over) == len(parts) && d.room < best.room) {
				best, parts = d, over
			}
		}
		if best == nil {
			continue
		}
		if spread < 0 {
			f.fill(best, members)
		} else {
			f.spread(parts, members)
		}
		return best.id, f.shares, true
	}
	return within, nil, false
}

// domains makes the domains of all levels, in the order of their ids.
func (f *fit) domains(t *Topology) {
	f.levels = make([][]*domain, len(t.Levels))
	all := make(map[ledger.UUID]*domain, len(t.Members))
	for _, text := range slices.Sorted(maps.Keys(t.Members)) {
		id, _ := ledger.ParseUUID(text) // Check has read it
		d := &domain{id: id, level: slices.Index(t.Levels, t.Members[text].Level)}
		all[id], f.levels[d.level] = d, append(f.levels[d.level], d)
	}
	for i, host := range f.hosts {
		if d := all[host.Domain]; d != nil && f.room(i) > 0 {
			d.hosts = append(d.hosts, i)
			d.room += f.room(i)
		}
	}
	for level := len(t.Levels) - 1; level > 0; level-- {
		for _, d := range f.levels[level] {
			parent := all[*t.Members[d.id.String()].Parent]
			parent.children = append(parent.children, d)
			parent.room += d.room
		}
	}
}

func (f *fit) room(host int) int { return f.hosts[host].Room - f.hosts[host].Room%f.slices }

// over are the domains of a level, in a domain, over which members can spread; without a level
// none are needed. It reports whether the domain holds them so.
func (f *fit) over(d *domain, level, members int) (parts []*domain, holds bool) {
	if level < 0 || d.room < members {
		return nil, d.room >= members
	}
	room := 0
	for _, one := range d.below(level) {
		if room += one.room; one.room > 0 {
			parts = append(parts, one)
		}
	}
	slices.SortStableFunc(parts, func(a, b *domain) int { return cmp.Compare(b.room, a.room) })
	parts = parts[:min(len(parts), members/f.slices)]
	return parts, room >= members && len(parts) >= 2
}

// below are the domains of a level in a domain.
func (d *domain) below(level int) (list []*domain) {
	if d.level == level {
		return []*domain{d}
	}
	for _, child := range d.children {
		list = append(list, child.below(level)...)
	}
	return list
}

// fill gives members to the hosts in a domain, which has room for them: to the smallest part that
// holds all that is left, or else to the largest.
func (f *fit) fill(d *domain, members int) {
	children, hosts := slices.Clone(d.children), slices.Clone(d.hosts)
	slices.SortStableFunc(children, func(a, b *domain) int { return cmp.Compare(a.room, b.room) })
	slices.SortStableFunc(hosts, func(a, b int) int { return cmp.Compare(f.room(a), f.room(b)) })
	for members > 0 {
		child, i := least(children, members, func(d *domain) int { return d.room })
		host, j := least(hosts, members, f.room)
		if i < 0 || j >= 0 && better(f.room(host), child.room, members) {
			f.shares[host] = min(members, f.room(host))
			members -= f.shares[host]
			hosts = slices.Delete(hosts, j, j+1)
			continue
		}
		some := min(members, child.room)
		f.fill(child, some)
		members -= some
		children = slices.Delete(children, i, i+1)
	}
}

// least is the first of a list, sorted by room, that has enough, or else its last; below 0: it is
// empty.
func least[T any](list []T, enough int, room func(T) int) (one T, at int) {
	at, _ = slices.BinarySearchFunc(list, enough, func(one T, enough int) int { return cmp.Compare(room(one), enough) })
	if at = min(at, len(list)-1); at >= 0 {
		one = list[at]
	}
	return one, at
}

// better reports whether a room is better for members than another one: the smaller of two that
// hold them, and else the larger.
func better(room, other, members int) bool {
	if room >= members && other >= members {
		return room <= other
	}
	return room >= other
}

// spread gives members to domains, to all as many as it can.
func (f *fit) spread(parts []*domain, members int) {
	given := make(map[*domain]int, len(parts))
	for open := parts; members > 0; {
		var still []*domain
		for _, d := range open {
			if members == 0 {
				break
			}
			given[d] += f.slices
			members -= f.slices
			if given[d] < d.room {
				still = append(still, d)
			}
		}
		open = still
	}
	for _, d := range parts {
		f.fill(d, given[d])
	}
}
