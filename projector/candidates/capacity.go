package candidates

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/allot-project/allot/ledger"
)

// MaxCopies is how far allocations are counted: JSON's numbers are exact up to there.
const MaxCopies = 1 << 53

// Capacity is how often a request can be served at once, beside what is used.
type Capacity struct {
	AtLeast, AtMost int
	Trees           []TreeCapacity // in the order of their creation; the sum of all is AtLeast
	// Shared: what some trees can serve is what others can serve as well, by sharing providers.
	Shared bool
}

// TreeCapacity is how often a tree can serve a request.
type TreeCapacity struct {
	Root   *ledger.Provider
	Copies int
}

// CountCapacity is Capacity in a world of which nothing is assumed.
func CountCapacity(ctx context.Context, w *World, req *Request) (*Capacity, error) {
	return NewRanking(w).Capacity(ctx, req)
}

// Capacity counts how often a request can be served, up to its limit, beside what is assumed. What
// sums do not tell exactly is served one after the other, in the steps that are left.
func (r *Ranking) Capacity(ctx context.Context, req *Request) (*Capacity, error) {
	one := *req
	one.Limit, one.Order, one.Shuffle = 0, DepthFirst, false
	m := &meter{ctx: ctx, req: &one}
	c := counting{ranking: r, limit: MaxCopies, known: make(map[[2]uint32]bool)}
	if req.Limit > 0 {
		c.limit = min(c.limit, req.Limit)
	}
	p, err := r.world.plan(&one, m)
	if err == nil {
		err = r.world.narrow(p, &one, m)
	}
	if err != nil {
		return nil, err
	}
	c.hurries, c.shared = req.Limit > 0 && len(p.guests) == 0, make([][]source, len(p.kinds))
	c.search = newSearch(m, c.ranking.world, &one, p, func(found *Candidate) bool {
		c.uses = append([]Use{}, found.Uses...)
		return false
	})
	c.thrifty = len(p.kinds) == 1
	err = c.count()
	r.Assume(c.taken, -1)
	switch {
	case c.hurries && errors.Is(err, ErrBudget):
		c.AtMost = c.limit // of the trees behind nothing is known
	case err != nil:
		return nil, err
	}
	c.Shared = len(c.known) > 0
	c.Trees = slices.DeleteFunc(c.Trees, func(t TreeCapacity) bool { return t.Copies == 0 })
	return &c.Capacity, nil
}

// Behind returns the trees that were created after one; false: there is no such provider.
func (w *World) Behind(root ledger.UUID, trees []TreeCapacity) ([]TreeCapacity, bool) {
	after, known := w.number(root)
	return trees[sort.Search(len(trees), func(i int) bool {
		number, _ := w.number(trees[i].Root.UUID)
		return number > after
	}):], known
}

// counting is the state of CountCapacity.
type counting struct {
	Capacity
	*search
	ranking *Ranking // what is counted by serving is assumed to be taken
	limit   int
	hurries bool // to the limit, rather than to learn what there is at most
	open    []openTree
	uses    []Use // of the candidate that was found last; nil: of none
	taken   []Use // of the present tree, and of those before it that share
	// shared are the sources of trees that have sharing providers, per kind, each once.
	shared [][]source
	known  map[[2]uint32]bool
}

// openTree is a tree of which sums tell only the most that it can serve.
type openTree struct {
	at     int // in Trees
	anchor uint32
	most   int
	shares bool
}

func (c *counting) count() error {
	if len(c.plan.slots) == 0 {
		return nil
	}
	for it := c.plan.anchors.bits().Iterator(); it.HasNext() && c.AtLeast < c.limit; {
		if err := c.look(it.Next()); err != nil {
			return err
		}
	}
	most := 0 // of all trees that share
	if len(c.known) > 0 {
		copy(c.lists, c.shared)
		c.gathered = false
		var err error
		if most, _, err = c.bound(c.limit); err != nil {
			return err
		}
	}
	for i := 0; i < len(c.open) && !c.hurries; i++ {
		if err := c.serve(&c.open[i]); err != nil && !errors.Is(err, ErrBudget) {
			return err
		}
	}
	c.AtMost = c.AtLeast
	sum := 0
	for _, o := range c.open {
		served := c.Trees[o.at].Copies
		if o.shares {
			sum, most = min(c.limit, sum+o.most)-served, most-served
		} else {
			c.AtMost = min(c.limit, c.AtMost+o.most-served)
		}
	}
	c.AtMost = min(c.limit, c.AtMost+max(0, min(sum, most)))
	return nil
}

