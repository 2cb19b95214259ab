package candidates

import (
	"hash/maphash"
	"math/bits"

	"github.com/allot-project/allot/ledger"
)

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

// unchain takes a provider out of its bucket.
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
