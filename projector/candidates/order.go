package candidates

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/allot-project/allot/ledger"
)

// order is the roots of all trees, sorted by the score that weights give them,
// in blocks. Each block knows how much of the tracked classes is free in one of
// its trees at most, so that those where nothing fits are passed over.
type order struct {
	key     string
	weights []ClassWeight
	// demanded is what requests ask of the classes of the weights.
	demanded []demanded
	named    *named           // whose roots these are; nil: all
	classes  []ledger.ClassID // tracked; at most maxTracked
	blocks   []*block
	ends     []sortKey // of the last place of each block
	most     []about   // per block and tracked class: the most that one tree has free
	used     uint64    // when it was used last, for those that must make room

	// scores are those of the roots that are here, by number: in a list if all are, which
	// is faster, and NaN is none; and in a map if they are few.
	scores []float64
	few    map[uint32]float64
}

const (
	maxTracked = 6
	blockMax   = 256
	blockFill  = 192 // of a new block, so that some may come
)

// place is a root in an order.
type place struct {
	score  float64
	id     ledger.UUID
	number uint32
	free   [maxTracked]about // rounded up
}

// about is an amount to two digits and a half, in the order of amounts: the upper half of a float32.
type about uint16

// roundDown and roundUp are of what is not below 0.
func roundDown(amount float64) about {
	return about(math.Float32bits(float32(amount-amount*1e-7)) >> 16)
}
func roundUp(amount float64) about {
	return about(math.Float32bits(float32(amount+amount*1e-7))>>16) + 1
}

type block struct{ places []place }

// comparePlaces puts the higher score first.
func comparePlaces(a, b *place) int {
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return a.id.Compare(b.id)
}

// sortKey is what mostly tells places apart, and takes less to move, or to keep together.
type sortKey struct {
	score float64
	high  uint64 // of the uuid
}

func (p *place) sortKey() sortKey { return sortKey{p.score, binary.BigEndian.Uint64(p.id[:8])} }

func (k sortKey) compare(other sortKey) int {
	if k.score != other.score {
		return cmp.Compare(other.score, k.score)
	}
	return cmp.Compare(k.high, other.high)
}

// position is a place in an order's blocks.
type position struct{ block, index int }

// fill makes the blocks anew, and tells paced how far it has come.
func (o *order) fill(places []place, paced func(steps int)) {
	type keyed struct {
		sortKey
		at uint32
	}
	keys, numbers := make([]keyed, len(places)), uint32(0)
	for i := range places {
		keys[i] = keyed{places[i].sortKey(), uint32(i)}
		numbers = max(numbers, places[i].number+1)
	}
	slices.SortFunc(keys, func(a, b keyed) int {
		paced(1)
		if way := a.compare(b.sortKey); way != 0 {
			return way
		}
		return places[a.at].id.Compare(places[b.at].id)
	})
	o.blocks, o.ends, o.most, o.scores, o.few = nil, nil, nil, nil, make(map[uint32]float64)
	if o.named == nil {
		o.scores = slices.Repeat([]float64{math.NaN()}, int(numbers))
	}
	for len(keys) > 0 {
		n := min(blockFill, len(keys))
		b := &block{places: make([]place, n, blockMax)}
		for i, key := range keys[:n] {
			b.places[i] = places[key.at]
			o.note(b.places[i].number, b.places[i].score)
		}
		paced(n)
		o.insert(len(o.blocks), b)
		keys = keys[n:]
	}
}

// note keeps where a root is.
func (o *order) note(number uint32, score float64) {
	if o.named != nil {
		o.few[number] = score
		return
	}
	for int(number) >= len(o.scores) {
		o.scores = append(o.scores, math.NaN())
	}
	o.scores[number] = score
}

func (o *order) forget(number uint32) {
	if o.named != nil {
		delete(o.few, number)
		return
	}
	o.scores[number] = math.NaN()
}

