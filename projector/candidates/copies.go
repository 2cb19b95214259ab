package candidates

import (
	"math"
	"slices"
	"sort"

	"github.com/allot-project/allot/ledger"
)

// copies is how often the anchor's tree can serve the request at once, at most; exact: it
// can. It looks at sums only.
func (s *search) copies(most int) (n int, exact bool, err error) {
	for k := range s.plan.kinds {
		if err := s.findSources(k); err != nil || len(s.lists[k]) == 0 {
			return 0, true, err
		}
	}
	s.gathered = false
	return s.bound(most)
}

// bound is copies, of the sources that are listed. Kinds that do not compete are each
// counted by itself, which is exact, but for what counters and rules tie together.
func (s *search) bound(most int) (n int, exact bool, err error) {
	some, all := s.covers()
	if !some {
		return 0, true, nil
	}
	exact = all && s.untied()
	for k := range s.plan.kinds {
		if err := s.work(1 + len(s.lists[k])/4); err != nil {
			return 0, false, err
		}
		here, whole := s.copiesOf(k, int64(most))
		most, exact = int(here), exact && whole
		if most == 0 {
			return 0, true, nil
		}
	}
	if err := s.work(len(s.plan.contests)); err != nil || !s.compete() {
		return most, exact, err
	}
	apart := exact
	for r, class := range s.plan.classes {
		asked, there := int64(0), int64(0)
		for _, kind := range s.plan.kinds {
			asked += kind.amounts[r] * int64(kind.slots)
			apart = apart && !kind.alone
		}
		for _, m := range s.gather() {
			free := s.freeOf(m.p, class)
			inv, _ := m.p.Inventory(class)
			there, apart = min(exactly, there+free), apart && inv.MaxUnit >= min(free, asked)
		}
		if asked > 0 && there < exactly {
			most = min(most, int(there/asked))
		}
	}
	most, exact, err = s.matched(most)
	return most, most == 0 || exact && apart, err
}

// Up to so many groups and members copies are matched.
const maxMatched, maxMatchedMembers = 4096, 256

// matched is how many copies a matching of all their groups to members allows, as if what a
// member serves of one copy did not matter; exact: if it does not, so many can be served.
func (s *search) matched(most int) (n int, exact bool, err error) {
	members := s.gather()
	if most > maxMatched/len(s.plan.slots) || len(members) > maxMatchedMembers || len(s.plan.kinds) > maxKinds {
		return most, false, nil
	}
	var likes []likeProviders
	for _, m := range members {
		one := likeProviders{room: make([]int64, len(s.plan.classes)), serves: m.serves, count: 1}
		for r, class := range s.plan.classes {
			one.room[r] = s.freeOf(m.p, class)
		}
		likes = join(likes, &one)
	}
	fits := func(copies int) (fits bool) {
		kinds := make([]kindOfGroup, len(s.plan.kinds))
		for k, kind := range s.plan.kinds {
			kinds[k] = kindOfGroup{amounts: kind.amounts, count: copies * kind.slots}
		}
		f := flow{kinds: kinds, likes: likes}
		fits = f.saturates()
		exact = f.exact
		return fits
	}
	if err := s.work(8 * len(s.plan.kinds) * len(members)); err != nil || fits(most) {
		return most, exact, err
	}
	n = sort.Search(most, func(i int) bool { return !fits(i + 1) })
	return n, fits(n) && exact, nil
}

// untied reports whether no rule ties the providers of different groups together.
func (s *search) untied() bool {
	return (s.req.Nested || !s.world.Nested() || len(s.plan.slots) == 1) &&
		!slices.ContainsFunc(s.req.SameSubtree, func(suffixes []string) bool { return len(suffixes) > 1 })
}

// covers reports whether some sources have the traits that the group without a suffix
// requires, and whether all choices of them do. One class leaves one choice: then those that
// lack them are no sources.
func (s *search) covers() (some, all bool) {
	var spread []int
	for k := range s.plan.kinds {
		if s.plan.kinds[k].spread {
			spread = append(spread, k)
		}
	}
	all = true
	for _, anyOf := range s.plan.required {
		lacks := func(src source) bool { return !hasAny(src.p, anyOf) }
		if len(spread) == 1 {
			s.lists[spread[0]] = slices.DeleteFunc(s.lists[spread[0]], lacks)
		}
		has, always := false, false
		for _, k := range spread {
			with := slices.IndexFunc(s.lists[k], func(src source) bool { return !lacks(src) })
			has = has || with >= 0
			always = always || with >= 0 && !slices.ContainsFunc(s.lists[k], lacks)
		}
		if !has {
			return false, true
		}
		all = all && always
	}
	return true, all
}

// units is how many groups of a kind a source can serve in all, and in one copy.
type units struct{ all, once int64 }

// copiesOf is how many copies of the groups of a kind its sources can serve. Every source
// serves so many of each copy at most; where enough are left for the last copy, all can be
// dealt out.
func (s *search) copiesOf(k int, most int64) (n int64, exact bool) {
	kind := &s.plan.kinds[k]
	slots := int64(kind.slots)
	list, sum := s.units[:0], int64(0)
	exact = true
	for _, src := range s.lists[k] {
		one := units{most * slots, slots}
		for r, amount := range kind.amounts {
			if amount > 0 {
				class := s.plan.classes[r]
				one.all = min(one.all, s.freeOf(src.p, class)/amount)
				exact = exact && len(src.p.DrawsOf(class)) == 0
				if slots > 1 {
					inv, _ := src.p.Inventory(class)
					one.once = min(one.once, inv.MaxUnit/amount)
				}
			}
		}
		if kind.alone {
			one.once = 1
		}
		list, sum = append(list, one), min(most*slots, sum+one.all)
	}
	s.units = list
	if !exact {
		sum = min(sum, s.drawable(k, list))
	}
	n = sum / slots
	dealt := func(copies int64) bool {
		sum := int64(0)
		for _, one := range list {
			if one.all/one.once >= copies {
				sum += one.once * copies
			} else {
				sum += one.all
			}
			if sum/slots >= copies {
				return true
			}
		}
		return false
	}
	if slots > 1 && !dealt(n) {
		n = int64(sort.Search(int(n), func(i int) bool { return !dealt(int64(i) + 1) }))
	}
	return n, exact
}

// freeOf is how much is free of a class, also of the counters that it draws from.
func (s *search) freeOf(p *ledger.Provider, class ledger.ClassID) int64 {
	free := max(0, freeOf(p, class))
	if len(p.Draws) > 0 {
		free = s.forests.room(p, class, free)
	}
	return free
}

// drawable is how many groups of a kind counters leave to its sources, at most.
func (s *search) drawable(k int, list []units) int64 {
	most := int64(math.MaxInt64)
	s.gather()
	for c := range s.counters {
		each := s.draws[k][c]
		if each == 0 {
			continue
		}
		sum, pooled := int64(0), make([]int64, len(s.pools))
		for i, src := range s.lists[k] {
			if pool := s.members[s.at[src.number]].pool; pool >= 0 {
				pooled[pool] = min(exactly, pooled[pool]+list[i].all)
			} else {
				sum = min(exactly, sum+list[i].all)
			}
		}
		for pool, all := range pooled {
			sum = min(exactly, sum+min(all, s.pools[pool].left[c]/each))
		}
		if sum < exactly {
			most = min(most, sum)
		}
	}
	return most
}
