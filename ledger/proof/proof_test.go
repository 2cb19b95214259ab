package proof_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
)

// grow adds leaves in commits of random sizes and returns the stored hashes.
func grow(t *rapid.T, upTo int) (tree *proof.Tree, leaves, kept []ledger.Digest) {
	tree = &proof.Tree{}
	for tree.Size() < int64(upTo) {
		var commit []ledger.Digest
		for range rapid.IntRange(1, 9).Draw(t, "records") {
			commit = append(commit, sha256.Sum256(fmt.Append(nil, len(leaves)+len(commit))))
		}
		leaves = append(leaves, commit...)
		kept = append(kept, tree.Add(commit)...)
	}
	return tree, leaves, kept
}

func reader(kept []ledger.Digest) proof.Hashes {
	return func(numbers []int64) ([]ledger.Digest, error) {
		var found []ledger.Digest
		for _, n := range numbers {
			found = append(found, kept[n])
		}
		return found, nil
	}
}

// TestTree: the tree is that of RFC 6962 as tlog computes it, it can be loaded
// again, and every record and every earlier tree can be proved, and nothing else:
// evidence with a hash more, less, or changed, or about another number, proves nothing.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, leaves, kept := grow(t, rapid.IntRange(1, 200).Draw(t, "up to"))
		size := tree.Size()
		if int64(len(kept)) != tlog.StoredHashCount(size) {
			t.Fatalf("%d hashes kept, not %d", len(kept), tlog.StoredHashCount(size))
		}
		want, err := tlog.TreeHash(size, reader(kept))
		if err != nil || ledger.Digest(want) != tree.Root() {
			t.Fatalf("root %s, not %v, %v", tree.Root(), want, err)
		}
		again, err := proof.LoadTree(size, reader(kept))
		if err != nil || again.Root() != tree.Root() || again.Size() != size {
			t.Fatalf("loaded: %v, %v", again, err)
		}
		now := &proof.Checkpoint{Size: size, Root: tree.Root()}
		number := rapid.Int64Range(0, size-1).Draw(t, "leaf")
		path, err := proof.Inclusion(number, size, reader(kept))
		ledgertest.OK(t, err, proof.CheckInclusion(path, now, number, leaves[number]))
		if err := proof.CheckInclusion(path, now, number, sha256.Sum256(nil)); !errors.Is(err, proof.ErrProof) {
			t.Fatalf("another record is proved: %v", err)
		}
		if err := proof.CheckInclusion(changed(t, path), now, number, leaves[number]); !errors.Is(err, proof.ErrProof) {
			t.Fatalf("a changed path proves leaf %d of %d: %v", number, size, err)
		}
		other := rapid.Int64Range(0, size-1).Draw(t, "other")
		if err := proof.CheckInclusion(path, now, other, leaves[number]); other != number && !errors.Is(err, proof.ErrProof) {
			t.Fatalf("leaf %d is proved to be number %d of %d: %v", number, other, size, err)
		}
		earlier := rapid.Int64Range(1, size).Draw(t, "earlier")
		past := &proof.Tree{}
		past.Add(leaves[:earlier])
		then := &proof.Checkpoint{Size: earlier, Root: past.Root()}
		growth, err := proof.Growth(earlier, size, reader(kept))
		ledgertest.OK(t, err, proof.CheckGrowth(growth, then, now))
		if err := proof.CheckGrowth(changed(t, growth), then, now); earlier < size && !errors.Is(err, proof.ErrProof) {
			t.Fatalf("a changed path proves that %d records are in %d: %v", earlier, size, err)
		}
		then.Root[3] ^= 1
		if err := proof.CheckGrowth(growth, then, now); !errors.Is(err, proof.ErrProof) {
			t.Fatalf("the growth of another log is proved: %v", err)
		}
	})
}

