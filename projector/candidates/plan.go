package candidates

import (
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
	allowed *roaring.Bitmap
	last    bool // slots of its group
}

// plan is everything about a request that bitmaps can decide.
type plan struct {
	slots   []slot
	kinds   []kind
	classes []ledger.ClassID // that are asked for
	// required are the traits that the group without a suffix requires.
	required [][]string
	anchors  *roaring.Bitmap // the roots that may be anchors; see narrow
	guests   []guest
	rivals   []uint64 // pairs of kinds, as bits; see findRivals
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
	anchors *roaring.Bitmap
}

// plan evaluates the bitmaps, but for what providers say about their roots. It fails if
// that alone would be too much work.
func (w *World) plan(req *Request, m *meter) (*plan, error) {
	p := &plan{anchors: w.roots.Clone()}
	if err := m.work(len(req.RootRequired) + len(req.RootForbidden)); err != nil {
		return nil, err
	}
	for _, name := range req.RootRequired {
		p.anchors.And(bitsOf(w.traits, name))
	}
	for _, name := range req.RootForbidden {
		p.anchors.AndNot(bitsOf(w.traits, name))
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
		if err := m.work(w.costOfFilters(g)); err != nil {
			return nil, err
		}
		if g.Suffix == "" {
			w.planSpread(p, i, g)
		} else {
			w.planWhole(p, i, g)
		}
	}
	p.describe(req)
	return p, w.findGuests(p, req, m)
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

// describe fills in what kinds ask for.
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
	p.findRivals()
}

// add adds the first slot of a kind.
func (p *plan) add(s slot) {
	s.kind = len(p.kinds)
	p.kinds = append(p.kinds, kind{first: len(p.slots), slots: 1})
	p.slots = append(p.slots, s)
}

// narrow leaves the anchors whose trees have a provider for each kind. Where most
// providers are allowed, to look at the trees one by one is faster.
func (w *World) narrow(p *plan, req *Request, m *meter) error {
	for _, k := range p.kinds {
		s := &p.slots[k.first]
		guests := p.guestsOf(&req.Groups[s.group])
		if err := m.work((1 + len(guests)) * w.costOfSet()); err != nil {
			return err
		}
		if s.allowed.AndCardinality(w.nested) <= 2*w.roots.GetCardinality() {
			p.anchors.And(w.anchorsOf(s.allowed, guests))
		}
	}
	return nil
}

// costOfSet is the work of combining two sets of providers.
func (w *World) costOfSet() int { return 1 + int(w.all.GetCardinality())/4096 }

// costOfFilters is the work of a group's filters, before any single provider is
// examined. It includes the trees that aggregates span.
func (w *World) costOfFilters(g *Group) int {
	sets := 1 + len(g.Resources) + len(g.Forbidden) + 2*len(g.NotMemberOf)
	for _, anyOf := range g.Required {
		sets += len(anyOf)
	}
	spans := 0
	for _, anyOf := range g.MemberOf {
		sets += len(anyOf)
		if g.Suffix == "" {
			for _, id := range anyOf {
				spans += int(bitsOf(w.aggregates, id).GetCardinality())
			}
		}
	}
	return sets*w.costOfSet() + spans
}

// planSpread plans the group without a suffix: each class wholly from one source,
// which may differ between classes.
func (w *World) planSpread(p *plan, i int, g *Group) {
	p.required = g.Required
	filter := w.all.Clone()
	for _, name := range g.Forbidden {
		filter.AndNot(bitsOf(w.traits, name))
	}
	for _, aggregate := range g.NotMemberOf {
		filter.AndNot(bitsOf(w.aggregates, aggregate))
		p.anchors.AndNot(bitsOf(w.aggregates, aggregate))
	}
	if g.InTree != nil {
		filter.And(w.treeOf(*g.InTree))
		p.anchors.And(w.treeOf(*g.InTree))
	}
	for _, anyOf := range g.MemberOf {
		filter.And(w.spanned(w.inAnyAggregate(anyOf)))
	}
	for j, r := range g.Resources {
		p.add(slot{
			group: i, resources: g.Resources[j : j+1], last: j == len(g.Resources)-1,
			allowed: roaring.And(bitsOf(w.classes, r.Class), filter),
		})
	}
}

