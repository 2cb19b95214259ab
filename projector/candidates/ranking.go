package candidates

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// Ranking finds the best candidates by preferences. It follows the moments of
// one index, and keeps the roots in order for those weights that it is asked
// for: what is best is then found without looking at everything. What was
// promised to claims that are on their way can be assumed to be taken. It is not
// safe for concurrent use.
type Ranking struct {
	// GiveWay, if set, is called about every 50 microseconds while an order is made.
	GiveWay func()

	base  *World // the moment that it is about
	world *World // the same, with what is assumed, in pages of its own where something is

	assumed map[ledger.UUID][]ledger.ClassAmount // by provider
	// within is what is assumed in each aggregate; nil: it is not wanted.
	within map[ledger.AggregateKey]int64
	orders []*order
	uses   uint64 // counts searches

	// spent is how many roots were looked at for what is required by name, where no order
	// is of the roots that have it.
	spent   map[string]int
	members []*ledger.Provider // scratch of place

	prepared int // how many roots there were when orders were prepared

	fewRoots, costOfOrder int // see the constants
}

const (
	// maxOrders is how many orders are kept; the one that was not used for the
	// longest time makes room.
	maxOrders = 16
	// fewRoots are looked at one by one: no order would be faster.
	fewRoots = 32
	// costOfOrder is what one root costs in a new order, in looks at roots.
	costOfOrder = 4
	// manyMoved is of how many roots one must move for the orders to be made anew.
	manyMoved = 4
	// stepsOfPlace is what it takes to find where a root belongs, in steps of a search.
	stepsOfPlace = 8
	// maxSpent is for how many names it is noted what was spent.
	maxSpent = 1024
	// ownPages sets the pages of a Ranking apart from those of any of an index's epochs.
	ownPages = 1 << 63
	// maxSoft is up to how many preferred traits and aggregates roots are
	// divided by which they have.
	maxSoft = 4
)

// NewRanking returns a Ranking of a moment.
func NewRanking(w *World) *Ranking {
	r := &Ranking{assumed: make(map[ledger.UUID][]ledger.ClassAmount), fewRoots: fewRoots, costOfOrder: costOfOrder}
	r.begin(w)
	return r
}

// begin goes to a moment of another index, where numbers mean something else.
func (r *Ranking) begin(w *World) {
	world := *w
	world.entries.epoch = 0
	r.base, r.world, r.orders, r.prepared = w, &world, nil, 0
	for id := range r.assumed {
		r.effect(id)
	}
}

// Sync goes on to another moment. It costs as much as has changed, if it is one of the
// same index, whatever is assumed.
func (r *Ranking) Sync(w *World) {
	regrouped := true
	if r.base.lineage == w.lineage {
		regrouped = r.follow(w)
	} else {
		r.begin(w)
	}
	if r.within != nil && regrouped {
		r.countAssumed()
	}
}

// follow takes over what has changed since the moment that the Ranking is about. It
// reports whether some provider may be in other aggregates than it was.
func (r *Ranking) follow(w *World) (regrouped bool) {
	before := r.base
	world := *w
	world.entries = r.world.entries
	r.base, r.world = w, &world
	var moved []uint32 // roots; they are filed when all of their trees are there
	eachDifference(&before.entries, &w.entries, func(number uint32, was, is entry) {
		if was == is {
			return
		}
		if was.p == nil || is.p == nil || was.root != is.root || !ledger.SameList(was.p.Aggregates, is.p.Aggregates) {
			regrouped = true
		}
		if was.p != nil && (is.p == nil || was.root != is.root) {
			moved = append(moved, was.root)
		}
		if was.first != is.first { // its tree has other members
			moved = append(moved, number)
		}
		if r.refresh(number) || is.p != nil && was.next != is.next {
			moved = append(moved, is.root)
		}
	})
	r.refile(moved)
	return regrouped
}

// eachDifference goes over what is in pages that two lists do not share.
func eachDifference[T any](before, after *pages[T], yield func(number uint32, was, is T)) {
	for i := range max(len(before.folders), len(after.folders)) {
		was, is := before.folder(i), after.folder(i)
		for j := 0; j < folderSize && was != is; j++ {
			if was.pages[j] == is.pages[j] {
				continue
			}
			first := uint32(i*folderSize+j) * pageSize
			for n := first; n < first+pageSize; n++ {
				yield(n, before.get(n), after.get(n))
			}
		}
	}
}

// Provider finds a provider, with what is assumed of it.
func (r *Ranking) Provider(id ledger.UUID) (*ledger.Provider, bool) { return r.world.Provider(id) }

