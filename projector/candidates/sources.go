package candidates

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// source is a provider that can fill a slot under the present anchor.
type source struct {
	number uint32
	p      *ledger.Provider
	own    bool // it is in the anchor's tree
}

// findSources lists the providers that can fill a kind's slots under the anchor.
func (s *search) findSources(k int) error {
	slot := &s.plan.slots[s.plan.kinds[k].first]
	g := &s.req.Groups[slot.group]
	list := s.lists[k][:0]
	cost := 1 + len(slot.resources) + len(g.MemberOf)
	consider := func(number uint32, p *ledger.Provider, own bool) error {
		if err := s.work(cost); err != nil || !slot.allowed.contains(number) {
			return err
		}
		if fits(p, slot.resources) && (g.Suffix != "" || s.spanned(p, own, g)) {
			list = append(list, source{number, p, own})
		}
		return nil
	}
	for number, p := range s.world.inTree(s.anchor) {
		if err := consider(number, p, true); err != nil {
			return err
		}
	}
	if visitable(g) {
		if err := s.work(len(s.plan.guests)); err != nil {
			return err
		}
		for _, guest := range s.plan.guests {
			e := s.world.entries.get(guest.number)
			if guest.anchors.contains(s.anchor) && e.root != s.anchor {
				if err := consider(guest.number, e.p, false); err != nil {
					return err
				}
			}
		}
	}
	if s.thrifty {
		slices.SortStableFunc(list, func(a, b source) int { return cmp.Compare(drawnBy(a.p, slot), drawnBy(b.p, slot)) })
	}
	s.lists[k] = list
	return nil
}

// drawnBy is how much a slot would draw from counters, all together.
func drawnBy(p *ledger.Provider, slot *slot) (sum int64) {
	for _, r := range slot.resources {
		for _, draw := range p.DrawsOf(r.Class) {
			sum += r.Amount * draw.Amount
		}
	}
	return sum
}

// spanned checks member_of of the group without a suffix under the anchor. A
// root that is in aggregates of all lists spans its tree, but not sharing providers.
func (s *search) spanned(p *ledger.Provider, own bool, g *Group) bool {
	return memberOfAll(p, g.MemberOf) || own && memberOfAll(s.root, g.MemberOf)
}

// suffice compares how many groups of a kind there are with how many its sources can serve.
func (s *search) suffice(k int) bool {
	kind, missing := &s.plan.kinds[k], s.plan.kinds[k].slots
	if missing == 1 {
		return len(s.lists[k]) > 0
	}
	for _, src := range s.lists[k] {
		units := missing
		for _, r := range s.plan.slots[kind.first].resources {
			if room := s.roomOf(src.p, r.Class); room < r.Amount*int64(units) {
				units = int(room / r.Amount)
			}
		}
		if kind.alone {
			units = min(units, 1)
		}
		if missing -= units; missing <= 0 {
			return true
		}
	}
	return false
}

// sumsSuffice compares what groups of several kinds ask of a class with what all of their sources
// have, each counted once; and where each group needs a provider of its own, how many there are.
func (s *search) sumsSuffice() (suffice bool, err error) {
	if len(s.plan.contests) == 0 {
		return true, nil
	}
	s.joint = s.joint[:0]
	for k := range s.plan.kinds {
		s.join(k)
	}
	if err := s.work(len(s.plan.contests) * len(s.joint) / 8); err != nil {
		return false, err
	}
	return !slices.ContainsFunc(s.plan.contests, func(c contest) bool { return !s.sumSuffices(&c) }), nil
}

// shared is a source with the kinds that it can serve, as bits.
type shared struct {
	source
	serves uint64
}

// join adds the sources of a kind to those of the kinds before it. All are in one order: the
// tree's own, then others, ascending.
func (s *search) join(k int) {
	before, merged := s.joint, s.merged[:0]
	for _, src := range s.lists[k] {
		for len(before) > 0 && before[0].before(src) {
			merged, before = append(merged, before[0]), before[1:]
		}
		one := shared{source: src}
		if len(before) > 0 && before[0].number == src.number {
			one, before = before[0], before[1:]
		}
		one.serves |= 1 << k
		merged = append(merged, one)
	}
	s.joint, s.merged = append(merged, before...), s.joint
}

func (s source) before(other source) bool {
	if s.own != other.own {
		return s.own
	}
	return s.number < other.number
}

// contest is what groups of several kinds ask for: of a class, or providers of their own.
type contest struct {
	kinds uint64 // as bits
	asked int64
	class int // in the plan's classes; below 0: of none
}

func (s *search) sumSuffices(c *contest) bool {
	missing := c.asked
	for i := range s.joint {
		one := &s.joint[i]
		switch {
		case one.serves&c.kinds == 0:
		case c.class < 0:
			missing--
		default:
			missing -= s.roomOf(one.p, s.plan.classes[c.class])
		}
		if missing <= 0 {
			return true
		}
	}
	return false
}

// findContests finds what kinds compete for.
func (p *plan) findContests() {
	if len(p.kinds) > maxKinds {
		return
	}
	for class := -1; class < len(p.classes); class++ {
		c := contest{class: class}
		for k := range p.kinds {
			one := &p.kinds[k]
			switch {
			case class < 0 && one.alone:
				c.asked += int64(one.slots)
			case class >= 0 && one.amounts[class] > 0:
				c.asked += one.amounts[class] * int64(one.slots)
			default:
				continue
			}
			c.kinds |= 1 << k
		}
		if bits.OnesCount64(c.kinds) > 1 {
			p.contests = append(p.contests, c)
		}
	}
}

// compete reports whether groups of several kinds may want the same of one source.
func (s *search) compete() bool {
	return len(s.plan.kinds) > maxKinds || slices.ContainsFunc(s.plan.contests, func(c contest) bool {
		return slices.ContainsFunc(s.gather(), func(m member) bool { return bits.OnesCount64(m.serves&c.kinds) > 1 })
	})
}