// spanned adds to the members of aggregates the trees of the roots among them.
// Sharing providers of other trees are not added by this.
func (w *World) spanned(members *roaring.Bitmap) *roaring.Bitmap {
	var more []uint32
	for it := roaring.And(members, w.roots).Iterator(); it.HasNext(); {
		if tree := w.trees.get(it.Next()); len(tree) > 1 {
			more = append(more, tree...)
		}
	}
	spanned := members.Clone()
	spanned.AddMany(more)
	return spanned
}

// planWhole plans a group that one provider serves.
func (w *World) planWhole(p *plan, i int, g *Group) {
	allowed := none
	// As upstream, traits that are only forbidden match nothing.
	if len(g.Resources) > 0 || len(g.Required) > 0 || len(g.MemberOf) > 0 {
		allowed = w.allowed(g)
	}
	if g.InTree != nil && len(g.Resources) > 0 { // as upstream, in_tree of a resourceless group is ignored
		allowed.And(w.treeOf(*g.InTree))
	}
	p.add(slot{group: i, resources: g.Resources, allowed: allowed, last: true})
}

// allowed returns the providers that alone pass every filter of a group except
// those of amounts and trees. The caller may change the bitmap.
func (w *World) allowed(g *Group) *roaring.Bitmap {
	allowed := w.all.Clone()
	for _, r := range g.Resources {
		allowed.And(bitsOf(w.classes, r.Class))
	}
	for _, anyOf := range g.Required {
		allowed.And(w.withAnyTrait(anyOf))
	}
	for _, name := range g.Forbidden {
		allowed.AndNot(bitsOf(w.traits, name))
	}
	for _, anyOf := range g.MemberOf {
		allowed.And(w.inAnyAggregate(anyOf))
	}
	for _, aggregate := range g.NotMemberOf {
		allowed.AndNot(bitsOf(w.aggregates, aggregate))
	}
	return allowed
}

func (w *World) withAnyTrait(names []string) *roaring.Bitmap {
	if len(names) == 1 {
		return bitsOf(w.traits, names[0])
	}
	sets := make([]*roaring.Bitmap, len(names))
	for i, name := range names {
		sets[i] = bitsOf(w.traits, name)
	}
	return roaring.FastOr(sets...)
}

func (w *World) inAnyAggregate(ids []ledger.UUID) *roaring.Bitmap {
	if len(ids) == 1 {
		return bitsOf(w.aggregates, ids[0])
	}
	sets := make([]*roaring.Bitmap, len(ids))
	for i, id := range ids {
		sets[i] = bitsOf(w.aggregates, id)
	}
	return roaring.FastOr(sets...)
}

// treeOf returns the tree of a provider; nothing if the provider does not exist.
func (w *World) treeOf(id ledger.UUID) *roaring.Bitmap {
	number, ok := w.number(id)
	if !ok {
		return none
	}
	return roaring.BitmapOf(w.trees.get(w.entries.get(number).root)...)
}

// findGuests finds the sharing providers that some slot allows.
func (w *World) findGuests(p *plan, req *Request, m *meter) error {
	sharing := bitsOf(w.traits, SharingTrait)
	if sharing.IsEmpty() {
		return nil
	}
	wanted := roaring.New()
	for _, k := range p.kinds {
		if s := &p.slots[k.first]; visitable(&req.Groups[s.group]) {
			wanted.Or(roaring.And(s.allowed, sharing))
		}
	}
	for it := wanted.Iterator(); it.HasNext(); {
		number := it.Next()
		aggregates := w.entries.get(number).p.Aggregates
		if err := m.work((1 + len(aggregates)) * w.costOfSet()); err != nil {
			return err
		}
		p.guests = append(p.guests, guest{number: number, anchors: w.rootsOf(w.inAnyAggregate(aggregates))})
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
			anchors = roaring.Or(anchors, g.anchors)
		}
	}
	return anchors
}

// order lists the anchors in the order in which the request visits them.
func (p *plan) order(req *Request) []uint32 {
	list := p.anchors.ToArray()
	if req.Shuffle {
		draw := rand.New(rand.NewPCG(req.Seed, 0))
		draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return list
}
