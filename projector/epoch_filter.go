package projector

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/bits-and-blooms/bloom/v3"
)

// A filter says of an entity that nothing of its history came in an epoch. It is in
// chunks, of which one has all that it knows of an entity.

const (
	chunkEntities = 2048 // on average
	chunkFalse    = 0.01 // of the questions whose right answer is no
)

func filterKey(last uint64, chunk int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64([]byte{tableEpochFilter}, last), uint32(chunk))
}

// entityHash is what filters know of an entity with a history: the hash of its keys
// without their versions.
func entityHash(base []byte) uint64 {
	h := fnv.New64a()
	h.Write(base)
	return h.Sum64()
}

// epochFilter is a filter that is being made.
type epochFilter []*bloom.BloomFilter

// newEpochFilter returns a filter for so many entities, or about so.
func newEpochFilter(entities int64) epochFilter {
	f := make(epochFilter, entities/chunkEntities+1)
	for i := range f {
		f[i] = bloom.NewWithEstimates(chunkEntities, chunkFalse)
	}
	return f
}

// add adds an entity, by its hash.
func (f epochFilter) add(hash uint64) {
	f[hash%uint64(len(f))].Add(binary.BigEndian.AppendUint64(nil, hash))
}

// chunks returns what is stored of it.
func (f epochFilter) chunks() (chunks [][]byte, err error) {
	for _, one := range f {
		chunk, err := one.MarshalBinary()
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, chunk)
	}
	return chunks, nil
}

// mayTouch reports whether versions of an entity may have come in an epoch. False is
// certain.
func (m *models) mayTouch(e *epoch, base []byte) (may bool, err error) {
	h := entityHash(base)
	found, err := m.get(filterKey(e.last, int(h%uint64(e.chunks))), func(value []byte) error {
		var f bloom.BloomFilter
		if err := f.UnmarshalBinary(value); err != nil {
			return fmt.Errorf("%w: filter of the epoch up to %d: %w", ErrDamaged, e.last, err)
		}
		may = f.Test(binary.BigEndian.AppendUint64(nil, h))
		return nil
	})
	if err == nil && !found {
		err = m.judged(fmt.Errorf("%w: filter of the epoch up to %d", ErrDamaged, e.last))
	}
	return may, err
}
