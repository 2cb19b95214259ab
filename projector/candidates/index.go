package candidates

import (
	"cmp"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// World holds the providers at one moment, indexed for searches. It never
// changes, and any number of goroutines may use it.
//
// Providers are numbered in the order of their creation. The numbers are the
// members of the bitmaps, and searches visit providers in their order.
type World struct {
	// lineage is the index that it is a moment of: within one, numbers stay.
	lineage    *lineage
	ids        ids
	entries    pages[entry]
	all        *roaring.Bitmap
	roots      *roaring.Bitmap
	nested     *roaring.Bitmap // providers with a parent
	classes    map[ledger.ClassID]*posting
	traits     map[string]*posting
	aggregates map[ledger.UUID]*posting
}

// lineage is there to be pointed at; two of them are never the same.
type lineage struct{ seed maphash.Seed }

// entry is a provider in its tree. What it links are numbers and 1 more; 0: there is none. To
// keep the trees in lists would give the collector one more thing to visit for each.
type entry struct {
	p           *ledger.Provider
	root        uint32 // unfiled: it has no more than a number
	next, first uint32 // the next larger member of its tree; of a root: the smallest member
	beside      uint32 // the next of its bucket of ids
}

const unfiled = math.MaxUint32

// posting is the set of providers that have something. It is copied before its
// first change after a snapshot.
type posting struct {
	bits  *roaring.Bitmap
	epoch uint64
}

// Index updates a World, change by change. Its snapshots cost nothing. What they
// share with the index is copied when it changes, page by page. It is not safe
// for concurrent use.
type Index struct {
	world World
	next  uint32
	epoch uint64 // counts snapshots: whatever was copied since the last one may be edited
	owned struct{ all, classes, traits, aggregates uint64 }
}

// NewIndex returns an index without providers.
func NewIndex() *Index {
	x := &Index{epoch: 1}
	x.world = World{
		lineage: &lineage{maphash.MakeSeed()}, ids: ids{buckets: 1},
		all: roaring.New(), roots: roaring.New(), nested: roaring.New(),
		classes: map[ledger.ClassID]*posting{}, traits: map[string]*posting{}, aggregates: map[ledger.UUID]*posting{},
	}
	x.owned.all, x.owned.classes, x.owned.traits, x.owned.aggregates = 1, 1, 1, 1
	return x
}

// NewWorld indexes providers.
func NewWorld(providers []*ledger.Provider) *World {
	x := NewIndex()
	x.Add(providers)
	return x.Snapshot()
}

// Snapshot returns the present World.
func (x *Index) Snapshot() *World {
	world := x.world
	x.epoch++
	return &world
}

// Add indexes new providers, in the order of their creation.
func (x *Index) Add(providers []*ledger.Provider) {
	x.number(providers)
	for _, p := range providers {
		x.set(p)
	}
}

// number gives new providers their numbers. A provider can be filed only when it
// and its root have numbers.
func (x *Index) number(providers []*ledger.Provider) {
	providers = slices.Clone(providers)
	slices.SortFunc(providers, func(a, b *ledger.Provider) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), a.UUID.Compare(b.UUID))
	})
	x.own()
	for _, p := range providers {
		x.world.entries.set(x.next, entry{p: p, root: unfiled}, x.epoch)
		x.chain(x.next)
		x.world.all.Add(x.next)
		x.next++
		x.grow()
	}
}

// Apply indexes what a commit did to providers. It first removes deleted
// providers, then numbers new ones, and only then files each provider in its
// place, because a new provider may be the root.
func (x *Index) Apply(changes []ledger.ProviderChange) {
	latest := make(map[ledger.UUID]*ledger.Provider, len(changes))
	for _, c := range changes {
		if c.After != nil {
			latest[c.After.UUID] = c.After
			continue
		}
		// A provider that is made again is a new one.
		x.remove(c.Before.UUID)
		delete(latest, c.Before.UUID)
	}
	var fresh []*ledger.Provider
	for id, p := range latest {
		if _, known := x.world.number(id); !known {
			fresh = append(fresh, p)
		}
	}
	if fresh != nil {
		x.number(fresh)
	}
	for _, p := range latest {
		x.set(p)
	}
}

