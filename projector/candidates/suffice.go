package candidates

import "slices"

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
func (s *search) sumsSuffice() bool {
	for i := range s.plan.contested {
		if !s.sumSuffices(&s.plan.contested[i]) {
			return false
		}
	}
	return true
}

// contest is what groups of several kinds ask for: of a class, or providers of their own.
type contest struct {
	kinds []int
	asked int64
	class int // in the plan's classes; below 0: of none
}

func (s *search) sumSuffices(c *contest) bool {
	missing := c.asked
	for i, k := range c.kinds {
		for _, src := range s.lists[k] {
			if s.listed(c.kinds[:i], src.number) {
				continue
			}
			if c.class < 0 {
				missing--
			} else {
				missing -= s.roomOf(src.p, s.plan.classes[c.class])
			}
			if missing <= 0 {
				return true
			}
		}
	}
	return false
}

// listed reports whether a provider is a source of one of some kinds.
func (s *search) listed(kinds []int, number uint32) bool {
	return slices.ContainsFunc(kinds, func(k int) bool {
		return slices.ContainsFunc(s.lists[k], func(src source) bool { return src.number == number })
	})
}

// findContests finds what kinds compete for.
func (p *plan) findContests() {
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
			c.kinds = append(c.kinds, k)
		}
		if len(c.kinds) > 1 {
			p.contested = append(p.contested, c)
		}
	}
}
