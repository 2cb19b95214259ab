package archive

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/proof"
)

// tilesFolder is where the tiles of the log (c2sp.org/tlog-tiles) are in an archive: hashes,
// and no records. As no object changes, checkpoints are in a folder, by their sizes, and the
// newest is the last one.
const (
	tilesFolder       = "tiles/"
	checkpointsFolder = tilesFolder + "checkpoints/"
)

// Tiles says what is published of the log beside its parts.
type Tiles struct {
	// Newest returns a signed checkpoint of the present; nil: there is none.
	Newest func() ([]byte, *proof.Checkpoint)
	// Tile returns a tile of hashes, which is complete or partial.
	Tile func(context.Context, tlog.Tile) ([]byte, error)
}

// tiler writes tiles into an archive.
type tiler struct {
	*Tiles
	archive *Archive
	folder  string // for what is sent

	at      uint64  // the archive's end for which tiles were written last; 0: not since the start
	written []int64 // complete tiles of each level that are there
}

// publish writes the tiles of a checkpoint of the present, once the archive has come further, and then the
// checkpoint.
func (w *tiler) publish(ctx context.Context, end uint64) error {
	if w.Tiles == nil || end == w.at {
		return nil
	}
	signed, c := w.Newest()
	if c == nil {
		return nil
	}
	for level := 0; proof.KeptCount(level*proof.LevelsApart, c.Size) > 0; level++ {
		if err := w.level(ctx, level, proof.KeptCount(level*proof.LevelsApart, c.Size)); err != nil {
			return err
		}
	}
	if err := w.archive.create(ctx, w.folder, fmt.Sprintf("%s%020d", checkpointsFolder, c.Size), signed); err != nil {
		return err
	}
	w.at = end
	return nil
}

// level writes the tiles of a level with so many hashes that are not there.
func (w *tiler) level(ctx context.Context, level int, hashes int64) error {
	complete := hashes / proof.Wide
	if level == len(w.written) {
		there, err := w.there(ctx, level, complete)
		if err != nil {
			return err
		}
		w.written = append(w.written, there)
	}
	for ; w.written[level] < complete; w.written[level]++ {
		if err := w.tile(ctx, tlog.Tile{H: proof.LevelsApart, L: level, N: w.written[level], W: proof.Wide}); err != nil {
			return err
		}
	}
	if rest := int(hashes % proof.Wide); rest > 0 {
		return w.tile(ctx, tlog.Tile{H: proof.LevelsApart, L: level, N: complete, W: rest})
	}
	return nil
}

// there finds how many complete tiles of a level there are. They were written in order.
func (w *tiler) there(ctx context.Context, level int, most int64) (count int64, err error) {
	count = int64(sort.Search(int(most), func(n int) bool {
		name := tilesFolder + proof.TilePath(tlog.Tile{H: proof.LevelsApart, L: level, N: int64(n), W: proof.Wide})
		body, missing := w.archive.store.Open(ctx, name)
		if missing == nil {
			missing = body.Close()
		} else if errors.Is(missing, bucket.ErrNotFound) {
			return true
		}
		err = errors.Join(err, missing)
		return false
	}))
	return count, err
}

func (w *tiler) tile(ctx context.Context, t tlog.Tile) error {
	data, err := w.Tile(ctx, t)
	if err != nil {
		return err
	}
	return w.archive.create(ctx, w.folder, tilesFolder+proof.TilePath(t), data)
}