// own copies the parts that are copied as a whole, unless they are the index's
// own already.
func (x *Index) own() {
	if x.owned.all == x.epoch {
		return
	}
	x.owned.all = x.epoch
	x.world.all, x.world.roots, x.world.nested = x.world.all.Clone(), x.world.roots.Clone(), x.world.nested.Clone()
}

// set moves a numbered provider to its new version. The fields that allocations
// change are in the provider itself, so allocations cost one page.
func (x *Index) set(p *ledger.Provider) {
	number, _ := x.world.number(p.UUID)
	root := number
	if p.Root != p.UUID {
		root, _ = x.world.number(p.Root)
	}
	was := x.world.entries.get(number)
	before := was.p
	if was.root == unfiled {
		before = &ledger.Provider{}
	}
	if was.root == unfiled || before.Root != p.Root || before.Parent.IsNil() != p.Parent.IsNil() {
		x.place(number, was, entry{p: p, root: root, beside: was.beside})
	} else {
		was.p = p
		x.world.entries.set(number, was, x.epoch)
	}
	if !ledger.SameList(before.Traits, p.Traits) {
		repost(&x.world.traits, &x.owned.traits, before.Traits, p.Traits, number, x.epoch)
	}
	if !ledger.SameList(before.Aggregates, p.Aggregates) {
		repost(&x.world.aggregates, &x.owned.aggregates, before.Aggregates, p.Aggregates, number, x.epoch)
	}
	if !sameClasses(before, p) {
		repost(&x.world.classes, &x.owned.classes, classesOf(before), classesOf(p), number, x.epoch)
	}
}

// place moves a provider from its old tree to its new one.
func (x *Index) place(number uint32, was, is entry) {
	x.own()
	if was.root != unfiled {
		x.link(was.root, number, was.next)
	}
	x.world.roots.Remove(number)
	x.world.nested.Remove(number)
	if is.p != nil {
		is.next = x.link(is.root, number, number+1)
	}
	is.first = x.world.entries.get(number).first
	x.world.entries.set(number, is, x.epoch)
	switch {
	case is.p == nil:
	case is.p.Parent.IsNil():
		x.world.roots.Add(number)
	default:
		x.world.nested.Add(number)
	}
}

// link sets the link behind the members of a tree that are smaller than a number, and returns
// what it was.
func (x *Index) link(root, number, to uint32) (was uint32) {
	e := x.world.entries.get(root)
	if e.first == 0 || e.first > number {
		was, e.first = e.first, to
		x.world.entries.set(root, e, x.epoch)
		return was
	}
	at := e.first - 1
	for e = x.world.entries.get(at); e.next != 0 && e.next <= number; {
		at, e = e.next-1, x.world.entries.get(e.next-1)
	}
	was, e.next = e.next, to
	x.world.entries.set(at, e, x.epoch)
	return was
}

func (x *Index) remove(id ledger.UUID) {
	number, known := x.world.number(id)
	if !known {
		return // created and deleted in one commit
	}
	empty := *x.world.entries.get(number).p
	empty.Traits, empty.Aggregates, empty.Inventories = nil, nil, nil
	x.set(&empty)
	x.unchain(number)
	x.place(number, x.world.entries.get(number), entry{})
	x.world.all.Remove(number)
}

// Len returns the number of providers.
func (w *World) Len() int { return int(w.all.GetCardinality()) }

// Nested reports whether any provider has a parent.
func (w *World) Nested() bool { return !w.nested.IsEmpty() }

// Provider finds a provider by its uuid.
func (w *World) Provider(id ledger.UUID) (*ledger.Provider, bool) {
	number, ok := w.number(id)
	if !ok {
		return nil, false
	}
	return w.entries.get(number).p, true
}

