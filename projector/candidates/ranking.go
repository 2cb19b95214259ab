package candidates

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// Ranking finds the best candidates by preferences. It follows the moments of
// one index, and keeps the roots in order for those weights that it is asked
// for: what is best is then found without looking at everything. What was
// promised to claims that are on their way can be assumed to be taken. It is not
// safe for concurrent use.
type Ranking struct {
	base  *World // the moment that it is about
	world *World // the same, with what is assumed
	stamp uint64 // of the pages that are the world's own

	assumed map[ledger.UUID][]ledger.ClassAmount // by provider
	orders  []*order
	uses    uint64 // counts searches
}

const (
	// maxOrders is how many orders are kept; the one that was not used for the
	// longest time makes room.
	maxOrders = 8
	// ownPages sets the stamps of a Ranking's pages apart from an index's epochs.
	ownPages = 1 << 63
	// maxSoft is up to how many preferred traits and aggregates roots are
	// divided by which they have.
	maxSoft = 4
)

// NewRanking returns a Ranking of a moment.
func NewRanking(w *World) *Ranking {
	r := &Ranking{assumed: make(map[ledger.UUID][]ledger.ClassAmount)}
	r.Sync(w)
	return r
}

// Sync goes on to another moment. It costs as much as has changed, if it is one of the
// same index.
func (r *Ranking) Sync(w *World) {
	before := r.world
	r.base = w
	world := *w
	r.stamp++
	world.entries.epoch = 0
	r.world = &world
	for id := range r.assumed {
		r.effect(id)
	}
	if before == nil || before.lineage != w.lineage {
		r.orders = nil
		return
	}
	if len(r.orders) == 0 {
		return
	}
	eachDifference(&before.trees, &world.trees, func(number uint32, _, _ []uint32) { r.file(number) })
	eachDifference(&before.entries, &world.entries, func(_ uint32, was, is entry) {
		if was.p == is.p {
			return
		}
		if was.p != nil && (is.p == nil || was.root != is.root) {
			r.file(was.root)
		}
		if is.p != nil {
			r.file(is.root)
		}
	})
}

// eachDifference goes over what is in pages that two lists do not share.
func eachDifference[T any](before, after *pages[T], yield func(number uint32, was, is T)) {
	for i := range max(len(before.list), len(after.list)) {
		if i < len(before.list) && i < len(after.list) && before.list[i] == after.list[i] {
			continue
		}
		for n := uint32(i) * pageSize; n < uint32(i+1)*pageSize; n++ {
			yield(n, before.get(n), after.get(n))
		}
	}
}

// Assume has amounts taken, or with sign -1 given back, until the same is
// assumed with the other sign. Sync does not end it.
func (r *Ranking) Assume(uses []Use, sign int64) {
	for i := range uses {
		id := uses[i].Provider.UUID
		r.note(id, uses[i].Class, sign*uses[i].Amount)
		if i+1 < len(uses) && uses[i+1].Provider.UUID == id {
			continue // once for all that is taken of one provider
		}
		if root, known := r.effect(id); known {
			r.file(root)
		}
	}
}

// SyncAfter is Sync to a moment in which some of what was assumed has come true,
// or never will.
func (r *Ranking) SyncAfter(w *World, settled []Use) {
	for _, use := range settled {
		r.note(use.Provider.UUID, use.Class, -use.Amount)
	}
	r.Sync(w)
}

// note changes what is assumed of a provider.
func (r *Ranking) note(provider ledger.UUID, class ledger.ClassID, amount int64) {
	list := r.assumed[provider]
	i := slices.IndexFunc(list, func(a ledger.ClassAmount) bool { return a.Class == class })
	if i < 0 {
		list, i = append(list, ledger.ClassAmount{Class: class}), len(list)
	}
	list[i].Amount += amount
	if list[i].Amount == 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(r.assumed, provider)
	} else {
		r.assumed[provider] = list
	}
}

// Assumes reports whether anything is assumed.
func (r *Ranking) Assumes() bool { return len(r.assumed) > 0 }

// effect puts a provider into the world with what is assumed of it.
func (r *Ranking) effect(id ledger.UUID) (root uint32, known bool) {
	number, known := r.base.number(id)
	if !known {
		return 0, false
	}
	e := r.base.entries.get(number)
	if list := r.assumed[id]; len(list) > 0 {
		p := *e.p
		p.Inventories = slices.Clone(p.Inventories)
		for _, a := range list {
			for i := range p.Inventories {
				if p.Inventories[i].Class == a.Class {
					p.Inventories[i].Used += a.Amount
				}
			}
		}
		e.p = &p
	}
	r.world.entries.set(number, e, ownPages|r.stamp)
	return e.root, true
}

// file moves a root to where it belongs in all orders.
func (r *Ranking) file(root uint32) {
	for _, o := range r.orders {
		p, exists := r.place(o, root)
		if exists {
			o.file(p)
		} else if e := r.idOf(o, root); e != nil {
			o.take(root, *e)
		}
	}
}

