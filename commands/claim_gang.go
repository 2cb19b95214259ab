package commands

import (
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Rules of a gang.
const (
	gangTogether = "together"
	gangApart    = "apart"
	gangSpread   = "spread"

	maxGangRules = 8
)

// GangRule is about where the consumers of one claim are to each other. Sharing
// providers count for nothing. Its members stand in the order of their names, as
// they are kept.
type GangRule struct {
	// Among are the aggregates that count, by aggregate; absent: all.
	Among []ledger.UUID `json:"among,omitempty"`
	// By says what a place is: "provider", "tree" or "aggregate". What an aggregate's
	// root is in, its tree is in.
	By string `json:"by"`
	// Rule is "together", all of them have a place in common; "apart", no two of them
	// have; or "spread", over so many places at least.
	Rule string `json:"rule"`
	// Spread is how many consumers can each be given a place that is none of the
	// others', with the rule of that name.
	Spread int `json:"spread,omitempty"`
}

func (g *GangRule) check(consumers int) *Rejection {
	if _, known := reaches[g.By]; !known {
		return invalid("gang", "by %q: \"provider\", \"tree\" and \"aggregate\" are possible", g.By)
	}
	if len(g.Among) > 0 && g.By != "aggregate" || len(g.Among) > maxNames {
		return invalid("gang", "among is of rules by aggregate, and names up to %d", maxNames)
	}
	switch {
	case g.Rule != gangTogether && g.Rule != gangApart && g.Rule != gangSpread:
		return invalid("gang", "a rule %q: %q, %q and %q are possible", g.Rule, gangTogether, gangApart, gangSpread)
	case (g.Rule == gangSpread) != (g.Spread != 0):
		return invalid("gang", "spread is of the rule of that name, and says over how many")
	case g.Rule == gangSpread && (g.Spread < 2 || g.Spread > consumers):
		return invalid("gang", "%d consumers cannot be spread over %d: 2 to %d are possible", consumers, g.Spread, consumers)
	}
	return nil
}

// checkGang finds rules that contradict each other whatever the State.
func (c *Claim) checkGang() *Rejection {
	if len(c.Gang) == 0 {
		return nil
	}
	size := c.size()
	if size < 2 || len(c.Gang) > maxGangRules {
		return invalid("gang", "up to %d rules of at least 2 consumers: not %d of %d", maxGangRules, len(c.Gang), size)
	}
	for i := range c.Gang {
		if r := c.Gang[i].check(size); r != nil {
			return r
		}
	}
	for i := range c.Gang {
		together := &c.Gang[i]
		if together.Rule != gangTogether || together.By == "aggregate" {
			continue
		}
		for j := range c.Gang {
			// What has a provider in common has a tree in common.
			other := &c.Gang[j]
			if other.Rule == gangApart && (other.By == together.By || other.By == "tree") {
				return invalid("gang", "together by %s contradicts apart by %s", together.By, other.By)
			}
		}
	}
	return nil
}

// ganged holds what the members so far leave to the next one by one rule.
type ganged struct {
	rule   *GangRule
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
func gangedBy(rule *GangRule, members [][]ledger.UUID, left int) *ganged {
	g := &ganged{rule: rule, left: left, first: len(members) == 0}
	switch rule.Rule {
	case gangTogether:
		g.common = inAll(members)
	case gangApart:
		g.taken = make(map[ledger.UUID]bool)
		for _, places := range members {
			for _, id := range places {
				g.taken[id] = true
			}
		}
	case gangSpread:
		m := match(members)
		if g.must = len(m.given)+left == rule.Spread; g.must {
			g.held = m.stuck()
		}
	}
	return g
}

// allows reports whether the gang can still obey the rule if its next member is
// in these places.
func (g *ganged) allows(places []ledger.UUID) bool {
	switch g.rule.Rule {
	case gangTogether:
		return slices.ContainsFunc(places, func(id ledger.UUID) bool { return g.first || g.common[id] })
	case gangApart:
		return !slices.ContainsFunc(places, func(id ledger.UUID) bool { return g.taken[id] })
	}
	return !g.must || slices.ContainsFunc(places, func(id ledger.UUID) bool { return !g.held[id] })
}

// inAll are the places that all members have.
func inAll(members [][]ledger.UUID) map[ledger.UUID]bool {
	common := make(map[ledger.UUID]bool)
	if len(members) == 0 {
		return common
	}
	for _, id := range members[0] {
		common[id] = true
		for _, places := range members[1:] {
			common[id] = common[id] && slices.Contains(places, id)
		}
		if !common[id] {
			delete(common, id)
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
	for id, is := range stuck {
		if !is {
			delete(stuck, id)
		}
	}
	return stuck
}

// placesBy are the places of a candidate by a rule, each once.
func (g *GangRule) placesBy(
	providers []*ledger.Provider, rootOf func(*ledger.Provider) *ledger.Provider,
) (places []ledger.UUID) {
	add := func(id ledger.UUID) {
		if !slices.Contains(places, id) && (len(g.Among) == 0 || slices.Contains(g.Among, id)) {
			places = append(places, id)
		}
	}
	for _, p := range providers {
		if p.HasTrait(candidates.SharingTrait) {
			continue
		}
		switch reaches[g.By] {
		case candidates.SameProvider:
			add(p.UUID)
		case candidates.SameTree:
			add(p.Root)
		case candidates.SameAggregate:
			for _, id := range p.Aggregates {
				add(id)
			}
			if root := rootOf(p); root != nil && root != p {
				for _, id := range root.Aggregates {
					add(id)
				}
			}
		}
	}
	return places
}