// Each calls yield for each provider, in the order of their creation, as long as
// it returns true.
func (w *World) Each(yield func(*ledger.Provider) bool) {
	for numbers := w.all.Iterator(); numbers.HasNext(); {
		if !yield(w.entries.get(numbers.Next()).p) {
			return
		}
	}
}

// Tree calls yield for each provider of the tree with this root.
func (w *World) Tree(root ledger.UUID, yield func(*ledger.Provider)) {
	number, ok := w.number(root)
	if !ok {
		return
	}
	for _, member := range w.inTree(number) {
		yield(member)
	}
}

// TraitInUse reports whether any provider has the trait.
func (w *World) TraitInUse(name string) bool { return !bitsOf(w.traits, name).IsEmpty() }

var none = roaring.New()

func bitsOf[K comparable](table map[K]*posting, key K) *roaring.Bitmap {
	if p := table[key]; p != nil {
		return p.bits
	}
	return none
}

// repost puts a provider into the sets of a table of what it has now, and takes it out of those of
// what it had before. The table is copied first, unless that was done since some epoch.
func repost[K comparable](table *map[K]*posting, since *uint64, before, after []K, number uint32, epoch uint64) {
	if *since != epoch {
		*table, *since = maps.Clone(*table), epoch
	}
	for _, key := range before {
		if !slices.Contains(after, key) {
			setPosting(*table, key, number, false, epoch)
		}
	}
	for _, key := range after {
		if !slices.Contains(before, key) {
			setPosting(*table, key, number, true, epoch)
		}
	}
}

func setPosting[K comparable](table map[K]*posting, key K, number uint32, has bool, epoch uint64) {
	p := table[key]
	switch {
	case p == nil:
		p = &posting{bits: roaring.New(), epoch: epoch}
		table[key] = p
	case p.epoch != epoch:
		p = &posting{bits: p.bits.Clone(), epoch: epoch}
		table[key] = p
	}
	if has {
		p.bits.Add(number)
		return
	}
	p.bits.Remove(number)
	if p.bits.IsEmpty() {
		delete(table, key)
	}
}

func sameClasses(a, b *ledger.Provider) bool {
	return slices.EqualFunc(a.Inventories, b.Inventories, func(x, y ledger.Inventory) bool { return x.Class == y.Class })
}

func classesOf(p *ledger.Provider) []ledger.ClassID {
	list := make([]ledger.ClassID, len(p.Inventories))
	for i := range p.Inventories {
		list[i] = p.Inventories[i].Class
	}
	return list
}

// pages is a long list whose copies share the pages that have not changed.
type pages[T any] struct {
	folders []*folder[T]
	epoch   uint64 // the snapshot since which the list of folders is the index's own
}

// A commit copies each page in which it changes something, and the folder that it is in: few
// bytes, however long the list.
const pageSize, folderSize = 64, 128

type folder[T any] struct {
	pages [folderSize]*page[T]
	epoch uint64
}

type page[T any] struct {
	items [pageSize]T
	epoch uint64
}

// folder is a folder, or an empty one if there is none.
func (p *pages[T]) folder(i int) *folder[T] {
	if i < len(p.folders) {
		return p.folders[i]
	}
	return new(folder[T])
}

func (p *pages[T]) get(n uint32) (item T) {
	if i := int(n / (pageSize * folderSize)); i < len(p.folders) {
		if page := p.folders[i].pages[n/pageSize%folderSize]; page != nil {
			return page.items[n%pageSize]
		}
	}
	return item
}

