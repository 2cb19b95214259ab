package candidates

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// slot is one choice that a candidate makes: the provider of one class of the
// group without a suffix, or the one provider of another group.
type slot struct {
	group     int
	kind      int // the same for slots whose groups ask the same
	resources []Resource
	// allowed holds the providers that pass every filter except those of amounts
	// and those that depend on the anchor.
	allowed *set
	last    bool // slots of its group
}

// plan is everything about a request that bitmaps can decide.
type plan struct {
	slots   []slot
	kinds   []kind
	classes []ledger.ClassID // that are asked for
	// required are the traits that the group without a suffix requires.
	required [][]string
	anchors  *set // the roots that may be anchors; see narrow
	guests   []guest
	contests []contest // see findContests
}

// kind is what slots have in common whose groups ask the same.
type kind struct {
	first    int // of its slots
	slots    int
	spread   bool    // of the group without a suffix
	subtrees []bool  // the sets of same_subtree that its groups are in
	amounts  []int64 // per class of the plan
	alone    bool    // group_policy=isolate
}

// guest is a sharing provider that some slot allows, and its anchors.
type guest struct {
	number  uint32
	anchors *set
}

// plan describes the sets of providers, but for what these say about their roots. It fails if
// that alone would be too much work.
func (w *World) plan(req *Request, m *meter) (*plan, error) {
	p := &plan{anchors: w.set().and(w.roots)}
	if err := m.work(len(req.RootRequired) + len(req.RootForbidden)); err != nil {
		return nil, err
	}
	for _, name := range req.RootRequired {
		p.anchors.and(bitsOf(w.traits, name))
	}
	for _, name := range req.RootForbidden {
		p.anchors.andNot(bitsOf(w.traits, name))
	}
	for i := range req.Groups {
		g := &req.Groups[i]
		if like := p.like(req, i); like != nil {
			p.kinds[like.kind].slots++
			one := *like
			one.group = i
			p.slots = append(p.slots, one)
			continue
		}
		if err := m.work(filtersOf(g)); err != nil {
			return nil, err
		}
		if g.Suffix == "" {
			w.planSpread(p, i, g)
		} else {
			w.planWhole(p, i, g)
		}
	}
	p.describe(req)
	if err := w.findGuests(p, req, m); err != nil {
		return nil, err
	}
	if !w.Nested() {
		for _, k := range p.kinds {
			if s := &p.slots[k.first]; len(p.guestsOf(&req.Groups[s.group])) == 0 {
				p.anchors.andSet(s.allowed)
			}
		}
	}
	return p, nil
}

// like finds a slot whose group asks the same as another one with a suffix.
func (p *plan) like(req *Request, group int) *slot {
	g := &req.Groups[group]
	for i := range p.slots {
		if g.Suffix != "" && asksSame(req, g, &req.Groups[p.slots[i].group]) {
			return &p.slots[i]
		}
	}
	return nil
}

// asksSame reports whether two groups ask for the same, and are in the same sets of
// same_subtree.
func asksSame(req *Request, a, b *Group) bool {
	for _, suffixes := range req.SameSubtree {
		if slices.Contains(suffixes, a.Suffix) != slices.Contains(suffixes, b.Suffix) {
			return false
		}
	}
	return a.Suffix != "" && b.Suffix != "" && slices.Equal(a.Resources, b.Resources) &&
		slices.EqualFunc(a.Required, b.Required, slices.Equal) && slices.Equal(a.Forbidden, b.Forbidden) &&
		slices.EqualFunc(a.MemberOf, b.MemberOf, slices.Equal) && slices.Equal(a.NotMemberOf, b.NotMemberOf) &&
		(a.InTree == nil) == (b.InTree == nil) && (a.InTree == nil || *a.InTree == *b.InTree)
}

