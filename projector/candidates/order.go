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
	most     []about // per block and tracked class: the most that one tree has free
	used     uint64  // when it was used last, for those that must make room

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

// position is a place in an order's blocks.
type position struct{ block, index int }

// keyed is what tells places apart that are to be sorted: it takes less to move than a place.
type keyed struct {
	score float64
	high  uint64 // of the uuid
	at    uint32
}

// fill makes the blocks anew, and tells paced how far it has come.
func (o *order) fill(places []place, paced func(steps int)) {
	keys, numbers := make([]keyed, len(places)), uint32(0)
	for i := range places {
		keys[i] = keyed{places[i].score, binary.BigEndian.Uint64(places[i].id[:8]), uint32(i)}
		numbers = max(numbers, places[i].number+1)
	}
	slices.SortFunc(keys, func(a, b keyed) int {
		paced(1)
		switch {
		case a.score != b.score:
			return cmp.Compare(b.score, a.score)
		case a.high != b.high:
			return cmp.Compare(a.high, b.high)
		}
		return places[a.at].id.Compare(places[b.at].id)
	})
	o.blocks, o.most, o.scores, o.few = nil, nil, nil, make(map[uint32]float64)
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
		o.blocks = append(o.blocks, b)
		o.most = append(o.most, make([]about, len(o.classes))...)
		o.sum(len(o.blocks) - 1)
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

// sum finds anew what a block has free at most.
func (o *order) sum(i int) {
	most := o.most[i*len(o.classes) : (i+1)*len(o.classes)]
	for c := range most {
		most[c] = 0
	}
	places := o.blocks[i].places
	for j := range places {
		for c := range most {
			most[c] = max(most[c], places[j].free[c])
		}
	}
}

// seek finds the first place that is not before a score and an id.
func (o *order) seek(score float64, id ledger.UUID) position {
	want := place{score: score, id: id}
	i := sort.Search(len(o.blocks), func(i int) bool {
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
	if at.block == len(o.blocks) {
		if at.block == 0 {
			o.blocks = append(o.blocks, &block{places: make([]place, 0, blockMax)})
			o.most = append(o.most, make([]about, len(o.classes))...)
			o.sum(0)
		} else {
			at = position{at.block - 1, len(o.blocks[at.block-1].places)}
		}
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
	o.blocks = slices.Insert(o.blocks, i+1, second)
	o.most = slices.Insert(o.most, (i+1)*len(o.classes), make([]about, len(o.classes))...)
	o.sum(i)
	o.sum(i + 1)
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
		o.most = slices.Delete(o.most, at.block*len(o.classes), (at.block+1)*len(o.classes))
		return true
	}
	o.lower(at.block, &gone)
	return true
}

// lower finds anew what a block has free if one that had the most is gone.
func (o *order) lower(i int, gone *place) {
	most := o.most[i*len(o.classes) : (i+1)*len(o.classes)]
	for c := range most {
		if gone.free[c] >= most[c] {
			o.sum(i)
			return
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
