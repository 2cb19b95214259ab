package projector

import (
	"encoding/binary"
	"testing"

	"github.com/bits-and-blooms/bloom/v3"
)

// TestEpochFilter: a filter knows each of its entities, also as it is stored, and takes few
// others for them.
func TestEpochFilter(t *testing.T) {
	const entities, others = 20 * chunkEntities, 400_000
	hash := func(n int) uint64 { return entityHash(binary.BigEndian.AppendUint64([]byte{tableConsumer}, uint64(n))) }
	made := newEpochFilter(entities)
	for n := range entities {
		made.add(hash(n))
	}
	chunks, err := made.chunks()
	if err != nil {
		t.Fatal(err)
	}
	filters := make([]bloom.BloomFilter, len(chunks))
	for i, chunk := range chunks {
		if err := filters[i].UnmarshalBinary(chunk); err != nil {
			t.Fatal(err)
		}
	}
	knows := func(n int) bool {
		h := hash(n)
		return filters[h%uint64(len(filters))].Test(binary.BigEndian.AppendUint64(nil, h))
	}
	for n := range entities {
		if !knows(n) {
			t.Fatalf("entity %d is not known", n)
		}
	}
	wrong := 0
	for n := range others {
		if knows(entities + n) {
			wrong++
		}
	}
	if most := 2 * chunkFalse * others; wrong == 0 || float64(wrong) > most {
		t.Errorf("%d of %d others are taken for entities, and %.0f are expected", wrong, others, most/2)
	}
}