// look counts what a tree can serve, if sums tell.
func (c *counting) look(anchor uint32) error {
	c.anchor, c.root = anchor, c.world.entries.get(anchor).p
	most, exact, err := c.copies(c.limit - c.AtLeast)
	if err != nil || most == 0 {
		return err
	}
	o := openTree{at: len(c.Trees), anchor: anchor, most: most, shares: c.share()}
	c.Trees = append(c.Trees, TreeCapacity{Root: c.root})
	switch {
	case exact && !o.shares:
		c.add(&o, most)
	case c.hurries:
		err = c.serve(&o)
		fallthrough
	default:
		c.open = append(c.open, o)
	}
	return err
}

func (c *counting) add(o *openTree, copies int) {
	c.Trees[o.at].Copies += copies
	c.AtLeast += copies
}

// share notes the sources of the present tree, if it has sharing providers.
func (c *counting) share() bool {
	shares := func(src source) bool { return !src.own || src.p.HasTrait(SharingTrait) }
	if len(c.plan.guests) == 0 ||
		!slices.ContainsFunc(c.lists, func(list []source) bool { return slices.ContainsFunc(list, shares) }) {
		return false
	}
	for k, list := range c.lists {
		for _, src := range list {
			if key := [2]uint32{uint32(k), src.number}; !c.known[key] {
				c.known[key] = true
				c.shared[k] = append(c.shared[k], src)
			}
		}
	}
	return true
}

// serve serves the request by a tree until it has no candidate any more.
func (c *counting) serve(o *openTree) error {
	tree, before := &c.Trees[o.at], len(c.taken)
	for tree.Copies < o.most && c.AtLeast < c.limit {
		c.anchor, c.root = o.anchor, c.world.entries.get(o.anchor).p
		c.uses, c.ended, c.forests.known = nil, false, nil
		clear(c.seen)
		if _, err := c.visitAnchor(); err != nil {
			return err
		}
		if c.uses == nil {
			if tree.Copies == 0 && !o.shares {
				o.most = 0
			}
			break
		}
		c.add(o, c.repeat(min(o.most-tree.Copies, c.limit-c.AtLeast)))
	}
	if !o.shares { // what is taken here is of no account for other trees
		c.ranking.Assume(c.taken[before:], -1)
		c.taken = c.taken[:before]
	}
	return nil
}

// repeat takes what the last candidate uses as often as it can be had: a search would find
// the same one again. What draws from counters is taken once.
func (c *counting) repeat(most int) int {
	for _, use := range c.uses {
		if len(use.Provider.Draws) > 0 {
			most = 1
		}
		most = min(most, max(1, int(freeOf(use.Provider, use.Class)/max(1, use.Amount))))
	}
	for i := range c.uses {
		c.uses[i].Amount *= int64(most)
	}
	c.ranking.Assume(c.uses, 1)
	c.taken = append(c.taken, c.uses...)
	return most
}

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
	if !all {
		most = s.mostCovered(most)
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

// mostCovered is how many copies there are at most in which some choice for the group without a suffix has
// what this requires.
func (s *search) mostCovered(most int) int {
	s.gather()
	for _, anyOf := range s.plan.required {
		sum := 0
		for k := range s.plan.kinds {
			if !s.plan.kinds[k].spread {
				continue
			}
			all := s.lists[k]
			s.lists[k] = slices.DeleteFunc(slices.Clone(all), func(src source) bool { return !hasAny(src.p, anyOf) })
			copies, _ := s.copiesOf(k, int64(most))
			s.lists[k], sum = all, sum+int(copies)
		}
		most = min(most, sum)
	}
	return most
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
