package projector

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/store"
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
		w.p.key = appendHashKey(w.p.key[:0], kept.Level, kept.First)
		w.set(w.p.key, w.keep(appendHashes(w.scratch(), kept.Hashes)))
	}
}

func appendHashKey(key []byte, level int, number int64) []byte {
	return binary.BigEndian.AppendUint64(append(key, tableTree, byte(level)), uint64(number))
}

func appendHashes(value []byte, hashes []ledger.Digest) []byte {
	for _, hash := range hashes {
		value = append(value, hash[:]...)
	}
	return value
}

// loadTree reads the tree of the newest commit, whose right edge is known.
func (m *models) loadTree(edge []ledger.Digest) (*proof.Tree, error) {
	size, err := m.view().Records()
	if err != nil {
		return nil, err
	}
	numbers := proof.RootNumbers(size)
	above := len(numbers) - len(edge)
	if above < 0 || len(proof.RootNumbers(size%proof.Wide)) != len(edge) {
		return nil, fmt.Errorf("%w: checkpoint: a tree of %d records with %d hashes at its edge", ErrDamaged, size, len(edge))
	}
	roots, err := proof.FromSparse(m.keptHashes)(numbers[:above])
	if err != nil {
		return nil, err
	}
	return proof.TreeOf(size, append(roots, edge...))
}

// keptHashes reads hashes of a level, from one of them on. A key of the table has
// the number of the first hash in its value.
func (m *models) keptHashes(level int, first, count int64) ([]ledger.Digest, error) {
	it, err := m.Iterate([]byte{tableTree}, []byte{tableTree + 1})
	if err != nil {
		return nil, err
	}
	found, err := hashesAt(it, level, first, count)
	return found, it.Finish(err)
}