// effect puts a provider into the world with what is assumed of it, if it exists. It reports
// the root of its tree, and whether that may stand elsewhere now.
func (r *Ranking) effect(id ledger.UUID) (root uint32, moves bool) {
	number, known := r.base.number(id)
	return r.base.entries.get(number).root, known && r.refresh(number)
}

// refresh puts what has a number into the world, with what is assumed of it. It reports
// whether its root may stand elsewhere now: most of what changes has come true just as it
// was assumed.
func (r *Ranking) refresh(number uint32) (moves bool) {
	is, was := r.base.entries.get(number), r.world.entries.get(number)
	if is.p != nil {
		is.p = assuming(is.p, r.assumed[is.p.UUID])
	}
	if is == was {
		return false
	}
	r.world.entries.set(number, is, ownPages)
	return is.p != nil && (was.p == nil || was.root != is.root || !slices.Equal(was.p.Inventories, is.p.Inventories) ||
		!ledger.SameList(was.p.Traits, is.p.Traits) || !ledger.SameList(was.p.Aggregates, is.p.Aggregates))
}

// refile moves roots to where they belong, each once.
func (r *Ranking) refile(roots []uint32) {
	if len(roots) > max(r.fewRoots, int(r.world.roots.GetCardinality())/manyMoved) {
		for _, o := range r.orders {
			r.fill(o, func(int) {})
		}
		return
	}
	slices.Sort(roots)
	for _, root := range slices.Compact(roots) {
		r.file(root)
	}
}

// file moves a root to where it belongs in all orders.
func (r *Ranking) file(root uint32) {
	for _, o := range r.orders {
		p, exists := r.place(o, root)
		if exists {
			o.file(p)
		} else if id := r.idOf(o, root); id != nil {
			o.take(root, *id)
		}
	}
}

// idOf finds the uuid under which a root is filed that does not belong there any more; nil:
// it is not there.
func (r *Ranking) idOf(o *order, root uint32) *ledger.UUID {
	score, there := o.score(root)
	if !there {
		return nil
	}
	if e := r.world.entries.get(root); e.p != nil {
		return &e.p.UUID
	}
	for at := o.seek(score, ledger.NilUUID); at.block < len(o.blocks); at = (position{at.block + 1, 0}) {
		for _, p := range o.blocks[at.block].places[at.index:] {
			if p.number == root {
				return &p.id
			}
		}
	}
	return nil
}

// place is where a root belongs; false: it is none, or is not what the order is of.
func (r *Ranking) place(o *order, root uint32) (place, bool) {
	e := r.world.entries.get(root)
	if e.p == nil || e.root != root {
		return place{}, false
	}
	r.members = r.world.treeMembers(r.members[:0], root)
	members := r.members
	if o.named != nil && !o.named.of(e.p, members) {
		return place{}, false
	}
	pref := Preference{Weights: o.weights}
	p := place{score: boundOf(&pref, members, o.demanded), id: e.p.UUID, number: root}
	for c, class := range o.classes {
		free := 0.0
		for _, one := range members {
			if inv, has := one.Inventory(class); has {
				free += max(0, inv.Capacity()-float64(inv.Used))
			}
		}
		p.free[c] = roundUp(free)
	}
	return p, true
}

func orderKey(weights []ClassWeight, classes []demanded, named *named) string {
	var few [64]byte
	text := few[:0]
	for i, w := range weights {
		text = binary.BigEndian.AppendUint32(append(text, byte(classes[i])), uint32(w.Class))
		text = binary.BigEndian.AppendUint64(text, math.Float64bits(w.Weight))
	}
	if named != nil {
		text = append(append(text, ' '), named.key...)
	}
	return string(text)
}

// known finds an order that is there; nil: it is not.
func (r *Ranking) known(key string) *order {
	for _, o := range r.orders {
		if o.key == key {
			r.uses++
			o.used = r.uses
			return o
		}
	}
	return nil
}

// order finds the order of some weights, of the roots that have something or of all, or
// makes it. Those classes are tracked that requests with these weights ask for, the first.
func (r *Ranking) order(s *selection, named *named, asked []Resource) *order {
	key := orderKey(s.pref.Weights, s.classes, named)
	before := r.known(key)
	if before != nil && (len(before.classes) == maxTracked || !slices.ContainsFunc(asked, func(a Resource) bool {
		return !slices.Contains(before.classes, a.Class)
	})) {
		return before
	}
	r.uses++
	o := &order{key: key, weights: slices.Clone(s.pref.Weights), demanded: s.classes, named: named, used: r.uses}
	if before != nil {
		o.classes = before.classes
		r.drop(before)
	}
	for _, a := range asked {
		if len(o.classes) < maxTracked && !slices.Contains(o.classes, a.Class) {
			o.classes = append(o.classes, a.Class)
		}
	}
	r.fill(o, r.paced())
	if len(r.orders) == maxOrders {
		oldest := slices.MinFunc(r.orders, func(a, b *order) int { return int(int64(a.used - b.used)) })
		r.drop(oldest)
	}
	r.orders = append(r.orders, o)
	return o
}