// idOf finds the uuid under which a root is filed that is none any more.
func (r *Ranking) idOf(o *order, root uint32) *ledger.UUID {
	if int(root) >= len(o.filed) || !o.filed[root].there {
		return nil
	}
	score := o.filed[root].score
	for at := o.seek(score, ledger.NilUUID); at.block < len(o.blocks); at = (position{at.block + 1, 0}) {
		for _, p := range o.blocks[at.block].places[at.index:] {
			if p.number == root {
				return &p.id
			}
		}
	}
	return nil
}

// place is where a root belongs; false: it is none.
func (r *Ranking) place(o *order, root uint32) (place, bool) {
	e := r.world.entries.get(root)
	if e.p == nil || e.root != root {
		return place{}, false
	}
	members := r.world.treeMembers(root)
	pref := Preference{Weights: o.weights}
	p := place{score: pref.bound(members), id: e.p.UUID, number: root}
	for c, class := range o.classes {
		for _, one := range members {
			if inv, has := one.Inventory(class); has {
				p.free[c] += max(0, inv.Capacity()-float64(inv.Used))
			}
		}
		p.free[c] += p.free[c]*1e-9 + 1e-3 // rounding must not hide what fits
	}
	return p, true
}

// order finds the order of some weights, or makes it. Those classes are
// tracked that the first request with these weights asks for.
func (r *Ranking) order(weights []ClassWeight, asked []Resource) *order {
	var text strings.Builder
	for _, w := range weights {
		text.WriteString(strconv.FormatUint(uint64(w.Class), 36))
		text.WriteByte(':')
		text.WriteString(strconv.FormatUint(math.Float64bits(w.Weight), 36))
		text.WriteByte(' ')
	}
	r.uses++
	for _, o := range r.orders {
		if o.key == text.String() {
			o.used = r.uses
			return o
		}
	}
	o := &order{key: text.String(), weights: slices.Clone(weights), used: r.uses}
	for _, a := range asked {
		if len(o.classes) < maxTracked {
			o.classes = append(o.classes, a.Class)
		}
	}
	var places []place
	for it := r.world.roots.Iterator(); it.HasNext(); {
		if p, is := r.place(o, it.Next()); is {
			places = append(places, p)
		}
	}
	o.fill(places)
	if len(r.orders) == maxOrders {
		oldest := slices.MinFunc(r.orders, func(a, b *order) int { return int(int64(a.used - b.used)) })
		r.orders = slices.DeleteFunc(r.orders, func(o *order) bool { return o == oldest })
	}
	r.orders = append(r.orders, o)
	return o
}

// Best finds up to k candidates, the best first. It finds the same as the
// function Best does.
func (r *Ranking) Best(ctx context.Context, req *Request, pref *Preference, k int) ([]Ranked, error) {
	s := newSelection(ctx, r.world, req, pref, k)
	if s.exhaustive() {
		return s.all()
	}
	narrow := s.narrowest()
	for _, part := range s.strata() {
		if err := r.part(s, part, narrow); err != nil {
			return nil, err
		}
	}
	return s.found, nil
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
	most := math.MaxInt
	if among != nil {
		n := int(among.GetCardinality())
		if n*n <= 16*int(r.world.roots.GetCardinality()) || s.pref.Random {
			return s.each(among, part.bonus)
		}
		most = 8 * n
	}
	if s.pref.Random {
		return s.each(r.world.roots, part.bonus)
	}
	asked := s.total()
	o := r.order(s.pref.Weights, asked)
	w := &walk{order: o, asked: askedOf(o, asked), point: s.point}
	for looked := 0; ; looked++ {
		if looked >= most {
			return s.each(among, part.bonus) // those that it is about stand at the end
		}
		p := w.next()
		if p == nil {
			return nil
		}
		if err := s.step(); err != nil {
			return err
		}
		if among != nil && !among.Contains(p.number) {
			continue
		}
		enough, err := s.consider(p.number, p.score+part.bonus, s.pref.distance(s.point, p.id))
		if enough || err != nil {
			return err
		}
	}
}

// askedOf is how much must be free of an order's tracked classes.
func askedOf(o *order, total []Resource) []float64 {
	asked := make([]float64, len(o.classes))
	for c, class := range o.classes {
		for _, a := range total {
			if a.Class == class {
				asked[c] = float64(a.Amount)
			}
		}
	}
	return asked
}

// Hides reports whether what is assumed may be why a request has no
// candidates: whether the trees that something is assumed of have one without that.
func (r *Ranking) Hides(ctx context.Context, req *Request) (bool, error) {
	if len(r.assumed) == 0 {
		return false, nil
	}
	s := newSelection(ctx, r.base, req, &Preference{}, 1)
	if s.exhaustive() {
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
