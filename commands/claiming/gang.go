package claiming

import (
	"maps"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// ganged holds what the members so far leave to the next one by one rule.
type ganged struct {
	rule   *demand.GangRule
	left   int // members still to come, the next one included
	first  bool
	common map[ledger.UUID]bool // together: the places that all have
	taken  map[ledger.UUID]bool // apart: the places that some have
	// spread: whether the next member must add a place, and the places that are
	// given to some and cannot be freed for it.
	must bool
	held map[ledger.UUID]bool
}

// gangedBy sums up the places of the members so far.
func gangedBy(rule *demand.GangRule, members [][]ledger.UUID, left int) *ganged {
	g := &ganged{rule: rule, left: left, first: len(members) == 0}
	switch rule.Rule {
	case demand.GangTogether:
		g.common = inAll(members)
	case demand.GangApart:
		g.taken = make(map[ledger.UUID]bool)
		for _, places := range members {
			for _, id := range places {
				g.taken[id] = true
			}
		}
	case demand.GangSpread:
		m := match(members)
		if g.must = len(m.given)+left == rule.Spread.Places; g.must {
			g.held = m.stuck()
		}
	}
	return g
}

// allows reports whether the gang can still obey the rule if its next member is
// in these places.
func (g *ganged) allows(places []ledger.UUID) bool {
	switch g.rule.Rule {
	case demand.GangTogether:
		return slices.ContainsFunc(places, func(id ledger.UUID) bool { return g.first || g.common[id] })
	case demand.GangApart:
		return !slices.ContainsFunc(places, func(id ledger.UUID) bool { return g.taken[id] })
	}
	return !g.must || slices.ContainsFunc(places, func(id ledger.UUID) bool { return !g.held[id] })
}

func inAll(members [][]ledger.UUID) map[ledger.UUID]bool {
	common := make(map[ledger.UUID]bool)
	if len(members) == 0 {
		return common
	}
	for _, id := range members[0] {
		if !slices.ContainsFunc(members[1:], func(places []ledger.UUID) bool { return !slices.Contains(places, id) }) {
			common[id] = true
		}
	}
	return common
}

// matching gives as many members as possible a place each.
type matching struct {
	members [][]ledger.UUID
	given   map[ledger.UUID]int // place: member
}

// match finds the largest matching, by augmenting paths.
func match(members [][]ledger.UUID) *matching {
	m := &matching{members: members, given: make(map[ledger.UUID]int)}
	for i := range members {
		m.place(i, make(map[ledger.UUID]bool))
	}
	return m
}

// place gives a member a place, if need be one whose holder gets another.
func (m *matching) place(member int, tried map[ledger.UUID]bool) bool {
	for _, id := range m.members[member] {
		if tried[id] {
			continue
		}
		tried[id] = true
		if holder, taken := m.given[id]; !taken || m.place(holder, tried) {
			m.given[id] = member
			return true
		}
	}
	return false
}

// stuck are the given places whose holders can get no other, so that a further
// member with none but such places adds none.
func (m *matching) stuck() map[ledger.UUID]bool {
	stuck := make(map[ledger.UUID]bool, len(m.given))
	for id := range m.given {
		stuck[id] = true
	}
	for changed := true; changed; {
		changed = false
		for id, holder := range m.given {
			if stuck[id] && slices.ContainsFunc(m.members[holder], func(other ledger.UUID) bool { return !stuck[other] }) {
				stuck[id], changed = false, true
			}
		}
	}
	maps.DeleteFunc(stuck, func(_ ledger.UUID, is bool) bool { return !is })
	return stuck
}

// standing reads the topology of a claim's gang; nil: it stands in none.
func (s *Search) standing(c *demand.Claim) (*demand.Standing, error) {
	kept, how, r, err := demand.InTopology(c.Gang, c.Size(), s.Named.Topology)
	if r != nil {
		return nil, &demand.Rejected{Rejection: r}
	}
	if kept == nil || err != nil {
		return nil, err
	}
	return &demand.Standing{Kept: kept, How: how}, nil
}

// host is a tree in which some members of a gang stand.
type host struct {
	root   *ledger.Provider
	domain ledger.UUID
	share  int
}

// stand finds places for all consumers in one domain. By what trees have room for that is exact; that
// nothing is found in one of them, also by what some other rule of the claim leaves, makes it uncertain.
func (g *gang) stand() (whole bool, err error) {
	hosts, err := g.hosts()
	if len(hosts) == 0 || err != nil {
		return false, err
	}
	for _, h := range hosts {
		here := candidates.Near{
			Providers: []ledger.UUID{h.root.UUID}, Reach: candidates.SameTree, Rule: candidates.RequireNear,
		}
		g.places = append(g.places, slices.Repeat([]candidates.Near{here}, h.share)...)
	}
	if whole, err = g.first(); !whole && err == nil {
		whole, err = g.fill(0)
	}
	g.spent = !whole
	return whole, err
}

// hosts are the trees of the domain that holds the gang, domain by domain.
func (g *gang) hosts() (hosts []host, err error) {
	room, err := g.Ranking.Capacity(g.ctx, g.requests[0])
	if err != nil {
		return nil, err
	}
	top := demand.TopologyOf(g.standing.Kept)
	var all []demand.Host
	for _, tree := range room.Trees {
		domain, stands := top.DomainOf(tree.Root.Aggregates)
		if stands && !tree.Root.HasTrait(candidates.SharingTrait) {
			hosts = append(hosts, host{root: tree.Root, domain: domain})
			all = append(all, demand.Host{Domain: domain, Room: tree.Copies})
		}
	}
	_, shares, fits := g.standing.How.Fit(top, all, len(g.consumers))
	if !fits {
		g.spent = room.AtLeast < room.AtMost || room.Shared
		return nil, nil
	}
	for i, share := range shares {
		hosts[i].share = share
	}
	hosts = slices.DeleteFunc(hosts, func(h host) bool { return h.share == 0 })
	slices.SortStableFunc(hosts, func(a, b host) int { return a.domain.Compare(b.domain) })
	return hosts, nil
}