func (r *Ranking) fill(o *order, paced func(steps int)) {
	roots := r.world.roots
	if o.named != nil {
		o.named.sets(r.world, func(set *roaring.Bitmap) {
			if set.GetCardinality() < roots.GetCardinality() {
				roots = set
			}
		})
	}
	places := make([]place, 0, roots.GetCardinality())
	for it := roots.Iterator(); it.HasNext(); {
		paced(stepsOfPlace)
		if p, is := r.place(o, it.Next()); is {
			places = append(places, p)
		}
	}
	o.fill(places, paced)
}

// Prepare makes the orders for what has no weights, and for what packs and spreads the classes
// that most roots have, when there are twice as many roots as before. The first claim need not
// wait for them then.
func (r *Ranking) Prepare() {
	roots := r.world.roots.GetCardinality()
	if int(roots) <= max(r.fewRoots, 2*r.prepared) {
		return
	}
	r.prepared = int(roots)
	var classes, common []Resource
	for class := range r.world.classes {
		classes = append(classes, Resource{Class: class})
	}
	slices.SortFunc(classes, func(a, b Resource) int {
		more, fewer := bitsOf(r.world.classes, b.Class), bitsOf(r.world.classes, a.Class)
		return cmp.Or(cmp.Compare(more.GetCardinality(), fewer.GetCardinality()), cmp.Compare(a.Class, b.Class))
	})
	r.order(&selection{pref: &Preference{}}, nil, classes)
	for _, one := range classes {
		if 2*r.world.roots.AndCardinality(bitsOf(r.world.classes, one.Class)) > roots {
			common = append(common, one)
		}
	}
	slices.SortFunc(common, func(a, b Resource) int { return cmp.Compare(a.Class, b.Class) })
	for _, weight := range []float64{-1, 1} {
		s := &selection{pref: &Preference{}}
		for _, one := range common {
			s.pref.Weights = append(s.pref.Weights, ClassWeight{Class: one.Class, Weight: weight})
			s.classes = append(s.classes, askedAlone)
		}
		r.order(s, nil, common)
	}
}

func (r *Ranking) drop(o *order) {
	r.orders = slices.DeleteFunc(r.orders, func(other *order) bool { return other == o })
}

// paced returns what counts the steps of work without a meter, and gives way as often as a search
// does.
func (r *Ranking) paced() func(steps int) {
	if r.GiveWay == nil {
		return func(int) {}
	}
	done := 0
	return func(steps int) {
		if done += steps; done >= pauseSteps {
			done = 0
			r.GiveWay()
		}
	}
}

// Best finds up to k candidates, the best first. It finds the same as Page.
func (r *Ranking) Best(ctx context.Context, req *Request, pref *Preference, k int) ([]Ranked, error) {
	s := newSelection(ctx, r.world, req, pref, k)
	if err := r.parts(s); err != nil {
		return nil, err
	}
	return s.found, nil
}

// InTurn finds what Best finds for one after the other of some that ask the same, each beside
// what those before it take. It looks for the best trees once, and again only in those of which
// something is taken.
func (r *Ranking) InTurn(ctx context.Context, req *Request, pref *Preference, n int) (list []Ranked, err error) {
	s := newSelection(ctx, r.world, req, pref, 1)
	if s.sharing() || pref.Accept != nil || pref.Fits != nil {
		n = 1 // what some take may change what others can have elsewhere
	}
	if n == 1 {
		return r.Best(ctx, req, pref, 1)
	}
	s.most = n
	for err = r.parts(s); err == nil && len(list) < n && len(s.heads) > 0; {
		one := s.heads[0]
		s.heads = s.heads[1:]
		if list = append(list, one); len(list) < n {
			err = r.again(s, &one)
		}
	}
	for i := range min(len(list), n-1) {
		r.assume(list[i].Uses, -1)
	}
	return list, err
}

// again looks at a tree from which a candidate was taken.
func (r *Ranking) again(s *selection, taken *Ranked) error {
	r.assume(taken.Uses, 1)
	if s.steps = 0; s.search != nil {
		clear(s.search.forests.known)
	}
	root, _ := r.base.number(taken.Root.UUID)
	_, err := s.consider(root, math.Inf(1), taken.From)
	return err
}