func (p *pages[T]) set(n uint32, item T, epoch uint64) {
	if p.epoch != epoch {
		p.folders, p.epoch = slices.Clone(p.folders), epoch
	}
	i := int(n / (pageSize * folderSize))
	for len(p.folders) <= i {
		p.folders = append(p.folders, &folder[T]{epoch: epoch})
	}
	if p.folders[i].epoch != epoch {
		fresh := *p.folders[i]
		fresh.epoch = epoch
		p.folders[i] = &fresh
	}
	at := &p.folders[i].pages[n/pageSize%folderSize]
	switch {
	case *at == nil:
		*at = &page[T]{epoch: epoch}
	case (*at).epoch != epoch:
		fresh := **at
		fresh.epoch = epoch
		*at = &fresh
	}
	(*at).items[n%pageSize] = item
}

// inTree yields the members of the tree of a root, ascending.
func (w *World) inTree(root uint32) iter.Seq2[uint32, *ledger.Provider] {
	return func(yield func(uint32, *ledger.Provider) bool) {
		for link := w.entries.get(root).first; link != 0; {
			e := w.entries.get(link - 1)
			if !yield(link-1, e.p) {
				return
			}
			link = e.next
		}
	}
}

// treeNumbers returns the members of the tree of a root, behind what is in a list.
func (w *World) treeNumbers(list []uint32, root uint32) []uint32 {
	for number := range w.inTree(root) {
		list = append(list, number)
	}
	return list
}

// treeMembers is treeNumbers, of providers.
func (w *World) treeMembers(list []*ledger.Provider, root uint32) []*ledger.Provider {
	for _, p := range w.inTree(root) {
		list = append(list, p)
	}
	return list
}

// alone reports whether a root is the only member of its tree.
func (w *World) alone(root uint32) bool {
	e := w.entries.get(root)
	return e.first == root+1 && e.next == 0
}

// ids finds the numbers of providers by their uuids: each bucket is a list of numbers. It holds no
// pointers but those to pages. As providers come, one bucket after the other is divided, so that
// no commit takes longer than others.
type ids struct {
	buckets uint32
	first   pages[uint32] // per bucket: a number and 1 more; 0: there is none
}

// bucket is where an id belongs.
func (w *World) bucket(id ledger.UUID) uint32 {
	hash := uint32(maphash.Bytes(w.lineage.seed, id[:]))
	mask := uint32(1)<<bits.Len32(w.ids.buckets-1) - 1
	if hash&mask < w.ids.buckets {
		return hash & mask
	}
	return hash & (mask >> 1)
}

func (w *World) number(id ledger.UUID) (uint32, bool) {
	for link := w.ids.first.get(w.bucket(id)); link != 0; {
		e := w.entries.get(link - 1)
		if e.p.UUID == id {
			return link - 1, true
		}
		link = e.beside
	}
	return 0, false
}

// chain puts a provider, which has an entry, in front of its bucket.
func (x *Index) chain(number uint32) {
	e := x.world.entries.get(number)
	bucket := x.world.bucket(e.p.UUID)
	e.beside = x.world.ids.first.get(bucket)
	x.world.entries.set(number, e, x.epoch)
	x.world.ids.first.set(bucket, number+1, x.epoch)
}

// grow makes one more bucket, if there are as many providers, of what belongs there.
func (x *Index) grow() {
	if x.world.ids.buckets > x.next {
		return
	}
	last := x.world.ids.buckets
	divided := last &^ (1 << (bits.Len32(last) - 1))
	link := x.world.ids.first.get(divided)
	x.world.ids.buckets++
	x.world.ids.first.set(divided, 0, x.epoch)
	for link != 0 {
		number := link - 1
		link = x.world.entries.get(number).beside
		x.chain(number)
	}
}

func (x *Index) unchain(number uint32) {
	e := x.world.entries.get(number)
	bucket := x.world.bucket(e.p.UUID)
	link := x.world.ids.first.get(bucket)
	if link == number+1 {
		x.world.ids.first.set(bucket, e.beside, x.epoch)
		return
	}
	for link != number+1 {
		before := x.world.entries.get(link - 1)
		if before.beside == number+1 {
			before.beside = e.beside
			x.world.entries.set(link-1, before, x.epoch)
			return
		}
		link = before.beside
	}
}