func (p *plan) describe(req *Request) {
	for i := range p.slots {
		for _, r := range p.slots[i].resources {
			if !slices.Contains(p.classes, r.Class) {
				p.classes = append(p.classes, r.Class)
			}
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		g := &req.Groups[p.slots[k.first].group]
		k.alone, k.spread = req.Isolate && g.Suffix != "", g.Suffix == ""
		for _, suffixes := range req.SameSubtree {
			k.subtrees = append(k.subtrees, g.Suffix != "" && slices.Contains(suffixes, g.Suffix))
		}
		k.amounts = make([]int64, len(p.classes))
		for _, r := range p.slots[k.first].resources {
			k.amounts[slices.Index(p.classes, r.Class)] += r.Amount
		}
	}
	p.findContests()
}

func (p *plan) add(s slot) {
	s.kind = len(p.kinds)
	p.kinds = append(p.kinds, kind{first: len(p.slots), slots: 1})
	p.slots = append(p.slots, s)
}

// narrow leaves the anchors whose trees have a provider for each kind. Where most
// providers are allowed, to look at the trees one by one is faster.
func (w *World) narrow(p *plan, req *Request, m *meter) error {
	anchors := w.set().and(p.anchors.bits())
	for _, k := range p.kinds {
		s := &p.slots[k.first]
		guests := p.guestsOf(&req.Groups[s.group])
		if err := m.work(w.costOfFilters(&req.Groups[s.group]) + (1+len(guests))*w.costOfSet()); err != nil {
			return err
		}
		if s.allowed.bits().AndCardinality(w.nested) <= 2*w.roots.GetCardinality() {
			anchors.and(w.anchorsOf(s.allowed.bits(), guests))
		}
	}
	p.anchors = anchors
	anchors.bits()
	return nil
}

// costOfNarrow is about how many trees can be looked at in the time of narrow.
func (w *World) costOfNarrow(p *plan) int {
	cost := uint64(0)
	for _, k := range p.kinds {
		cost += p.slots[k.first].allowed.most()
	}
	return 8 + int(cost)/64
}

// costOfSet is the work of combining two sets of providers.
func (w *World) costOfSet() int { return 1 + int(w.all.GetCardinality())/4096 }

// filtersOf is how many sets a group's filters are.
func filtersOf(g *Group) int {
	sets := 1 + len(g.Resources) + len(g.Forbidden) + 2*len(g.NotMemberOf)
	for _, anyOf := range g.Required {
		sets += len(anyOf)
	}
	for _, anyOf := range g.MemberOf {
		sets += len(anyOf)
	}
	return sets
}

// costOfFilters is the work to combine the sets of a group's filters. It includes the trees
// that aggregates span.
func (w *World) costOfFilters(g *Group) int {
	spans := 0
	for _, anyOf := range g.MemberOf {
		if g.Suffix == "" {
			for _, id := range anyOf {
				spans += int(bitsOf(w.aggregates, id).GetCardinality())
			}
		}
	}
	return filtersOf(g)*w.costOfSet() + spans
}

// planSpread plans the group without a suffix: each class wholly from one source,
// which may differ between classes.
func (w *World) planSpread(p *plan, i int, g *Group) {
	p.required = g.Required
	for _, aggregate := range g.NotMemberOf {
		p.anchors.andNot(bitsOf(w.aggregates, aggregate))
	}
	if g.InTree != nil {
		p.anchors.and(w.treeOf(*g.InTree))
	}
	for j, r := range g.Resources {
		allowed := w.set().and(bitsOf(w.classes, r.Class))
		w.exclude(allowed, g)
		if g.InTree != nil {
			allowed.and(w.treeOf(*g.InTree))
		}
		if len(g.MemberOf) == 1 {
			allowed.andSpanned(setsOf(w.aggregates, g.MemberOf[0])...)
		} else if len(g.MemberOf) > 1 {
			allowed.andSpanned(w.inAllAggregates(g.MemberOf))
		}
		p.add(slot{group: i, resources: g.Resources[j : j+1], last: j == len(g.Resources)-1, allowed: allowed})
	}
}

// exclude leaves out the providers with a trait, or in an aggregate, that a group forbids.
func (w *World) exclude(allowed *set, g *Group) {
	for _, name := range g.Forbidden {
		allowed.andNot(bitsOf(w.traits, name))
	}
	for _, aggregate := range g.NotMemberOf {
		allowed.andNot(bitsOf(w.aggregates, aggregate))
	}
}

// spanned adds to the members of aggregates the trees of the roots among them.
// Sharing providers of other trees are not added by this.
func (w *World) spanned(members *roaring.Bitmap) *roaring.Bitmap {
	var more []uint32
	for it := roaring.And(members, w.roots).Iterator(); it.HasNext(); {
		if root := it.Next(); !w.alone(root) {
			more = w.treeNumbers(more, root)
		}
	}
	spanned := members.Clone()
	spanned.AddMany(more)
	return spanned
}

// planWhole plans a group that one provider serves.
func (w *World) planWhole(p *plan, i int, g *Group) {
	allowed := w.set().and(none)
	// As upstream, traits that are only forbidden match nothing.
	if len(g.Resources) > 0 || len(g.Required) > 0 || len(g.MemberOf) > 0 {
		allowed = w.allowed(g)
	}
	if g.InTree != nil && len(g.Resources) > 0 { // as upstream, in_tree of a resourceless group is ignored
		allowed.and(w.treeOf(*g.InTree))
	}
	p.add(slot{group: i, resources: g.Resources, allowed: allowed, last: true})
}

// set is that of all providers.
func (w *World) set() *set { return &set{world: w} }

// allowed returns the providers that alone pass every filter of a group except
// those of amounts and trees.
func (w *World) allowed(g *Group) *set {
	allowed := w.set()
	for _, r := range g.Resources {
		allowed.and(bitsOf(w.classes, r.Class))
	}
	for _, anyOf := range g.Required {
		allowed.and(setsOf(w.traits, anyOf)...)
	}
	for _, anyOf := range g.MemberOf {
		allowed.and(setsOf(w.aggregates, anyOf)...)
	}
	w.exclude(allowed, g)
	return allowed
}

// setsOf are the providers with each of some traits, or in each of some aggregates.
func setsOf[K comparable](table map[K]*posting, keys []K) []*roaring.Bitmap {
	sets := make([]*roaring.Bitmap, len(keys))
	for i, key := range keys {
		sets[i] = bitsOf(table, key)
	}
	return sets
}

// inAllAggregates are the providers that are in one aggregate of each list. Of a tree that they span, the root is.
func (w *World) inAllAggregates(lists [][]ledger.UUID) *roaring.Bitmap {
	all := w.inAnyAggregate(lists[0]).Clone()
	for _, anyOf := range lists[1:] {
		all.And(w.inAnyAggregate(anyOf))
	}
	return all
}

func (w *World) withAnyTrait(names []string) *roaring.Bitmap { return union(setsOf(w.traits, names)) }

func (w *World) inAnyAggregate(ids []ledger.UUID) *roaring.Bitmap {
	return union(setsOf(w.aggregates, ids))
}

// treeOf returns the tree of a provider; nothing if the provider does not exist.
func (w *World) treeOf(id ledger.UUID) *roaring.Bitmap {
	number, ok := w.number(id)
	if !ok {
		return none
	}
	return roaring.BitmapOf(w.treeNumbers(nil, w.entries.get(number).root)...)
}

// findGuests finds the sharing providers that some slot allows.
func (w *World) findGuests(p *plan, req *Request, m *meter) error {
	sharing := bitsOf(w.traits, SharingTrait)
	if sharing.IsEmpty() {
		return nil
	}
	for it := sharing.Iterator(); it.HasNext(); {
		number := it.Next()
		if err := m.step(); err != nil {
			return err
		}
		if !slices.ContainsFunc(p.kinds, func(k kind) bool {
			s := &p.slots[k.first]
			return visitable(&req.Groups[s.group]) && s.allowed.contains(number)
		}) {
			continue
		}
		aggregates := w.entries.get(number).p.Aggregates
		anchors := w.set()
		if w.Nested() {
			if err := m.work((1 + len(aggregates)) * w.costOfSet()); err != nil {
				return err
			}
			anchors.and(w.rootsOf(w.inAnyAggregate(aggregates)))
		} else {
			anchors.and(setsOf(w.aggregates, aggregates)...)
		}
		p.guests = append(p.guests, guest{number, anchors})
	}
	return nil
}

// visitable reports whether a group may be served from outside the anchor's tree.
// in_tree of the group without a suffix forbids that.
func visitable(g *Group) bool { return g.Suffix != "" || g.InTree == nil }

func (p *plan) guestsOf(g *Group) []guest {
	if !visitable(g) {
		return nil
	}
	return p.guests
}

// rootsOf lists the roots of the trees that have one of these providers.
func (w *World) rootsOf(providers *roaring.Bitmap) *roaring.Bitmap {
	if !providers.Intersects(w.nested) {
		return providers
	}
	roots := roaring.And(providers, w.roots)
	nested := roaring.And(providers, w.nested)
	list := make([]uint32, 0, nested.GetCardinality())
	for it := nested.Iterator(); it.HasNext(); {
		root := w.entries.get(it.Next()).root
		if n := len(list); n == 0 || list[n-1] != root {
			list = append(list, root)
		}
	}
	roots.AddMany(list)
	return roots
}

// anchorsOf lists the anchors under which one of these providers can be used.
func (w *World) anchorsOf(providers *roaring.Bitmap, guests []guest) *roaring.Bitmap {
	anchors := w.rootsOf(providers)
	for _, g := range guests {
		if providers.Contains(g.number) {
			anchors = roaring.Or(anchors, g.anchors.bits())
		}
	}
	return anchors
}

func (p *plan) shuffled(seed uint64) []uint32 {
	list := p.anchors.bits().ToArray()
	draw := rand.New(rand.NewPCG(seed, 0))
	draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// named is what a request requires by name. Only trees that have all of it somewhere have
// candidates, unless sharing providers tie trees together.
type named struct {
	key        string
	root       []string        // traits of the root
	traits     [][]string      // one of each list
	aggregates [][]ledger.UUID // one of each list
}

// namedBy is what a request requires by name; nil: nothing.
func namedBy(req *Request) *named {
	n := &named{root: req.RootRequired}
	for i := range req.Groups {
		n.traits = append(n.traits, req.Groups[i].Required...)
		n.aggregates = append(n.aggregates, req.Groups[i].MemberOf...)
	}
	if len(n.root)+len(n.traits)+len(n.aggregates) == 0 {
		return nil
	}
	var key []byte
	key = binary.AppendUvarint(key, uint64(len(n.traits)))
	for _, list := range append([][]string{n.root}, n.traits...) {
		key = binary.AppendUvarint(key, uint64(len(list)))
		for _, name := range list {
			key = append(binary.AppendUvarint(key, uint64(len(name))), name...)
		}
	}
	for _, list := range n.aggregates {
		key = binary.AppendUvarint(key, uint64(len(list)))
		for _, id := range list {
			key = append(key, id[:]...)
		}
	}
	n.key = string(key)
	return n
}

// of reports whether a tree has what is required.
func (n *named) of(root *ledger.Provider, members []*ledger.Provider) bool {
	for _, name := range n.root {
		if !root.HasTrait(name) {
			return false
		}
	}
	for _, anyOf := range n.traits {
		if !slices.ContainsFunc(members, func(p *ledger.Provider) bool { return hasAny(p, anyOf) }) {
			return false
		}
	}
	for _, anyOf := range n.aggregates {
		if !slices.ContainsFunc(members, func(p *ledger.Provider) bool { return memberOfAny(p, anyOf) }) {
			return false
		}
	}
	return true
}

// sets calls yield with the roots that each name leaves, by itself.
func (n *named) sets(w *World, yield func(*roaring.Bitmap)) {
	for _, name := range n.root {
		yield(bitsOf(w.traits, name))
	}
	for _, anyOf := range n.traits {
		yield(w.rootsOf(w.withAnyTrait(anyOf)))
	}
	for _, anyOf := range n.aggregates {
		yield(w.rootsOf(w.inAnyAggregate(anyOf)))
	}
}
