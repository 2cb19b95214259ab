package candidates

import (
	"slices"

	"github.com/allot-project/allot/ledger"
)

// forests are the trees in which something draws from counters, by their roots.
type forests struct {
	world *World
	known map[ledger.UUID]ledger.Forest
}

func (f *forests) of(root ledger.UUID) ledger.Forest {
	forest, known := f.known[root]
	if !known {
		forest = f.world.Forest(root)
		if f.known == nil {
			f.known = make(map[ledger.UUID]ledger.Forest)
		}
		f.known[root] = forest
	}
	return forest
}

// Forest is the tree of a root, for what is asked of counters.
func (w *World) Forest(root ledger.UUID) ledger.Forest {
	var tree []*ledger.Provider
	w.Tree(root, func(p *ledger.Provider) { tree = append(tree, p) })
	return ledger.ForestOf(tree)
}

// admitAlone is admit for a provider that serves a group by itself.
func (f *forests) admitAlone(p *ledger.Provider, g *Group) bool {
	return len(p.Draws) == 0 || f.admit(p, g.Resources, usesOf(&Request{Groups: []Group{*g}}, p))
}

// admit reports whether the counters have room from which a provider draws for some resources,
// beside what is used and taken. Taken is a stack of running sums, those resources among them.
func (f *forests) admit(p *ledger.Provider, resources []Resource, taken []Use) bool {
	more := func(provider ledger.UUID, class ledger.ClassID) int64 {
		for j := len(taken) - 1; j >= 0; j-- {
			if taken[j].Class == class && taken[j].Provider.UUID == provider {
				return taken[j].Amount
			}
		}
		return 0
	}
	for _, r := range resources {
		for _, draw := range p.DrawsOf(r.Class) {
			forest := f.of(p.Root)
			top, found := ledger.CounterAbove(forest, p.Parent, draw.Counter)
			if !found {
				return false
			}
			if _, overdraws := ledger.Overdraws(forest, top, draw.Counter, more); overdraws {
				return false
			}
		}
	}
	return true
}

// room is how much more of a class counters leave to a provider, up to most.
func (f *forests) room(p *ledger.Provider, class ledger.ClassID, most int64) int64 {
	for _, draw := range p.DrawsOf(class) {
		forest := f.of(p.Root)
		if top, found := ledger.CounterAbove(forest, p.Parent, draw.Counter); found && draw.Mode == "" {
			counter, _ := top.Counter(draw.Counter)
			left := counter.Total - ledger.Drawn(forest, top.UUID, draw.Counter, nil)
			most = min(most, max(0, left)/draw.Amount)
		}
	}
	if most > 0 && !f.admit(p, []Resource{{Class: class, Amount: 1}}, []Use{{Provider: p, Class: class, Amount: 1}}) {
		return 0
	}
	return most
}

// roomOf is the largest amount that a consumer may have of a provider.
func (s *search) roomOf(p *ledger.Provider, class ledger.ClassID) int64 {
	room := roomOf(p, class)
	if len(p.Draws) > 0 {
		room = s.forests.room(p, class, room)
	}
	return room
}

// pool is a provider with counters from which some members draw.
type pool struct {
	top     *ledger.Provider
	members int
	left    []int64 // per counter of the search
}

// findPools finds what the members draw from, each from the pool of its first draw. Modes are left
// out, and what a member draws from elsewhere: what is not counted rules nothing out.
func (s *search) findPools() {
	s.pools, s.counters, s.draws = s.pools[:0], s.counters[:0], make([][]int64, len(s.plan.kinds))
	for i := range s.members {
		m := &s.members[i]
		for _, draw := range m.p.Draws {
			top, found := ledger.CounterAbove(s.forests.of(m.p.Root), m.p.Parent, draw.Counter)
			if !found || draw.Mode != "" || !slices.Contains(s.plan.classes, draw.Class) {
				continue
			}
			if m.pool < 0 {
				m.pool = s.poolOf(top)
			}
			if s.pools[m.pool].top == top && !slices.Contains(s.counters, draw.Counter) {
				s.counters = append(s.counters, draw.Counter)
			}
		}
	}
	for i := range s.pools {
		one := &s.pools[i]
		for _, name := range s.counters {
			left := int64(exactly)
			if counter, has := one.top.Counter(name); has {
				left = max(0, counter.Total-ledger.Drawn(s.forests.of(one.top.Root), one.top.UUID, name, nil))
			}
			one.left = append(one.left, left)
		}
	}
	for k := range s.plan.kinds {
		for _, name := range s.counters {
			s.draws[k] = append(s.draws[k], s.leastDraw(k, name))
		}
	}
}

// poolOf finds the pool of a provider for one more member, or makes it.
func (s *search) poolOf(top *ledger.Provider) int {
	at := slices.IndexFunc(s.pools, func(one pool) bool { return one.top == top })
	if at < 0 {
		at = len(s.pools)
		s.pools = append(s.pools, pool{top: top})
	}
	s.pools[at].members++
	return at
}

// leastDraw is what a group of a kind draws at least from a counter of the pool of whatever member
// serves it.
func (s *search) leastDraw(k int, name string) (least int64) {
	least = -1
	for i := range s.members {
		m := &s.members[i]
		if m.pool < 0 || m.serves>>k&1 == 0 {
			continue
		}
		sum := int64(0)
		top, _ := ledger.CounterAbove(s.forests.of(m.p.Root), m.p.Parent, name)
		for _, r := range s.plan.slots[s.plan.kinds[k].first].resources {
			for _, draw := range m.p.DrawsOf(r.Class) {
				if draw.Counter == name && draw.Mode == "" && top == s.pools[m.pool].top {
					sum = min(exactly, sum+draw.Amount*r.Amount)
				}
			}
		}
		if least < 0 || sum < least {
			least = sum
		}
	}
	return max(0, least)
}
