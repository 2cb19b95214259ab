package candidates

import (
	"context"
	"fmt"
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
	members := r.members(root)
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

func (r *Ranking) members(root uint32) []*ledger.Provider {
	numbers := r.world.trees.get(root)
	members := make([]*ledger.Provider, len(numbers))
	for i, number := range numbers {
		members[i] = r.world.entries.get(number).p
	}
	return members
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

// Best finds up to k candidates, the best first. It looks at all of them.
func Best(ctx context.Context, w *World, req *Request, pref *Preference, k int) ([]Ranked, error) {
	return newSelection(ctx, w, req, pref, k).all()
}

// selection is the search for the best candidates of one request.
type selection struct {
	*meter
	world *World
	req   *Request
	pref  *Preference
	k     int
	point ledger.UUID
	found []Ranked // the best so far, at most k

	search *search // of trees with several providers; nil: not needed so far
	plan   *plan
}

func newSelection(ctx context.Context, w *World, req *Request, pref *Preference, k int) *selection {
	whole := *req
	whole.Limit, whole.Shuffle = 0, false // the order is that of the preference
	return &selection{
		meter: &meter{ctx: ctx, req: &whole}, world: w, req: &whole, pref: pref, k: k, point: pref.point(),
	}
}

// exhaustive: sharing providers tie trees together, so that what is in one says
// nothing about its candidates.
func (s *selection) exhaustive() bool {
	return !bitsOf(s.world.traits, SharingTrait).IsEmpty() || len(s.pref.Traits)+len(s.pref.Aggregates) > maxSoft
}

// all looks at every candidate.
func (s *selection) all() ([]Ranked, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}
	for it := s.plan.anchors.Iterator(); it.HasNext(); {
		if err := s.tree(it.Next()); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

// each looks at some roots.
func (s *selection) each(roots *roaring.Bitmap, bonus float64) error {
	for it := roots.Iterator(); it.HasNext(); {
		number := it.Next()
		if err := s.step(); err != nil {
			return err
		}
		root := s.world.entries.get(number).p
		from := s.pref.distance(s.point, root.UUID)
		bound := bonus
		if len(s.pref.Weights) > 0 {
			bound += s.pref.bound(s.members(number))
		}
		if _, err := s.consider(number, bound, from); err != nil {
			return err
		}
	}
	return nil
}

func (s *selection) members(root uint32) []*ledger.Provider {
	numbers := s.world.trees.get(root)
	members := make([]*ledger.Provider, len(numbers))
	for i, number := range numbers {
		members[i] = s.world.entries.get(number).p
	}
	return members
}

// consider looks at a tree whose candidates have at most some score, unless
// enough are found that are better.
func (s *selection) consider(root uint32, bound float64, from distance) (enough bool, err error) {
	if len(s.found) == s.k {
		if last := &s.found[s.k-1]; precedes(last.Score, last.from, bound, from) {
			return true, nil
		}
	}
	if len(s.world.trees.get(root)) > 1 {
		if err := s.prepare(); err != nil || !s.plan.anchors.Contains(root) {
			return false, err
		}
		return false, s.tree(root)
	}
	p := s.world.entries.get(root).p
	if err := s.work(1 + len(s.req.Groups)); err != nil || !servesAlone(s.req, p) {
		return false, err
	}
	alone := []*ledger.Provider{p}
	score := s.pref.Score(p, alone)
	if !s.wanted(score, from) {
		return false, nil
	}
	one := Ranked{Root: p, Score: score, Seen: alone, from: from}
	one.Uses = usesOf(s.req, p)
	for range s.req.Groups {
		one.Groups = append(one.Groups, alone)
	}
	s.keep(one)
	return false, nil
}

// prepare makes what trees with several providers are searched with.
func (s *selection) prepare() (err error) {
	if s.search != nil {
		return nil
	}
	if s.plan, err = s.world.plan(s.req, s.meter); err == nil {
		s.search = newSearch(s.meter, s.world, s.req, s.plan, s.candidate)
	}
	return err
}

// tree looks at every candidate of a tree.
func (s *selection) tree(anchor uint32) error {
	s.search.anchor, s.search.root = anchor, s.world.entries.get(anchor).p
	_, err := s.search.visitAnchor()
	return err
}

// candidate keeps one if it is among the best. Of equal ones of a tree that
// stays first which was found first.
func (s *selection) candidate(c *Candidate) bool {
	var providers []*ledger.Provider
	for _, members := range c.Groups {
		for _, p := range members {
			if !slices.Contains(providers, p) {
				providers = append(providers, p)
			}
		}
	}
	root, _ := s.world.Provider(providers[0].Root) // whatever tree the anchor is of
	score, from := s.pref.Score(root, providers), s.pref.distance(s.point, root.UUID)
	if !s.wanted(score, from) {
		return true
	}
	one := Ranked{Root: root, Score: score, Seen: s.withParents(providers), from: from}
	one.Uses = slices.Clone(c.Uses)
	for _, members := range c.Groups {
		one.Groups = append(one.Groups, slices.Clone(members))
	}
	s.keep(one)
	return true
}

// withParents adds what is above providers.
func (s *selection) withParents(providers []*ledger.Provider) []*ledger.Provider {
	seen := slices.Clone(providers)
	for i := 0; i < len(seen); i++ {
		if parent, has := s.world.Provider(seen[i].Parent); has && !slices.Contains(seen, parent) {
			seen = append(seen, parent)
		}
	}
	return seen
}

func (s *selection) wanted(score float64, from distance) bool {
	if len(s.found) < s.k {
		return true
	}
	last := &s.found[s.k-1]
	return precedes(score, from, last.Score, last.from)
}

func (s *selection) keep(one Ranked) {
	i := len(s.found)
	for i > 0 && precedes(one.Score, one.from, s.found[i-1].Score, s.found[i-1].from) {
		i--
	}
	if len(s.found) == s.k {
		s.found = s.found[:s.k-1]
	}
	s.found = slices.Insert(s.found, i, one)
}

// total is what the request asks for, of each class together.
func (s *selection) total() (total []Resource) {
	for i := range s.req.Groups {
		for _, r := range s.req.Groups[i].Resources {
			j := slices.IndexFunc(total, func(t Resource) bool { return t.Class == r.Class })
			if j < 0 {
				total, j = append(total, Resource{Class: r.Class}), len(total)
			}
			total[j].Amount += r.Amount
		}
	}
	return total
}

// narrowest is the smallest set of roots that the request's filters of names
// leave, each by itself; nil: it has none.
func (s *selection) narrowest() (narrow *roaring.Bitmap) {
	w := s.world
	add := func(roots *roaring.Bitmap) {
		if narrow == nil || roots.GetCardinality() < narrow.GetCardinality() {
			narrow = roots
		}
	}
	for _, name := range s.req.RootRequired {
		add(bitsOf(w.traits, name))
	}
	for i := range s.req.Groups {
		g := &s.req.Groups[i]
		for _, anyOf := range g.Required {
			add(w.rootsOf(w.withAnyTrait(anyOf)))
		}
		for _, anyOf := range g.MemberOf {
			add(w.rootsOf(w.inAnyAggregate(anyOf)))
		}
		if g.InTree != nil && len(g.Resources) > 0 {
			add(roaring.And(w.treeOf(*g.InTree), w.roots))
		}
	}
	if narrow != nil {
		narrow = roaring.And(narrow, w.roots) // a trait may be of no root
	}
	return narrow
}

// stratum is the roots that have the same of what is preferred, and what that
// is worth at most; nil: all roots.
type stratum struct {
	roots *roaring.Bitmap
	bonus float64
}

// strata divides the roots by which preferred traits and aggregates are
// somewhere in their trees.
func (s *selection) strata() []stratum {
	var sets []*roaring.Bitmap
	var weights []float64
	for _, t := range s.pref.Traits {
		sets, weights = append(sets, s.world.rootsOf(bitsOf(s.world.traits, t.Trait))), append(weights, t.Weight)
	}
	for _, a := range s.pref.Aggregates {
		sets = append(sets, s.world.rootsOf(bitsOf(s.world.aggregates, a.Aggregate)))
		weights = append(weights, a.Weight)
	}
	if sets == nil {
		return []stratum{{}}
	}
	var list []stratum
	for mask := range 1 << len(sets) {
		one := stratum{roots: s.world.roots.Clone()}
		for i, set := range sets {
			if mask>>i&1 == 0 {
				one.roots.AndNot(set)
				continue
			}
			one.roots.And(set)
			one.bonus += s.worth(weights[i])
		}
		if !one.roots.IsEmpty() {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b stratum) int {
		switch {
		case a.bonus > b.bonus:
			return -1
		case a.bonus < b.bonus:
			return 1
		}
		return 0
	})
	return list
}

// worth is what something in a tree adds at most to the score of a candidate,
// which need not have to do with it where trees have several providers.
func (s *selection) worth(weight float64) float64 {
	if s.world.Nested() {
		return max(weight, 0)
	}
	return weight
}

// servesAlone reports whether a provider that is a tree by itself satisfies a
// request, as a search would find.
func servesAlone(req *Request, p *ledger.Provider) bool {
	for _, name := range req.RootRequired {
		if !p.HasTrait(name) {
			return false
		}
	}
	for _, name := range req.RootForbidden {
		if p.HasTrait(name) {
			return false
		}
	}
	suffixed := 0
	for i := range req.Groups {
		g := &req.Groups[i]
		if g.Suffix != "" {
			if suffixed++; suffixed > 1 && req.Isolate {
				return false
			}
			if len(g.Resources)+len(g.Required)+len(g.MemberOf) == 0 {
				return false
			}
		}
		if !passes(g, p) || !fits(p, g.Resources) {
			return false
		}
	}
	return len(req.Groups) == 1 || fitTogether(req, p)
}

// passes makes a group's checks of names for a provider that serves it alone.
func passes(g *Group, p *ledger.Provider) bool {
	for _, anyOf := range g.Required {
		if !hasAny(p, anyOf) {
			return false
		}
	}
	for _, name := range g.Forbidden {
		if p.HasTrait(name) {
			return false
		}
	}
	for _, anyOf := range g.MemberOf {
		if !memberOfAny(p, anyOf) {
			return false
		}
	}
	return !memberOfAny(p, g.NotMemberOf) && (g.InTree == nil || len(g.Resources) == 0 || *g.InTree == p.UUID)
}

// fitTogether checks the sums of what groups take of a provider.
func fitTogether(req *Request, p *ledger.Provider) bool {
	for _, use := range usesOf(req, p) {
		inv, _ := p.Inventory(use.Class)
		if use.Amount > inv.MaxUnit || float64(inv.Used+use.Amount) > inv.Capacity() {
			return false
		}
	}
	return true
}

// usesOf is what a request takes of a provider that serves all of it, in the
// order in which a search has it.
func usesOf(req *Request, p *ledger.Provider) []Use {
	var uses []Use
	for i := range req.Groups {
		for _, r := range req.Groups[i].Resources {
			sum := r.Amount
			if j := slices.IndexFunc(uses, func(u Use) bool { return u.Class == r.Class }); j >= 0 {
				sum += uses[j].Amount
				uses = slices.Delete(uses, j, j+1)
			}
			uses = append(uses, Use{p, r.Class, sum})
		}
	}
	return uses
}

// String is for tests and logs.
func (r *Ranked) String() string {
	return fmt.Sprintf("%s with %v", r.Root.UUID, r.Score)
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
