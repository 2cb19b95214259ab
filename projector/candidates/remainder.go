package candidates

import (
	"math"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// member is a provider that can fill some slot under the present anchor.
type member struct {
	number uint32
	p      *ledger.Provider
	serves uint64  // kinds, as bits
	room   []int64 // per class of the plan
	above  []*ledger.Provider
	pool   int // from which it draws; below 0: from none
}

// gather finds the members under the present anchor, once.
func (s *search) gather() []member {
	if s.gathered {
		return s.members
	}
	s.gathered, s.members = true, s.members[:0]
	clear(s.at)
	for k := range s.plan.kinds {
		for _, src := range s.lists[k] {
			at, known := s.at[src.number]
			if !known {
				at = len(s.members)
				s.at[src.number] = at
				s.members = append(s.members, s.memberOf(src))
			}
			s.members[at].serves |= 1 << k
		}
	}
	s.findPools()
	return s.members
}

func (s *search) memberOf(src source) member {
	one := member{number: src.number, p: src.p, room: make([]int64, len(s.plan.classes)), pool: -1}
	for r, class := range s.plan.classes {
		one.room[r] = s.roomOf(src.p, class)
	}
	if len(s.req.SameSubtree) > 0 {
		for p, known := src.p, true; known; p, known = s.world.Provider(p.Parent) {
			one.above = append(one.above, p)
		}
	}
	return one
}

// roomOf is the largest amount that a consumer may have of a provider.
func roomOf(p *ledger.Provider, class ledger.ClassID) int64 {
	if inv, has := p.Inventory(class); has {
		return max(0, min(inv.MaxUnit, freeOf(p, class)))
	}
	return 0
}

// exactly is up to where floating point numbers are exact, and more than inventories have.
const exactly = 1 << 52

// remainder is the groups for which nothing is chosen yet, and what members have left.
type remainder struct {
	counts []int    // per kind
	serves []uint64 // per member
	room   [][]int64
	pools  [][]int64 // what the counters of each have left
	taken  []bool
	chosen []choiceOf
}

// choiceOf is a member that serves a group of some kind.
type choiceOf struct{ kind, member int }

func (r *remainder) clone() *remainder {
	return &remainder{
		counts: slices.Clone(r.counts), serves: slices.Clone(r.serves), room: slices.Clone(r.room),
		pools: slices.Clone(r.pools), taken: slices.Clone(r.taken), chosen: slices.Clone(r.chosen),
	}
}

// serve has a member serve a group.
func (s *search) serve(r *remainder, one choiceOf) {
	r.counts[one.kind]--
	r.chosen = append(r.chosen, one)
	less := func(list [][]int64, at int, amounts []int64) {
		list[at] = slices.Clone(list[at])
		for i, amount := range amounts {
			list[at][i] -= amount
		}
	}
	less(r.room, one.member, s.plan.kinds[one.kind].amounts)
	if pool := s.members[one.member].pool; pool >= 0 {
		less(r.pools, pool, s.draws[one.kind])
	}
	r.taken[one.member] = r.taken[one.member] || s.plan.kinds[one.kind].alone
}

// remaining is what remains beside the present choices.
func (s *search) remaining() *remainder {
	members := s.gather()
	r := &remainder{taken: make([]bool, len(members))}
	for i := range members {
		r.serves, r.room = append(r.serves, members[i].serves), append(r.room, members[i].room)
	}
	for k := range s.plan.kinds {
		r.counts = append(r.counts, s.plan.kinds[k].slots)
	}
	for i := range s.pools {
		r.pools = append(r.pools, s.pools[i].left)
	}
	for j, src := range s.chosen {
		s.serve(r, choiceOf{s.plan.slots[j].kind, s.at[src.number]})
	}
	return r
}

// possible reports whether something can be chosen for all slots that are left. To try is
// as fast for the last one. Of old requests, which want one provider of a tree, it is not
// known.
func (s *search) possible() (bool, error) {
	if len(s.plan.slots)-len(s.chosen) < 2 || !s.req.Nested && s.world.Nested() || len(s.plan.kinds) > maxKinds {
		return true, nil
	}
	return s.oneBelow(0, s.remaining())
}

// oneBelow looks for a member that all groups of the sets of same_subtree from one on are
// at or below of, one of them at it.
func (s *search) oneBelow(set int, r *remainder) (bool, error) {
	if set == len(s.req.SameSubtree) {
		return s.covered(0, r)
	}
	if set > 0 {
		if served, err := canServe(s.kindsOf(r), s.likesOf(r), s.meter); !served || err != nil {
			return false, err
		}
	}
	for top := range s.members {
		if err := s.work(1 + len(s.members)/8); err != nil {
			return false, err
		}
		below := func(member int) bool { return slices.Contains(s.members[member].above, s.members[top].p) }
		there, within := false, true
		for _, one := range r.chosen {
			if s.plan.kinds[one.kind].subtrees[set] {
				there, within = there || one.member == top, within && below(one.member)
			}
		}
		if !within {
			continue
		}
		limited := r.clone()
		for k := range s.plan.kinds {
			if s.plan.kinds[k].subtrees[set] {
				limited.restrict(k, below)
			}
		}
		if found, err := s.topped(set, limited, top, there); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// topped has some group of a set of same_subtree served by the member that is above those
// of the others, unless one is there.
func (s *search) topped(set int, r *remainder, top int, there bool) (bool, error) {
	if there {
		return s.oneBelow(set+1, r)
	}
	for k := range s.plan.kinds {
		kind := &s.plan.kinds[k]
		if !kind.subtrees[set] || r.counts[k] == 0 || r.serves[top]>>k&1 == 0 || kind.alone && r.taken[top] {
			continue
		}
		with := r.clone()
		s.serve(with, choiceOf{k, top})
		if slices.ContainsFunc(with.room[top], func(room int64) bool { return room < 0 }) {
			continue
		}
		if found, err := s.oneBelow(set+1, with); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// restrict leaves those members to a kind that are good.
func (r *remainder) restrict(k int, good func(member int) bool) {
	for i := range r.serves {
		if r.serves[i]>>k&1 == 1 && !good(i) {
			r.serves[i] &^= 1 << k
		}
	}
}

// covered looks for a slot of the group without a suffix for each list of traits, from one
// on, that it requires. What else is left is only counted.
func (s *search) covered(list int, r *remainder) (bool, error) {
	if list == len(s.plan.required) {
		return canServe(s.kindsOf(r), s.likesOf(r), s.meter)
	}
	has := func(member int) bool { return hasAny(s.members[member].p, s.plan.required[list]) }
	if slices.ContainsFunc(r.chosen, func(one choiceOf) bool { return s.plan.kinds[one.kind].spread && has(one.member) }) {
		return s.covered(list+1, r)
	}
	for k := range s.plan.kinds {
		if r.counts[k] == 0 || !s.plan.kinds[k].spread {
			continue
		}
		limited := r.clone()
		limited.restrict(k, has)
		if found, err := s.covered(list+1, limited); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func (s *search) kindsOf(r *remainder) (kinds []kindOfGroup) {
	for k, kind := range s.plan.kinds {
		kinds = append(kinds, kindOfGroup{
			amounts: slices.Concat(kind.amounts, s.draws[k]), alone: kind.alone, count: r.counts[k],
		})
	}
	return kinds
}

// likesOf counts members that are equal for what is left. Those that draw from one pool are one, as if
// each could have what the others have, unless each serves one group alone.
func (s *search) likesOf(r *remainder) (likes []likeProviders) {
	left, most := uint64(0), make([]int64, len(s.plan.classes)+len(s.counters))
	for k, count := range r.counts {
		if count == 0 {
			continue
		}
		left |= 1 << k
		for i, amount := range slices.Concat(s.plan.kinds[k].amounts, s.draws[k]) {
			most[i] += amount * int64(count)
		}
	}
	all, pooled := make([]likeProviders, 0, len(r.serves)), make([]*likeProviders, len(s.pools))
	for i := range r.serves {
		serves, pool := r.serves[i]&left, s.members[i].pool
		if serves == 0 {
			continue
		}
		if pool >= 0 && s.pools[pool].members > 1 && s.req.Isolate {
			pool = -1
		}
		if pool >= 0 && pooled[pool] != nil {
			pooled[pool].serves |= serves
			for class, room := range r.room[i] {
				pooled[pool].room[class] += max(0, room)
			}
			continue
		}
		one := likeProviders{room: slices.Clone(r.room[i]), serves: serves, taken: r.taken[i], count: 1}
		if pool < 0 {
			one.room = append(one.room, most[len(s.plan.classes):]...)
		} else {
			one.room = append(one.room, r.pools[pool]...)
		}
		if all = append(all, one); pool >= 0 {
			pooled[pool] = &all[len(all)-1]
		}
	}
	for l := range all {
		for i, room := range all[l].room {
			all[l].room[i] = min(room, most[i]) // more than is asked for makes no difference
		}
		likes = join(likes, &all[l])
	}
	return likes
}

// freeOf is how much of a class is free.
func freeOf(p *ledger.Provider, class ledger.ClassID) int64 {
	inv, _ := p.Inventory(class)
	if capacity := inv.Capacity(); capacity < exactly {
		return int64(math.Floor(capacity)) - inv.Used
	}
	return exactly
}
