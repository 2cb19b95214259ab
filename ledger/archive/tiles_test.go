package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
)

// forest has all hashes of a tree, whose leaves stand for records.
type forest struct {
	tree   proof.Tree
	hashes []ledger.Digest
	asked  atomic.Int64
}

func (f *forest) grow(n int) {
	leaves := make([]ledger.Digest, n)
	for i := range leaves {
		leaves[i] = ledger.LeafHash(fmt.Append(nil, f.tree.Size()+int64(i)))
	}
	f.hashes = append(f.hashes, f.tree.Add(leaves)...)
}

// tiles are what is published of it now.
func (f *forest) tiles(w *world) *archive.Tiles {
	c := &proof.Checkpoint{Ledger: w.id, Size: f.tree.Size(), Root: f.tree.Root(), Head: w.heads[len(w.heads)-1]}
	signed := ledgertest.Must(c.Sign(w.signer))
	return &archive.Tiles{
		Newest: func() ([]byte, *proof.Checkpoint) { return signed, c },
		Tile: func(_ context.Context, t tlog.Tile) (data []byte, err error) {
			f.asked.Add(1)
			for n := range int64(t.W) {
				hash := f.hashes[tlog.StoredHashIndex(t.L*t.H, t.N<<t.H+n)]
				data = append(data, hash[:]...)
			}
			return data, nil
		},
	}
}

// folderTiles reads tiles from an archive's folder, as a stranger would.
type folderTiles string

func (folderTiles) Height() int { return 8 }

func (dir folderTiles) ReadTiles(list []tlog.Tile) (data [][]byte, err error) {
	for _, t := range list {
		text, err := os.ReadFile(filepath.Join(string(dir), filepath.FromSlash(proof.TilePath(t))))
		if err != nil {
			return nil, err
		}
		data = append(data, text)
	}
	return data, nil
}

func (folderTiles) SaveTiles([]tlog.Tile, [][]byte) {}

// TestTiles: the tiles in an archive prove each record, and that the log has grown, to a reader
// that has nothing else; they are written once, and hold nothing but hashes.
func TestTiles(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t, 40), &forest{}
	folder := t.TempDir()
	a := in(t, folder)
	ends := 0 // how often the archive came further
	dir := folderTiles(filepath.Join(folder, "tiles"))
	publish := func(size int64) *proof.Checkpoint {
		t.Helper()
		f.grow(int(size - f.tree.Size()))
		ends++
		cfg, end := w.config(a), w.heads[10*ends-1]
		cfg.Seal, cfg.Head = true, func() ledger.Head { return end }
		cfg.Tiles = f.tiles(w)
		name := filepath.Join(string(dir), "checkpoints", fmt.Sprintf("%020d", size))
		running := archive.Start(cfg)
		defer running.Stop()
		ledgertest.WaitFor(t, "the checkpoint of the tiles", func() bool {
			_, err := os.Stat(name)
			return err == nil
		}, func() any { return running.Status() })
		c, err := proof.Open(ledgertest.ReadFile(t, name), w.keys)
		if err != nil || c.Size != size || c.Root != f.tree.Root() {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	var earlier *proof.Checkpoint
	for _, size := range []int64{3, 256, 70_000, 70_001} {
		f.asked.Store(0)
		c := publish(size)
		// The incomplete ones, one a level, are asked for at the start and once the archive has come further.
		least := map[int64]int64{3: 1, 256: 2, 70_000: 276, 70_001: 3}[size]
		if asked := f.asked.Load(); asked < least || asked > least+3 {
			t.Errorf("with %d records %d tiles were asked for, not %d", size, asked, least)
		}
		tree := tlog.Tree{N: c.Size, Hash: tlog.Hash(c.Root)}
		hashes := tlog.TileHashReader(tree, dir)
		for _, n := range []int64{0, size / 2, size - 1} {
			path, err := tlog.ProveRecord(size, n, hashes)
			if err == nil {
				err = tlog.CheckRecord(path, size, tree.Hash, n, tlog.RecordHash(fmt.Append(nil, n)))
			}
			if err != nil {
				t.Errorf("record %d of %d: %v", n, size, err)
			}
		}
		if earlier != nil {
			path, err := tlog.ProveTree(size, earlier.Size, hashes)
			if err == nil {
				err = tlog.CheckTree(path, size, tree.Hash, earlier.Size, tlog.Hash(earlier.Root))
			}
			if err != nil {
				t.Errorf("from %d to %d: %v", earlier.Size, size, err)
			}
		}
		earlier = c
	}
	onlyHashes(t, string(dir), len(f.hashes))
}

// onlyHashes looks for anything but hashes of the tree in files.
func onlyHashes(t *testing.T, dir string, most int) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(filepath.Join(dir, "tile"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if len(text) == 0 || len(text)%len(ledger.Digest{}) > 0 || bytes.Contains(text, []byte("allot")) {
			t.Errorf("%s has %d bytes", path, len(text))
		}
		seen += len(text) / len(ledger.Digest{})
		return err
	})
	if err != nil || seen == 0 || seen > 2*most {
		t.Errorf("%d hashes: %v", seen, err)
	}
}

// TestTilesLater: a tile that cannot be made, or no checkpoint, holds up no part; the next round
// goes on.
func TestTilesLater(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t, 8), &forest{}
	folder := t.TempDir()
	f.grow(600)
	cfg := w.config(in(t, folder))
	cfg.Seal = true
	cfg.Tiles = f.tiles(w)
	whole, newest := *cfg.Tiles, cfg.Tiles.Newest
	var tries atomic.Int64
	cfg.Tiles.Newest = func() ([]byte, *proof.Checkpoint) {
		if tries.Add(1) == 1 {
			return nil, nil
		}
		return newest()
	}
	cfg.Tiles.Tile = func(ctx context.Context, one tlog.Tile) ([]byte, error) {
		if tries.Add(1) == 4 {
			return nil, errors.New("not now")
		}
		return whole.Tile(ctx, one)
	}
	running := archive.Start(cfg)
	defer running.Stop()
	ledgertest.WaitFor(t, "the last tile", func() bool {
		_, err := os.Stat(filepath.Join(folder, "tiles", "checkpoints", fmt.Sprintf("%020d", 600)))
		return err == nil
	}, func() any { return running.Status() })
	if s := running.Status()[0]; s.Parts == 0 {
		t.Errorf("%+v", s)
	}
}
