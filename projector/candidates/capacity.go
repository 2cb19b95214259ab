package candidates

import (
	"context"
	"errors"
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
