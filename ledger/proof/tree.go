// Package proof makes the log provable to an auditor that does not trust its operator.
// All records are the leaves of one Merkle tree (RFC 6962), in the order of the log; a
// signed checkpoint is the root of the tree at some moment, signed with the operator's
// key. With kept checkpoints, an auditor can check that a record is in the log, and that
// a later log holds everything of an earlier one.
//
// Everything but the Folder of signed checkpoints is pure. The caller that folds
// the log stores the tree's hashes.
package proof

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
)

// ErrProof means that evidence does not prove what it should.
var ErrProof = errors.New("proof: the evidence does not prove it")

// Tree is the Merkle tree of all records so far, as much of it as adding a record
// and computing the root takes: the roots of its complete subtrees, the largest
// first. The zero value is the empty tree.
type Tree struct {
	size  int64
	roots []tlog.Hash
}

// Size returns the number of records in the tree.
func (t *Tree) Size() int64 { return t.size }

// Root returns the root of the tree; for the empty tree the hash of nothing.
func (t *Tree) Root() ledger.Digest {
	if t.size == 0 {
		return ledger.DigestOf(nil)
	}
	root := t.roots[len(t.roots)-1]
	for i := len(t.roots) - 2; i >= 0; i-- {
		root = tlog.NodeHash(t.roots[i], root)
	}
	return ledger.Digest(root)
}

// Add adds a commit's records. It returns the hashes that they complete, in the
// order in which tlog numbers stored hashes.
func (t *Tree) Add(leaves []ledger.Digest) []ledger.Digest {
	complete := make([]ledger.Digest, 0, 2*len(leaves))
	for _, leaf := range leaves {
		hash := tlog.Hash(leaf)
		complete = append(complete, leaf)
		// Each 1 at the end of the size's binary form stands for a subtree with
		// which the new leaf completes a larger one.
		for range bits.TrailingZeros64(^uint64(t.size)) {
			last := len(t.roots) - 1
			hash = tlog.NodeHash(t.roots[last], hash)
			t.roots = t.roots[:last]
			complete = append(complete, ledger.Digest(hash))
		}
		t.roots = append(t.roots, hash)
		t.size++
	}
	return complete
}

// Roots returns the roots of its complete subtrees, the largest first. With its
// size they are all that a tree needs to grow.
func (t *Tree) Roots() []ledger.Digest { return digests(t.roots) }

// Edge returns those of its Roots that are below the lowest level of Sparse.
func (t *Tree) Edge() []ledger.Digest {
	return digests(t.roots[len(t.roots)-bits.OnesCount64(uint64(t.size)%Wide):])
}

// TreeOf returns the tree of a size with such roots.
func TreeOf(size int64, roots []ledger.Digest) (*Tree, error) {
	if size < 0 || bits.OnesCount64(uint64(size)) != len(roots) {
		return nil, fmt.Errorf("%w: a tree of %d records does not have %d roots", ErrProof, size, len(roots))
	}
	return &Tree{size: size, roots: hashes(roots)}, nil
}

// Copy returns an independent copy.
func (t *Tree) Copy() *Tree {
	return &Tree{size: t.size, roots: append([]tlog.Hash(nil), t.roots...)}
}

// Hashes finds stored hashes by their numbers.
type Hashes func(numbers []int64) ([]ledger.Digest, error)

// ReadHashes implements tlog.HashReader.
func (h Hashes) ReadHashes(numbers []int64) ([]tlog.Hash, error) {
	found, err := h(numbers)
	return hashes(found), err
}

// RootNumbers are the numbers of the Roots of a tree of a size, as stored hashes.
func RootNumbers(size int64) (numbers []int64) {
	begin := int64(0)
	for level := bits.Len64(uint64(size)) - 1; level >= 0; level-- {
		if size&(1<<level) != 0 {
			numbers = append(numbers, tlog.StoredHashIndex(level, begin>>level))
			begin += 1 << level
		}
	}
	return numbers
}

// LoadTree reads a tree of a size from its stored hashes.
func LoadTree(size int64, kept Hashes) (*Tree, error) {
	roots, err := kept.ReadHashes(RootNumbers(size))
	if err != nil {
		return nil, err
	}
	return &Tree{size: size, roots: roots}, nil
}

// Inclusion proves from stored hashes that a leaf, numbered from 0, is in the
// tree of a size. It returns the sibling hashes on the leaf's path to the root.
func Inclusion(leaf, size int64, kept Hashes) ([]ledger.Digest, error) {
	path, err := tlog.ProveRecord(size, leaf, kept)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return digests(path), nil
}

// CheckInclusion checks that a leaf has its number in the tree of a checkpoint.
func CheckInclusion(path []ledger.Digest, c *Checkpoint, number int64, leaf ledger.Digest) error {
	if number < 0 || number >= c.Size {
		return fmt.Errorf("%w: leaf %d of a tree of %d", ErrProof, number, c.Size)
	}
	if err := tlog.CheckRecord(hashes(path), c.Size, tlog.Hash(c.Root), number, tlog.Hash(leaf)); err != nil {
		return fmt.Errorf("%w: the record is not in the tree of %d: %w", ErrProof, c.Size, err)
	}
	return nil
}

// Growth proves from stored hashes that a tree of a size holds all of an earlier
// one, of one leaf or more.
func Growth(earlier, size int64, kept Hashes) ([]ledger.Digest, error) {
	path, err := tlog.ProveTree(size, earlier, kept)
	if err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return digests(path), nil
}

// CheckGrowth checks that the log of a checkpoint holds all of an earlier
// checkpoint's log.
func CheckGrowth(path []ledger.Digest, earlier, later *Checkpoint) error {
	if earlier.Ledger != later.Ledger {
		return fmt.Errorf("%w: the checkpoints are of the ledgers %s and %s", ErrProof, earlier.Ledger, later.Ledger)
	}
	if earlier.Size < 1 || earlier.Size > later.Size || earlier.Sequence > later.Sequence {
		return fmt.Errorf("%w: the log had %d records up to sequence %d, but has %d up to %d", ErrProof,
			earlier.Size, earlier.Sequence, later.Size, later.Sequence)
	}
	if earlier.Size == later.Size && *earlier != *later {
		return fmt.Errorf("%w: the log up to sequence %d is another log", ErrProof, later.Sequence)
	}
	was, is := tlog.Hash(earlier.Root), tlog.Hash(later.Root)
	if err := tlog.CheckTree(hashes(path), later.Size, is, earlier.Size, was); err != nil {
		return fmt.Errorf(
			"%w: the log of %d records does not hold what the one of %d held: %w", ErrProof, later.Size, earlier.Size, err,
		)
	}
	return nil
}

func hashes(list []ledger.Digest) []tlog.Hash {
	out := make([]tlog.Hash, len(list))
	for i, d := range list {
		out[i] = tlog.Hash(d)
	}
	return out
}

func digests(list []tlog.Hash) []ledger.Digest {
	out := make([]ledger.Digest, len(list))
	for i, h := range list {
		out[i] = ledger.Digest(h)
	}
	return out
}