// score is that under which a root is filed; false: it is not here.
func (o *order) score(number uint32) (float64, bool) {
	if o.named != nil {
		score, there := o.few[number]
		return score, there
	}
	if int(number) >= len(o.scores) {
		return 0, false
	}
	return o.scores[number], !math.IsNaN(o.scores[number])
}

// insert makes a block with places the one with a number.
func (o *order) insert(i int, b *block) {
	o.blocks, o.ends = slices.Insert(o.blocks, i, b), slices.Insert(o.ends, i, sortKey{})
	o.most = slices.Insert(o.most, i*len(o.classes), make([]about, len(o.classes))...)
	o.sum(i)
}

// sum finds anew where a block ends, and what it has free at most.
func (o *order) sum(i int) {
	o.bound(i)
	for c := range o.classes {
		o.most[i*len(o.classes)+c] = o.blocks[i].most(c, math.MaxUint16)
	}
}

func (o *order) bound(i int) {
	last := &o.blocks[i].places[len(o.blocks[i].places)-1]
	o.ends[i] = last.sortKey()
}

// most is how much one of the places has free of a class. None has more than atMost.
func (b *block) most(c int, atMost about) (most about) {
	for i := 0; i < len(b.places) && most < atMost; i++ {
		most = max(most, b.places[i].free[c])
	}
	return most
}

// seek finds the first place that is not before a score and an id.
func (o *order) seek(score float64, id ledger.UUID) position {
	want := place{score: score, id: id}
	key := want.sortKey()
	i := sort.Search(len(o.ends), func(i int) bool {
		if way := o.ends[i].compare(key); way != 0 {
			return way > 0
		}
		places := o.blocks[i].places
		return comparePlaces(&places[len(places)-1], &want) >= 0
	})
	if i == len(o.blocks) {
		return position{i, 0}
	}
	places := o.blocks[i].places
	j := sort.Search(len(places), func(j int) bool { return comparePlaces(&places[j], &want) >= 0 })
	return position{i, j}
}

// put files a root where it belongs now.
func (o *order) put(p place) {
	at := o.seek(p.score, p.id)
	o.note(p.number, p.score)
	if len(o.blocks) == 0 {
		o.insert(0, &block{places: append(make([]place, 0, blockMax), p)})
		return
	}
	if at.block == len(o.blocks) {
		at = position{at.block - 1, len(o.blocks[at.block-1].places)}
	}
	b := o.blocks[at.block]
	if len(b.places) == blockMax {
		o.split(at.block)
		if at.index > blockMax/2 {
			at = position{at.block + 1, at.index - blockMax/2}
		}
		b = o.blocks[at.block]
	}
	b.places = slices.Insert(b.places, at.index, p)
	o.bound(at.block)
	most := o.most[at.block*len(o.classes):]
	for c := range o.classes {
		most[c] = max(most[c], p.free[c])
	}
}

func (o *order) split(i int) {
	b := o.blocks[i]
	second := &block{places: make([]place, len(b.places)-blockMax/2, blockMax)}
	copy(second.places, b.places[blockMax/2:])
	b.places = b.places[:blockMax/2]
	o.sum(i)
	o.insert(i+1, second)
}

// take takes a root out, and returns its place; false: it is not there.
func (o *order) take(number uint32, id ledger.UUID) bool {
	score, there := o.score(number)
	if !there {
		return false
	}
	at := o.seek(score, id)
	o.forget(number)
	b := o.blocks[at.block]
	gone := b.places[at.index]
	b.places = slices.Delete(b.places, at.index, at.index+1)
	if len(b.places) == 0 {
		o.blocks = slices.Delete(o.blocks, at.block, at.block+1)
		o.ends = slices.Delete(o.ends, at.block, at.block+1)
		o.most = slices.Delete(o.most, at.block*len(o.classes), (at.block+1)*len(o.classes))
		return true
	}
	o.bound(at.block)
	o.lower(at.block, &gone)
	return true
}

