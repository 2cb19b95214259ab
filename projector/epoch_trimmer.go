package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/allot-project/allot/projector/past"
)

const (
	// epochRecords is how many records an epoch has at least.
	epochRecords = 1 << 16
	// epochShare is which part of all records before it an epoch has at least, so that
	// epochs do not become as many as history is long.
	epochShare = 256
	// hotShare is which part of all records in the read models an epoch has at least.
	hotShare = 4
	// epochMost is how many records an epoch has at most, or a few more: its files, of
	// some 100 bytes for each, take room in the data folder until archives have them.
	epochMost = 1 << 25
)

// versionsLeave has leave the versions that are due, one epoch after the other.
func (t *HistoryTrimmer) versionsLeave(ctx context.Context, m *models) error {
	files := m.origin.past.Load()
	if files == nil {
		return nil
	}
	if err := t.finishDrop(ctx, m); err != nil {
		return err
	}
	if err := t.fillArchives(ctx, m, files); err != nil {
		return err
	}
	for {
		to, err := t.epochDue(m)
		if err != nil || to.head.Sequence == 0 {
			return err
		}
		if err := t.endEpoch(ctx, m, files, to); err != nil {
			return err
		}
	}
}

// finishDrop removes what has left with the newest epoch, if a crash kept that from
// happening.
func (t *HistoryTrimmer) finishDrop(ctx context.Context, m *models) error {
	last, err := m.lastEpoch()
	if err != nil || last == nil || last.dropped {
		return err
	}
	it, err := m.pastCursor(last, []byte{0}, []byte{0xff})
	if err != nil {
		return err
	}
	return m.drop(ctx, last, it)
}

// fillArchives writes into each archive the files that it lacks and another one has, once
// after a start: an archive may be new, or have lost some.
func (t *HistoryTrimmer) fillArchives(ctx context.Context, m *models, files *past.Files) error {
	if t.filled || m.horizon.Load().sequence == 0 {
		t.filled = true
		return nil
	}
	for _, store := range files.Stores() {
		there, err := files.List(ctx, store, schemaVersion)
		if err != nil {
			return err
		}
		err = m.epochs(0, func(e *epoch) (bool, error) {
			for _, f := range e.files {
				if there[f.Name()] {
					continue
				}
				if err := files.Give(ctx, store, f.File); err != nil {
					return false, fmt.Errorf("versions up to %d: %w", e.last, err)
				}
				t.cfg.Logger.Warn("an archive lacked a file of past versions, and has got it from another one",
					"archive", store.String(), "file", f.Name())
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	t.filled = true
	return nil
}

// epochDue returns the mark where the next epoch ends, if all before it has left; the
// zero mark: it has not. It ends where it has as many rows of its own as it shares with
// the next one, or about so, and as a good part of all that is in the read models, so that
// to go through these costs little for each record.
func (t *HistoryTrimmer) epochDue(m *models) (mark, error) {
	from, cold := m.horizon.Load(), m.coldUpTo()
	all, err := m.view().Records()
	if err != nil {
		return mark{}, err
	}
	least := max(cmp.Or(t.cfg.Records, epochRecords), from.shared, from.records/epochShare, (all-from.records)/hotShare)
	want := from.records + min(least, epochMost)
	if cold.with < want {
		return mark{}, nil
	}
	var failure error
	before := sort.Search(int(cold.head.Sequence-1), func(i int) bool {
		_, next, err := m.marksAround(uint64(i) + 1)
		failure = cmp.Or(failure, err)
		return next.with >= want
	})
	if failure != nil {
		return mark{}, failure
	}
	_, to, err := m.marksAround(uint64(before) + 1)
	return to, err
}

// endEpoch has leave what is before a mark.
func (t *HistoryTrimmer) endEpoch(ctx context.Context, m *models, files *past.Files, to mark) (err error) {
	folder, err := files.Folder()
	if err != nil {
		return err
	}
	if folder, err = os.MkdirTemp(folder, "epoch-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	e, paths, err := t.archiveEpoch(ctx, m, files, to, folder)
	if err != nil {
		return err
	}
	it, err := m.pathsCursor(paths)
	if err != nil {
		return err
	}
	return m.drop(ctx, e, it)
}

// archiveEpoch moves the horizon to a mark, when the files of the epoch that ends there
// were read back from every archive. It returns their paths in a folder.
func (t *HistoryTrimmer) archiveEpoch(
	ctx context.Context, m *models, files *past.Files, to mark, folder string,
) (e *epoch, paths []string, err error) {
	e, paths, chunks, err := m.makeEpoch(ctx, to, folder)
	if err != nil {
		return nil, nil, err
	}
	var bytes int64
	for i, f := range e.files {
		for _, store := range files.Stores() {
			if err := files.Put(ctx, store, f.File, paths[i]); err != nil {
				return nil, nil, fmt.Errorf("versions up to %d: %w", e.last, err)
			}
		}
		bytes += f.Bytes
	}
	if err := m.keepEpoch(e, chunks); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	t.state.Epochs++
	t.mu.Unlock()
	t.cfg.Logger.Info("versions leave the read models: all archives have them, as was verified just now",
		"first", e.first+1, "last", e.last, "files", len(e.files), "bytes", bytes)
	return e, paths, nil
}
