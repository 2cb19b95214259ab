package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// tree writes those hashes of the Merkle tree that the commit's records complete
// and that are kept, all of a level under the number of the first.
func (w *writer) tree() {
	if len(w.commit.Leaves) != len(w.commit.Records) {
		w.err = fmt.Errorf("%w: %d leaves of %d records", ledger.ErrInvariant, len(w.commit.Leaves), len(w.commit.Records))
		return
	}
	before := w.grown.Size()
	for _, kept := range proof.Sparse(before, w.grown.Add(w.commit.Leaves)) {
		value := w.scratch()
		for _, hash := range kept.Hashes {
			value = append(value, hash[:]...)
		}
		w.p.key = appendHashKey(w.p.key[:0], kept.Level, kept.First)
		w.set(w.p.key, w.keep(value))
	}
}

func appendHashKey(key []byte, level int, number int64) []byte {
	return binary.BigEndian.AppendUint64(append(key, tableTree, byte(level)), uint64(number))
}

// hashes finds hashes of the Merkle tree by their numbers.
func (m *models) hashes(numbers []int64) ([]ledger.Digest, error) {
	it, err := m.cursor([]byte{tableTree}, []byte{tableTree + 1})
	if err != nil {
		return nil, err
	}
	found, err := proof.FromSparse(func(level int, first, count int64) ([]ledger.Digest, error) {
		return keptHashes(it, level, first, count)
	})(numbers)
	return found, finish(it, err)
}

// keptHashes reads hashes of a level, from one of them on. A key of the table has
// the number of the first hash in its value.
func keptHashes(it *cursor, level int, first, count int64) ([]ledger.Digest, error) {
	found := make([]ledger.Digest, 0, count)
	missing := func() ([]ledger.Digest, error) {
		return nil, fmt.Errorf("%w: no hash %d of level %d of the tree", ErrDamaged, first+int64(len(found)), level)
	}
	if first < 0 {
		return missing()
	}
	for ok := it.SeekLT(appendHashKey(nil, level, first+1)); int64(len(found)) < count; ok = it.Next() {
		if !ok || it.Key()[1] != byte(level) {
			return missing()
		}
		wanted := first + int64(len(found))
		value, offset := it.Value(), wanted-int64(binary.BigEndian.Uint64(it.Key()[2:]))
		if offset < 0 || (offset+1)*int64(len(ledger.Digest{})) > int64(len(value)) {
			return missing()
		}
		for value = value[offset*int64(len(ledger.Digest{})):]; len(value) > 0 && int64(len(found)) < count; {
			var hash ledger.Digest
			value = value[copy(hash[:], value):]
			found = append(found, hash)
		}
	}
	return found, nil
}

// Records returns how many records the log had at the view's moment.
func (v View) Records() (int64, error) {
	if v.sequence == 0 {
		return 0, nil
	}
	_, size, err := v.position()
	return size, err
}

// position returns the head of the log at the view's moment, and the number of
// its records.
func (v View) position() (head ledger.Head, size int64, err error) {
	last, err := v.p.lastCommit(v.sequence)
	if err != nil || last == 0 {
		return head, 0, err
	}
	_, err = v.commit(last, func(f *fields) { head, _, size = f.commitPoint(last) })
	return head, size, err
}

// Tree returns the Merkle tree of all records at the view's moment.
func (v View) Tree() (*proof.Tree, error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.LoadTree(size, v.p.hashes)
}

// Checkpoint returns the checkpoint to sign for the view's moment, without the
// ledger's id.
func (v View) Checkpoint() (*proof.Checkpoint, error) {
	head, size, err := v.position()
	if err != nil {
		return nil, err
	}
	tree, err := proof.LoadTree(size, v.p.hashes)
	if err != nil {
		return nil, err
	}
	return &proof.Checkpoint{Size: size, Root: tree.Root(), Head: head}, nil
}

// Leaf returns the number of a record in the Merkle tree, from 0.
func (v View) Leaf(at ledger.Address) (number int64, found bool, err error) {
	if at.Sequence == 0 || at.Sequence > v.sequence {
		return 0, false, nil
	}
	before, err := (View{v.p, at.Sequence - 1}).Records()
	if err != nil {
		return 0, false, err
	}
	upTo, err := (View{v.p, at.Sequence}).Records()
	number = before + int64(at.Index)
	return number, err == nil && number < upTo, err
}

// ProveInclusion proves that a leaf is in the Merkle tree of the view's moment.
func (v View) ProveInclusion(leaf int64) ([]ledger.Digest, error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.Inclusion(leaf, size, v.p.hashes)
}

// ProveGrowth proves that the log of the view's moment holds everything that it
// held when it had a number of records.
func (v View) ProveGrowth(earlier int64) ([]ledger.Digest, error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.Growth(earlier, size, v.p.hashes)
}