// lower finds anew what a block has free if one that had the most is gone.
func (o *order) lower(i int, gone *place) {
	most := o.most[i*len(o.classes) : (i+1)*len(o.classes)]
	for c := range most {
		if gone.free[c] >= most[c] {
			most[c] = o.blocks[i].most(c, most[c])
		}
	}
}

// file moves a root to where it belongs now. One whose score did not change
// stays where it is.
func (o *order) file(p place) {
	if score, there := o.score(p.number); there && score == p.score {
		at := o.seek(p.score, p.id)
		was := &o.blocks[at.block].places[at.index]
		if was.free != p.free {
			before := *was
			*was = p
			most := o.most[at.block*len(o.classes):]
			for c := range o.classes {
				most[c] = max(most[c], p.free[c])
			}
			o.lower(at.block, &before)
		}
		return
	}
	o.take(p.number, p.id)
	o.put(p)
}

// next finds the first place from a position on where so much is free; within
// the group of one score, if that is given.
func (o *order) next(at position, asked []about, group *float64) (*place, position, bool) {
	n := len(o.classes)
	for ; at.block < len(o.blocks); at = (position{at.block + 1, 0}) {
		b := o.blocks[at.block]
		if group != nil && at.index < len(b.places) && b.places[at.index].score != *group {
			return nil, at, false
		}
		if !enough(o.most[at.block*n:(at.block+1)*n], asked) {
			continue
		}
		for ; at.index < len(b.places); at.index++ {
			p := &b.places[at.index]
			if group != nil && p.score != *group {
				return nil, at, false
			}
			if enough(p.free[:n], asked) {
				return p, at, true
			}
		}
	}
	return nil, at, false
}

func enough(free, asked []about) bool {
	for c := range asked {
		if free[c] < asked[c] {
			return false
		}
	}
	return true
}

// endsGroup reports whether no place of the same score comes after one.
func (o *order) endsGroup(at position) bool {
	places := o.blocks[at.block].places
	score := places[at.index].score
	switch {
	case at.index+1 < len(places):
		return places[at.index+1].score != score
	case at.block+1 < len(o.blocks):
		return o.blocks[at.block+1].places[0].score != score
	}
	return true
}

// walk goes over the places where so much is free: those with the highest
// score first, and those of one score from a point on around the circle of uuids.
type walk struct {
	order *order
	asked []about
	point ledger.UUID

	at    position
	group float64
	phase walkPhase
}

type walkPhase byte

const (
	betweenGroups walkPhase = iota
	afterPoint              // of the group
	beforePoint             // of the group
)

var lastUUID = ledger.UUID{
	255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
}

// next returns nil at the end. What it returns is good until the order changes.
func (w *walk) next() *place {
	for {
		switch w.phase {
		case betweenGroups:
			p, at, found := w.order.next(w.at, w.asked, nil)
			if !found {
				return nil
			}
			if w.order.endsGroup(at) {
				w.at = position{at.block, at.index + 1}
				return p // the only one of its score that fits
			}
			w.group, w.phase = p.score, afterPoint
			w.at = w.order.seek(p.score, w.point)
		case afterPoint:
			p, at, found := w.order.next(w.at, w.asked, &w.group)
			if found {
				w.at = position{at.block, at.index + 1}
				return p
			}
			w.phase, w.at = beforePoint, w.order.seek(w.group, ledger.NilUUID)
		case beforePoint:
			p, at, found := w.order.next(w.at, w.asked, &w.group)
			if found && p.id.Before(w.point) {
				w.at = position{at.block, at.index + 1}
				return p
			}
			w.phase, w.at = betweenGroups, w.order.seek(w.group, lastUUID)
			if w.isLast() {
				w.at.index++
			}
		}
	}
}

// isLast: the very last uuid is a place's, which the group ends with.
func (w *walk) isLast() bool {
	if w.at.block == len(w.order.blocks) {
		return false
	}
	places := w.order.blocks[w.at.block].places
	return w.at.index < len(places) && places[w.at.index].score == w.group
}
