package projector

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
)

// grove are read models and their log, of some thousand records, with all hashes of the tree.
type grove struct {
	*Projector
	dir    string
	log    *countedLog
	all    []ledger.Digest // as tlog numbers them
	sizes  []int64         // number of records with each commit
	trees  []*proof.Tree   // with each commit
	leaves []ledger.Digest
}

// countedLog counts the entries that are read of a log.
type countedLog struct {
	*memlog.Log
	read int
}

func (l *countedLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return l.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		l.read++
		return yield(e)
	})
}

func grow(t *testing.T, records int) *grove {
	t.Helper()
	g := &grove{dir: t.TempDir(), log: &countedLog{Log: &memlog.Log{}}}
	g.open(t)
	random, tree := rand.New(rand.NewPCG(1, 2)), &proof.Tree{}
	m := &maker{views: g.Projector, state: ledger.NewState(), log: g.log}
	for sequence := uint64(1); m.made < records; sequence++ {
		commit := m.commit(t, sequence, 1+random.IntN(90), func(n int) int64 { return int64(n) })
		g.all = append(g.all, tree.Add(commit.Leaves)...)
		g.leaves = append(g.leaves, commit.Leaves...)
		g.sizes, g.trees = append(g.sizes, tree.Size()), append(g.trees, tree.Copy())
	}
	return g
}

func (g *grove) open(t *testing.T) {
	t.Helper()
	var err error
	g.Projector, err = Open(g.dir, quiet)
	ledgertest.OK(t, err)
	t.Cleanup(func() { _ = g.Close() }) // it may be closed
}

func (g *grove) hashes(numbers []int64) (found []ledger.Digest, err error) {
	for _, n := range numbers {
		found = append(found, g.all[n])
	}
	return found, nil
}

// TestTreeOfTheLog: with the hashes of levels 8 and above, and the log, every root, every
// proof and every tile is that of the whole tree, and few entries are read for them.
func TestTreeOfTheLog(t *testing.T) {
	t.Parallel()
	g := grow(t, 3000)
	check := func(what string, i int) {
		t.Helper()
		view := ledgertest.Must(g.ViewAt(uint64(i + 1)))
		size := g.sizes[i]
		g.log.read = 0
		tree, err := view.Tree(t.Context(), g.log)
		if err != nil || tree.Root() != g.trees[i].Root() || !slices.Equal(tree.Edge(), g.trees[i].Edge()) {
			t.Errorf("%s: the tree at %d: %v, %v", what, i+1, tree, err)
		}
		if newest := i+1 == len(g.sizes); newest && g.log.read > 0 || g.log.read > proof.Wide {
			t.Errorf("%s: %d entries were read for the tree at %d", what, g.log.read, i+1)
		}
		for _, leaf := range []int64{0, size / 3, size / 2, size - 1} {
			g.log.read = 0
			path, err := view.ProveInclusion(t.Context(), g.log, leaf)
			want, wantErr := proof.Inclusion(leaf, size, g.hashes)
			if err != nil || wantErr != nil || !slices.Equal(path, want) {
				t.Errorf("%s: leaf %d at %d: %v, %v", what, leaf, i+1, err, wantErr)
			}
			path, err = view.ProveGrowth(t.Context(), g.log, leaf+1)
			want, wantErr = proof.Growth(leaf+1, size, g.hashes)
			if err != nil || wantErr != nil || !slices.Equal(path, want) {
				t.Errorf("%s: growth from %d at %d: %v, %v", what, leaf+1, i+1, err, wantErr)
			}
			if g.log.read > 4*proof.Wide {
				t.Errorf("%s: %d entries were read for two proofs at %d", what, g.log.read, i+1)
			}
		}
		first := size / 2 / proof.Wide * proof.Wide
		wide := int(min(size-first, proof.Wide))
		tile, err := view.Tile(t.Context(), g.log, tlog.Tile{H: 8, N: first / proof.Wide, W: wide})
		if err != nil || !bytes.Equal(tile, appendHashes(nil, g.leaves[first:first+int64(wide)])) {
			t.Errorf("%s: the tile at %d: %v", what, first, err)
		}
	}
	all := func(what string) {
		t.Helper()
		every := ledgertest.Cases(1, 16)
		for i := range g.sizes {
			if (len(g.sizes)-1-i)%every == 0 {
				check(what, i)
			}
		}
	}
	all("folded")
	whole := &proof.Tree{}
	whole.Add(g.leaves[:proof.Wide])
	first := whole.Root()
	// This is how the read models write it, for ever.
	if found, err := g.models.Load().Get(append([]byte{'T', 8}, make([]byte, 8)...), func(value []byte) error {
		if !bytes.Equal(value, first[:]) {
			t.Errorf("the hash of the first 256 records is %x, not %s", value, first)
		}
		return nil
	}); err != nil || !found {
		t.Errorf("the hash of the first 256 records: %v, %v", found, err)
	}
	ledgertest.OK(t, g.Close())
	g.open(t)
	all("after a start")
	if got, err := g.View().Tree(t.Context(), nil); err != nil || got.Root() != g.trees[len(g.trees)-1].Root() {
		t.Errorf("a start needs the log: %v", err)
	}
}

// TestTreeOfAnotherLog: a log that is not the one that was folded gives no hashes.
func TestTreeOfAnotherLog(t *testing.T) {
	t.Parallel()
	g, other := grow(t, 300), &memlog.Log{}
	view := ledgertest.Must(g.ViewAt(2))
	ledgertest.OK(t, ledgertest.Append(other, 1, []byte("one")), ledgertest.Append(other, 2, []byte("two")))
	if tree, err := view.Tree(t.Context(), other); !errors.Is(err, ledger.ErrChain) {
		t.Errorf("%v, %v", tree, err)
	}
	if tree, err := view.Tree(t.Context(), &memlog.Log{}); !errors.Is(err, ledger.ErrLogBehind) {
		t.Errorf("without a log: %v, %v", tree, err)
	}
	if _, err := g.View().Tree(t.Context(), other); err != nil { // it is in memory
		t.Error(err)
	}
}