func hashesAt(it *store.Iterator, level int, first, count int64) ([]ledger.Digest, error) {
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

// newestTree returns the tree in memory if it is that of the view's moment.
func (v View) newestTree() (*proof.Tree, bool) {
	v.p.mu.Lock()
	defer v.p.mu.Unlock()
	return v.p.tree, v.p.head.Sequence == v.sequence
}

// hashes finds all hashes of the Merkle tree of the view's moment, which has a size:
// in memory and in the read models, and those of the lowest levels with the log.
func (v View) hashes(ctx context.Context, log ledger.Log, size int64) proof.Hashes {
	edge := make(map[int64]ledger.Digest)
	if tree, is := v.newestTree(); is {
		roots := tree.Roots()
		for i, number := range proof.RootNumbers(size) {
			edge[number] = roots[i]
		}
	}
	groups := make(map[int64][]ledger.Digest) // leaves that were read, 256 at most, by what is above them
	below := proof.FromSparse(func(level int, first, count int64) ([]ledger.Digest, error) {
		if level > 0 {
			return v.p.keptHashes(level, first, count)
		}
		group := first / proof.Wide
		begin := group * proof.Wide
		leaves, known := groups[group]
		if !known {
			err := v.EachLeaf(ctx, log, begin, min(size-begin, proof.Wide), func(data []byte) error {
				leaves = append(leaves, ledger.LeafHash(data))
				return nil
			})
			if err != nil {
				return nil, err
			}
			groups[group] = leaves
		}
		return append([]ledger.Digest(nil), leaves[first-begin:first-begin+count]...), nil
	})
	return func(numbers []int64) ([]ledger.Digest, error) {
		found := make([]ledger.Digest, len(numbers))
		for i, number := range numbers {
			hash, known := edge[number]
			if !known {
				one, err := below([]int64{number})
				if err != nil {
					return nil, err
				}
				hash = one[0]
			}
			found[i] = hash
		}
		return found, nil
	}
}

// EachLeaf calls yield with the ledger.LeafData of count records of the log, from one
// of them on, numbered from 0. All must be there at the view's moment.
func (v View) EachLeaf(ctx context.Context, log ledger.Log, first, count int64, yield func(data []byte) error) error {
	from, err := v.commitOf(first)
	if err != nil {
		return err
	}
	to, err := v.commitOf(first + count - 1)
	if err != nil {
		return err
	}
	number, err := (View{v.p, from - 1}).Records()
	if err != nil {
		return err
	}
	err = log.Read(ctx, from, to, func(e ledger.Entry) error {
		var head ledger.Head
		is, err := v.commit(e.Sequence, func(f *fields) { head, _, _ = f.commitPoint(e.Sequence) })
		if err != nil || !is {
			return err
		}
		if got := ledger.DigestOf(e.Data); got != head.Digest {
			return fmt.Errorf("%w: commit %d of the log has the digest %s, but had %s when it was folded", ledger.ErrChain,
				e.Sequence, got, head.Digest)
		}
		leaves, err := ledger.LeavesData(e.Data)
		for i := 0; i < len(leaves) && err == nil; i++ {
			if number >= first && number < first+count {
				err = yield(leaves[i])
			}
			number++
		}
		return err
	})
	if err == nil && number < first+count {
		err = fmt.Errorf("%w: the log has no record %d", ledger.ErrLogGap, number)
	}
	return err
}

// commitOf returns the sequence of the commit with a record, by the record's number.
func (v View) commitOf(number int64) (sequence uint64, err error) {
	sequence = 1 + uint64(sort.Search(int(v.sequence), func(i int) bool {
		with, failure := (View{v.p, uint64(i) + 1}).Records()
		err = errors.Join(err, failure)
		return with > number
	}))
	if err == nil && sequence > v.sequence {
		err = fmt.Errorf("%w: there is no record %d up to sequence %d", ErrNotYet, number, v.sequence)
	}
	return sequence, err
}

// Tile returns a tile of hashes (c2sp.org/tlog-tiles), which may be partial. If the log
// was not that long at the view's moment it fails with ErrNotYet.
func (v View) Tile(ctx context.Context, log ledger.Log, t tlog.Tile) (tile []byte, err error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	level, first := t.L*proof.LevelsApart, t.N*proof.Wide
	if complete := proof.KeptCount(level, size); t.N < 0 || t.N > complete || first+int64(t.W) > complete {
		return nil, fmt.Errorf("%w: there are %d hashes of level %d up to sequence %d", ErrNotYet, complete, level, v.sequence)
	}
	if level > 0 {
		hashes, err := v.p.keptHashes(level, first, int64(t.W))
		return appendHashes(nil, hashes), err
	}
	err = v.EachLeaf(ctx, log, first, int64(t.W), func(data []byte) error {
		leaf := ledger.LeafHash(data)
		tile = append(tile, leaf[:]...)
		return nil
	})
	return tile, err
}

// Tree returns the Merkle tree of all records at the view's moment. Of a past one
// it reads less than 256 records of the log.
func (v View) Tree(ctx context.Context, log ledger.Log) (*proof.Tree, error) {
	if tree, is := v.newestTree(); is {
		return tree.Copy(), nil
	}
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.LoadTree(size, v.hashes(ctx, log, size))
}

// Checkpoint returns the checkpoint to sign for the view's moment, without the
// ledger's id.
func (v View) Checkpoint(ctx context.Context, log ledger.Log) (*proof.Checkpoint, error) {
	head, size, err := v.position()
	if err != nil {
		return nil, err
	}
	tree, err := v.Tree(ctx, log)
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

// ProveInclusion proves that a leaf is in the Merkle tree of the view's moment. It
// reads at most 512 records of the log.
func (v View) ProveInclusion(ctx context.Context, log ledger.Log, leaf int64) ([]ledger.Digest, error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.Inclusion(leaf, size, v.hashes(ctx, log, size))
}

// ProveGrowth proves that the log of the view's moment holds everything that it
// held when it had a number of records. It reads at most 512 records of the log.
func (v View) ProveGrowth(ctx context.Context, log ledger.Log, earlier int64) ([]ledger.Digest, error) {
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	return proof.Growth(earlier, size, v.hashes(ctx, log, size))
}

// Not every sequence has a commit: an entry of the log that is none of the ledger's,
// as a stranger's or one that came too late, is skipped, and leaves a gap. Whether a
// commit that is not there has been lost is told by its neighbours: each names the
// number of records of the log with it, and has its own.

// span is a commit, and how many records the log had before and with it.
type span struct {
	sequence     uint64
	before, with int64
}

// readSpan reads the commit that a cursor stands at.
func readSpan(it *store.Iterator) (s span, err error) {
	s.sequence = binary.BigEndian.Uint64(it.Key()[1:])
	f := fields{data: it.Value()}
	_, _, s.with = f.commitPoint(s.sequence)
	s.before = s.with - int64(f.count())
	f.data = nil // the rest
	return s, f.end("commit")
}

// spanBefore moves a cursor over commits back from where it stands, to the commit before.
// The zero span is the begin of the log.
func spanBefore(it *store.Iterator) (span, error) {
	if !it.Prev() {
		return span{}, nil
	}
	return readSpan(it)
}

// follows reports whether nothing is missing between a commit and the next one. The
// zero span is the begin of the log.
func (s span) follows(before span) bool { return s.before == before.with }

// lastCommit returns the last commit at or before a sequence, which may be at most the
// newest one's; 0: the log has none there.
func (m *models) lastCommit(sequence uint64) (last uint64, err error) {
	key := commitKey(sequence)
	if found, err := m.Get(key, func([]byte) error { return nil }); err != nil || found {
		return sequence, err
	}
	it, err := m.Iterate([]byte{tableCommit}, []byte{tableCommit + 1})
	if err != nil {
		return 0, err
	}
	missing := func() error { return fmt.Errorf("%w: there is no commit %d", ErrDamaged, sequence) }
	if !it.SeekGE(key) {
		return 0, it.Finish(missing())
	}
	next, err := readSpan(it)
	var before span
	if err == nil {
		before, err = spanBefore(it)
	}
	if err == nil && !next.follows(before) {
		err = missing()
	}
	return before.sequence, it.Finish(err)
}