func (r *Ranking) parts(s *selection) error {
	if s.sharing() || soft(s.pref) > maxSoft {
		return s.page()
	}
	narrow := s.narrowest()
	for _, part := range s.strata() {
		if err := r.part(s, part, narrow); err != nil {
			return err
		}
	}
	return nil
}

// part goes over the roots of a stratum, the best first, until no other can be
// better than what is found. Few roots are just looked at.
func (r *Ranking) part(s *selection, part stratum, narrow *roaring.Bitmap) error {
	among := part.roots
	if narrow != nil && among != nil {
		among = roaring.And(among, narrow)
	} else if narrow != nil {
		among = narrow
	}
	asked := s.asked
	if s.pref.Random && among != nil {
		return s.each(among, part.bonus)
	}
	most := math.MaxInt
	var o *order
	if among != nil {
		n := int(among.GetCardinality())
		if n <= r.fewRoots {
			return s.each(among, part.bonus)
		}
		if o = r.orderOf(s, asked); o == nil && n*n <= 16*int(r.world.roots.GetCardinality()) {
			r.wasted(s, nil, n)
			return s.each(among, part.bonus)
		}
		most = 8 * n
	}
	if o == nil {
		o = r.order(s, nil, asked)
	}
	w := &walk{order: o, asked: askedOf(o, asked), point: s.point}
	for looked := 0; ; looked++ {
		if looked >= most {
			r.wasted(s, o, looked)
			return s.each(among, part.bonus) // those that it is about stand at the end
		}
		p := w.next()
		if p == nil {
			r.wasted(s, o, looked)
			return nil
		}
		if err := s.step(); err != nil {
			return err
		}
		if among != nil && !among.Contains(p.number) {
			continue
		}
		enough, err := s.consider(p.number, p.score+part.bonus, distanceOf(s.pref, s.point, p.id))
		if enough && !s.pref.Random || err != nil {
			r.wasted(s, o, looked)
			return err
		}
	}
}

// orderOf finds the order of those roots alone that have what a request requires by name, or
// makes it if as much was spent without it as it costs; nil: there is none.
func (r *Ranking) orderOf(s *selection, asked []Resource) *order {
	if s.named == nil {
		return nil
	}
	if o := r.known(orderKey(s.pref.Weights, s.classes, s.named)); o != nil {
		return o
	}
	roots := uint64(math.MaxUint64)
	s.named.sets(r.world, func(set *roaring.Bitmap) { roots = min(roots, set.GetCardinality()) })
	if r.spent[s.named.key] < r.costOfOrder*int(roots) {
		return nil
	}
	delete(r.spent, s.named.key)
	return r.order(s, s.named, asked)
}

// wasted notes how many roots were looked at for a request that requires something by name,
// in an order of others, too.
func (r *Ranking) wasted(s *selection, o *order, looked int) {
	if s.named == nil || o != nil && o.named != nil {
		return
	}
	if r.spent == nil || len(r.spent) >= maxSpent {
		r.spent = make(map[string]int)
	}
	r.spent[s.named.key] += looked
}

// askedOf is how much must be free of an order's tracked classes.
func askedOf(o *order, total []Resource) []about {
	asked := make([]about, len(o.classes))
	for c, class := range o.classes {
		for _, a := range total {
			if a.Class == class {
				asked[c] = roundDown(float64(a.Amount))
			}
		}
	}
	return asked
}

// Copies is how often a request can be served at once, at most: no more than so often. It
// looks at each tree by itself, and at sums only.
func (r *Ranking) Copies(ctx context.Context, req *Request, most int) (n int, err error) {
	s := newSelection(ctx, r.world, req, &Preference{}, 1)
	if s.sharing() {
		return most, nil
	}
	if err := s.prepareAll(); err != nil {
		return 0, err
	}
	for it := s.plan.anchors.bits().Iterator(); n < most && it.HasNext(); {
		s.search.anchor = it.Next()
		s.search.root = r.world.entries.get(s.search.anchor).p
		here, _, err := s.search.copies(most - n)
		if err != nil {
			return 0, err
		}
		n += here
	}
	return n, nil
}

// Hides reports whether what is assumed may be why a request has no
// candidates: whether the trees that something is assumed of have one without that.
func (r *Ranking) Hides(ctx context.Context, req *Request) (bool, error) {
	if len(r.assumed) == 0 {
		return false, nil
	}
	s := newSelection(ctx, r.base, req, &Preference{}, 1)
	if s.sharing() {
		return true, nil
	}
	roots := roaring.New()
	for id := range r.assumed {
		if number, known := r.base.number(id); known {
			roots.Add(r.base.entries.get(number).root)
		}
	}
	err := s.each(roots, 0)
	return len(s.found) > 0, err
}