// TestSparse: from the leaves and the hashes of the levels 8, 16 and so on all others
// are found.
func TestSparse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := &proof.Tree{}
		var all, leaves []ledger.Digest
		levels := make(map[int][]ledger.Digest)
		size := rapid.Int64Range(1, 2000).Draw(t, "up to")
		if rapid.IntRange(0, 24).Draw(t, "with the level 16") == 0 {
			size += 1 << 16
		}
		for tree.Size() < size {
			var commit []ledger.Digest
			for range rapid.IntRange(1, 9).Draw(t, "records") * int(1+size/1000) {
				commit = append(commit, sha256.Sum256(fmt.Append(nil, tree.Size()+int64(len(commit)))))
			}
			before := tree.Size()
			complete := tree.Add(commit)
			leaves = append(leaves, commit...)
			all = append(all, complete...)
			for _, kept := range proof.Sparse(before, complete) {
				if kept.First != int64(len(levels[kept.Level])) {
					t.Fatalf("level %d goes on at %d after %d", kept.Level, kept.First, len(levels[kept.Level]))
				}
				levels[kept.Level] = append(levels[kept.Level], kept.Hashes...)
			}
		}
		sparse := levels[0] == nil
		levels[0] = leaves // not kept: they are made from the log
		for level, hashes := range levels {
			if !sparse || int64(len(hashes)) != proof.KeptCount(level, tree.Size()) {
				t.Fatalf("level %d keeps %d hashes of a tree of %d", level, len(hashes), tree.Size())
			}
		}
		found := proof.FromSparse(func(level int, first, count int64) ([]ledger.Digest, error) {
			return slices.Clone(levels[level][first : first+count]), nil
		})
		for _, n := range []int64{0, int64(len(all)) - 1, rapid.Int64Range(0, int64(len(all))-1).Draw(t, "number")} {
			if one, err := found([]int64{n}); err != nil || one[0] != all[n] {
				t.Fatalf("hash %d of a tree of %d: %v, %v", n, tree.Size(), one, err)
			}
		}
		again, err := proof.LoadTree(tree.Size(), found)
		if err != nil || again.Root() != tree.Root() {
			t.Fatalf("loaded: %v, %v", again, err)
		}
	})
}

func checkpoint() *proof.Checkpoint {
	return &proof.Checkpoint{
		Ledger: ledger.UUID{1, 2, 3}, Size: 42, Root: sha256.Sum256([]byte("root")),
		Head: ledger.Head{Sequence: 7, Digest: sha256.Sum256([]byte("head"))},
	}
}

func FuzzParse(f *testing.F) {
	f.Add(checkpoint().Text("log"))
	f.Add("log\n1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := proof.Parse(text); err == nil && !strings.HasSuffix(text, "\n"+c.String()) {
			t.Errorf("%q is read as %q", text, c)
		}
	})
}

// TestGolden: leaves and roots of stored commits never change, or checkpoints
// that auditors keep would no longer fit.
func TestGolden(t *testing.T) {
	tree := &proof.Tree{}
	var roots []string
	for line := range strings.Lines(string(ledgertest.ReadFile(t, "../testdata/commits.v1.hex"))) {
		encoded := ledgertest.Must(hex.DecodeString(strings.TrimSpace(line)))
		commit := ledgertest.Must(ledger.DecodeCommit(encoded))
		leaves := ledgertest.Must(ledger.LeavesData(encoded))
		for i, data := range leaves {
			if ledger.LeafHash(data) != commit.Leaves[i] {
				t.Errorf("leaf %d of commit %d is another one", i, commit.Sequence)
			}
		}
		tree.Add(commit.Leaves)
		roots = append(roots, tree.Root().String())
	}
	want := []string{
		"5b653ae8ff717b354c6669b3a2008ba7f9f57e432592ef863f754bac363a4793",
		"a1275aaa8130147dc23b85c4414037e03388df6a7103e2f3474a90856db58cbc",
		"f7938412850d0ab2f62356ba1966c2143e4e18ea961def6490b3f2cbaf470b01",
	}
	if !slices.Equal(roots, want) {
		t.Errorf("roots %q", roots)
	}
	text := "example.org/log\n42\nSBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I=\n" +
		"ledger 01020300-0000-0000-0000-000000000000\nsequence 7\ndigest 9f2e6d33a3717ee826353a404ba4618d1aeeb6879ad7936bce8ed5f46814924d\n"
	if got := checkpoint().Text("example.org/log"); got != text {
		t.Errorf("%q", got)
	}
}
