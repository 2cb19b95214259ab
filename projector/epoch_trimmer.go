package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sort"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/past"
)

const (
	// epochRecords is how many records an epoch has at least.
	epochRecords = 1 << 16
	// epochShare is which part of all records before it an epoch has at least, so that
	// epochs do not become as many as history is long.
	epochShare = 256
	// hotShare is which part of all records in the read models those of the epochs are at
	// least that are made together, so that going through all costs little for each.
	hotShare = 4
	// epochsMost is how many epochs are made together at most.
	epochsMost = 64
	// epochsBytes is about how much room in the data folder their files may take until
	// archives have them, if they are more than one, and recordBytes how much they take
	// for a record.
	epochsBytes = 4 << 30
	recordBytes = 130
	// epochsAlive bounds the memory for lists of who holds something: how many entities
	// there are at their ends, all taken together, if they are more than one.
	epochsAlive = 1 << 22
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
		ends, err := t.epochsDue(m)
		if err != nil || len(ends) == 0 {
			return err
		}
		if err := t.endEpochs(ctx, m, files, ends); err != nil {
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
		for {
			lacking, err := files.Lacking(ctx, store, schemaVersion, m.pastFiles())
			if err != nil {
				return err
			}
			if len(lacking) == 0 {
				break
			}
			for _, f := range lacking {
				if err := files.Give(ctx, store, f); err != nil {
					return fmt.Errorf("versions up to %d: %w", f.Last, err)
				}
				t.cfg.Logger.Warn("an archive lacked a file of past versions, and has got it from another one",
					"archive", store.String(), "file", f.Name())
			}
		}
	}
	t.filled = true
	return nil
}

// pastFiles yields the files of all epochs, sorted by name.
func (m *models) pastFiles() iter.Seq2[past.File, error] {
	return func(yield func(past.File, error) bool) {
		from, more := uint64(0), true
		for more {
			var some []*epoch // so that no cursor waits for an archive
			err := m.epochs(from, func(e *epoch) (bool, error) {
				some = append(some, e)
				return len(some) < epochsMost, nil
			})
			if err != nil {
				yield(past.File{}, err)
				return
			}
			more = len(some) == epochsMost
			for _, e := range some {
				from = e.last + 1
				list, err := m.allFiles(e)
				if err != nil {
					yield(past.File{}, err)
					return
				}
				for _, f := range list {
					if !yield(f, nil) {
						return
					}
				}
			}
		}
	}
}

// epochsDue returns the marks where the next epochs end, if it is worth while to have them
// leave now. Where they end follows from the log alone, so that all servers write the same
// files.
func (t *HistoryTrimmer) epochsDue(m *models) (ends []mark, err error) {
	begin, cold := m.horizon.Load(), m.coldUpTo()
	all, err := m.view().Records()
	if err != nil {
		return nil, err
	}
	from, alive := begin, int64(0)
	for len(ends) < epochsMost {
		to, err := t.epochEnd(m, from, cold)
		if err != nil {
			return nil, err
		}
		if to.head.Sequence == 0 {
			if from.records-begin.records < (all-begin.records)/hotShare {
				return nil, nil // more come
			}
			return ends, nil
		}
		there, err := t.alive(m, to.head.Sequence)
		if err != nil {
			return nil, err
		}
		alive += there
		if len(ends) > 0 && (alive > epochsAlive || (to.with-begin.records)*recordBytes > epochsBytes) {
			return ends, nil
		}
		ends = append(ends, to)
		from = &horizon{to.head.Sequence, to.with}
	}
	return ends, nil
}

// epochEnd returns the mark where an epoch ends, if all before it has left; the zero mark:
// it has not. An epoch has at least as many records as there are entities at its beginning,
// whose rows it shares with others.
func (t *HistoryTrimmer) epochEnd(m *models, from *horizon, cold mark) (mark, error) {
	want := from.records + max(cmp.Or(t.cfg.Records, epochRecords), from.records/epochShare)
	if cold.with < want {
		return mark{}, nil
	}
	alive, err := t.alive(m, from.sequence)
	if err != nil {
		return mark{}, err
	}
	if want = max(want, from.records+alive); cold.with < want {
		return mark{}, nil
	}
	before := sort.Search(int(cold.head.Sequence-1), func(i int) bool {
		_, next, failed := m.marksAround(uint64(i) + 1)
		err = cmp.Or(err, failed)
		return next.with >= want
	})
	if err != nil {
		return mark{}, err
	}
	_, to, err := m.marksAround(uint64(before) + 1)
	return to, err
}

// alive returns how many consumers, providers and entities of bare metal there were right
// after a commit. It remembers that of the next epochs.
func (t *HistoryTrimmer) alive(m *models, sequence uint64) (int64, error) {
	if n, known := t.entities[sequence]; known || sequence == 0 {
		return n, nil
	}
	view, n := View{m, sequence}, int64(0)
	err := view.AllUsages(func(u *ledger.Usage) bool {
		n += u.Consumers
		return true
	})
	for _, table := range []byte{tableProvider, nodeTables.value, nodeAllocationTables.value, chassisTables.value} {
		if err == nil {
			err = view.each([]byte{table}, func([]byte, uint64, []byte) (bool, error) {
				n++
				return true, nil
			})
		}
	}
	if err != nil {
		return 0, err
	}
	if t.entities == nil {
		t.entities = make(map[uint64]int64)
	}
	t.entities[sequence] = n
	return n, nil
}

// endEpochs has leave what is before some marks.
func (t *HistoryTrimmer) endEpochs(ctx context.Context, m *models, files *past.Files, ends []mark) (err error) {
	folder, err := files.Folder()
	if err != nil {
		return err
	}
	if folder, err = os.MkdirTemp(folder, "epochs-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	made, err := m.makeEpochs(ctx, ends, folder)
	if err != nil {
		return err
	}
	for _, e := range made {
		if err := t.archiveEpoch(ctx, m, files, e); err != nil {
			return err
		}
		it, err := m.pathsCursor(e.paths)
		if err == nil {
			err = m.drop(ctx, e.epoch, it)
		}
		for _, path := range e.paths {
			err = errors.Join(err, os.Remove(path))
		}
		if err != nil {
			return err
		}
	}
	clear(t.entities)
	return nil
}

// archiveEpoch moves the horizon to the end of the next epoch, when its files were read
// back from every archive.
func (t *HistoryTrimmer) archiveEpoch(ctx context.Context, m *models, files *past.Files, e epochFiles) error {
	var bytes int64
	for i, f := range e.list {
		for _, store := range files.Stores() {
			if err := files.Put(ctx, store, f.File, e.paths[i]); err != nil {
				return fmt.Errorf("versions up to %d: %w", e.last, err)
			}
		}
		bytes += f.Bytes
	}
	if err := m.keepEpoch(e); err != nil {
		return err
	}
	t.mu.Lock()
	t.state.Epochs++
	t.mu.Unlock()
	t.cfg.Logger.Info("versions leave the read models: all archives have them, as was verified just now",
		"first", e.first+1, "last", e.last, "files", e.files, "bytes", bytes)
	return nil
}
