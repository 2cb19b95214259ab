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
	return s.members
}

func (s *search) memberOf(src source) member {
	one := member{number: src.number, p: src.p, room: make([]int64, len(s.plan.classes))}
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
	taken  []bool
	chosen []choiceOf
}

// choiceOf is a member that serves a group of some kind.
type choiceOf struct{ kind, member int }

func (r *remainder) clone() *remainder {
	return &remainder{
		counts: slices.Clone(r.counts), serves: slices.Clone(r.serves), room: slices.Clone(r.room),
		taken: slices.Clone(r.taken), chosen: slices.Clone(r.chosen),
	}
}

// take has a member serve a group.
func (r *remainder) take(k *kind, one choiceOf) {
	r.chosen = append(r.chosen, one)
	r.room[one.member] = slices.Clone(r.room[one.member])
	for class, amount := range k.amounts {
		r.room[one.member][class] -= amount
	}
	r.taken[one.member] = r.taken[one.member] || k.alone
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
	for j, src := range s.chosen {
		k := s.plan.slots[j].kind
		r.counts[k]--
		r.take(&s.plan.kinds[k], choiceOf{k, s.at[src.number]})
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
		with.counts[k]--
		with.take(kind, choiceOf{k, top})
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
		kinds = append(kinds, kindOfGroup{amounts: kind.amounts, alone: kind.alone, count: r.counts[k]})
	}
	return kinds
}

// likesOf counts members that are equal for what is left.
func (s *search) likesOf(r *remainder) (likes []likeProviders) {
	left, most := uint64(0), make([]int64, len(s.plan.classes))
	for k, count := range r.counts {
		if count == 0 {
			continue
		}
		left |= 1 << k
		for class, amount := range s.plan.kinds[k].amounts {
			most[class] += amount * int64(count)
		}
	}
	for i := range r.serves {
		if r.serves[i]&left == 0 {
			continue
		}
		one := likeProviders{room: r.room[i], serves: r.serves[i] & left, taken: r.taken[i], count: 1}
		for class, room := range one.room {
			if room > most[class] { // more than is asked for makes no difference
				one.room = slices.Clone(one.room)
				one.room[class] = most[class]
			}
		}
		likes = join(likes, &one)
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
