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

// filterOf returns the chunks of a filter of some entities.
func filterOf(hashes []uint64) (chunks [][]byte, err error) {
	filters := make([]*bloom.BloomFilter, len(hashes)/chunkEntities+1)
	for i := range filters {
		filters[i] = bloom.NewWithEstimates(chunkEntities, chunkFalse)
	}
	for _, h := range hashes {
		filters[h%uint64(len(filters))].Add(binary.BigEndian.AppendUint64(nil, h))
	}
	for _, f := range filters {
		chunk, err := f.MarshalBinary()
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
