package candidates

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// TestOrderKeepsItsBounds: whatever is filed and taken out, the places of an order are sorted, and each
// block's end and the most that its trees have free are those of its places: a search passes blocks
// over by these.
func TestOrderKeepsItsBounds(t *testing.T) {
	const roots, scores, changes = 1000, 7, 20_000 // some scores are those of several blocks
	random := rand.New(rand.NewPCG(1, 2))
	o := &order{classes: []ledger.ClassID{1, 2}}
	o.fill(nil, func(int) {})
	filed := make(map[uint32]place)
	check := func() {
		t.Helper()
		var last *place
		found := 0
		for i, b := range o.blocks {
			most := make([]about, len(o.classes))
			for j := range b.places {
				p := &b.places[j]
				if last != nil && comparePlaces(last, p) >= 0 || filed[p.number] != *p {
					t.Fatalf("place %d of block %d is wrong", j, i)
				}
				for c := range most {
					most[c] = max(most[c], p.free[c])
				}
				last = p
				found++
			}
			if has := o.most[i*len(o.classes) : (i+1)*len(o.classes)]; !slices.Equal(has, most) || o.ends[i] != last.sortKey() {
				t.Fatalf("block %d of %d: at most %v and not %v, or another end", i, len(o.blocks), has, most)
			}
		}
		if found != len(filed) || len(o.ends) != len(o.blocks) || len(o.most) != len(o.blocks)*len(o.classes) {
			t.Fatalf("%d places of %d, %d ends and %d bounds of %d blocks", found, len(filed), len(o.ends), len(o.most), len(o.blocks))
		}
	}
	for i := range changes {
		p := place{number: uint32(random.IntN(roots)), score: float64(random.IntN(scores))}
		binary.BigEndian.PutUint64(p.id[4:], uint64(p.number)<<28) // the first half is that of 16
		p.free = [maxTracked]about{about(random.IntN(20)), about(random.IntN(20))}
		if random.IntN(changes) > i/2 {
			o.file(p)
			filed[p.number] = p
		} else if _, there := filed[p.number]; o.take(p.number, p.id) != there {
			t.Fatalf("root %d was there: %v", p.number, there)
		} else {
			delete(filed, p.number)
		}
		if i%50 == 0 {
			check()
		}
	}
	for number, p := range filed {
		if delete(filed, number); !o.take(number, p.id) {
			t.Fatalf("root %d is not there", number)
		}
		check()
	}
}
