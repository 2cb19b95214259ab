package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/projector/past"
)

const (
	// pastFileBytes is how many bytes of rows a file of past versions has, before
	// compression: whoever reads one row fetches all of it.
	pastFileBytes = 32 << 20
	// pastBlockBytes is the size of blocks, before compression: whoever reads one row
	// decompresses one.
	pastBlockBytes = 16 << 10
)

// pastTableOptions are those with which files of past versions are written. The same rows
// give the same bytes, so that replicas write each file once.
var pastTableOptions = sstable.WriterOptions{
	BlockSize: pastBlockBytes, Compression: block.ZstdCompression, TableFormat: sstable.TableFormatPebblev4,
	DisableValueBlocks: true,
}

// makeEpoch writes the files of the next epoch, which ends at a mark, into a folder, and
// reads them back. It returns their paths, and the filter's chunks.
func (m *models) makeEpoch(
	ctx context.Context, to mark, folder string,
) (e *epoch, paths []string, chunks [][]byte, err error) {
	from := m.horizon.Load()
	w := &epochWriter{folder: folder, epoch: &epoch{first: from.sequence, last: to.head.Sequence, records: to.with}}
	if err := m.rowsUntil(ctx, w.last, w.add); err != nil {
		return nil, nil, nil, errors.Join(err, w.endFile())
	}
	if err := w.endFile(); err != nil {
		return nil, nil, nil, err
	}
	if chunks, err = filterOf(w.entities); err != nil {
		return nil, nil, nil, err
	}
	w.chunks = len(chunks)
	return w.epoch, w.paths, chunks, m.compareRows(ctx, w.epoch, w.paths)
}

// rowsUntil calls yield with the rows that views need which are in the read models and
// before the one of a sequence, in the order of their keys. They are as they were right
// after the commit with that sequence.
func (m *models) rowsUntil(ctx context.Context, last uint64, yield func(key, value []byte) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	rest := breather{}
	d := &pastRows{View: View{m, last}, ctx: ctx, hot: true, add: func(key, value []byte) {
		rest.breathe()
		if ctx.Err() == nil {
			if err := yield(key, value); err != nil {
				stop(err)
			}
		}
	}}
	for _, t := range pastTables {
		if !mayLeave(t.table) {
			continue
		}
		if err := t.add(d, t.table); err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// breather lets others work: whoever goes through all rows, of whom nobody waits, rests
// as long as it works.
type breather struct{ since time.Time }

const breath = 2 * time.Millisecond

func (b *breather) breathe() {
	switch worked := time.Since(b.since); {
	case b.since.IsZero():
		b.since = time.Now()
	case worked > breath:
		time.Sleep(min(worked, 4*breath))
		b.since = time.Now()
	}
}

// epochWriter writes the rows of an epoch into files.
type epochWriter struct {
	*epoch
	folder   string
	paths    []string
	entities []uint64 // hashes of those of whose history the epoch has a part

	table    *sstable.Writer // of the file that is being written; nil: there is none
	bytes    int             // of its rows
	low, key []byte          // its first and its last key
	base     []byte          // of the last row in a table with versions
	entity   uint64          // the last one, by its hash
}

// add writes a row.
func (w *epochWriter) add(key, value []byte) error {
	if w.table == nil {
		if err := w.beginFile(key); err != nil {
			return err
		}
	}
	if err := w.table.Set(key, value); err != nil {
		return fmt.Errorf("projector: write past versions: %w", err)
	}
	w.note(key, value)
	w.key = append(w.key[:0], key...)
	if w.bytes += len(key) + len(value); w.bytes >= pastFileBytes {
		return w.endFile()
	}
	return nil
}

// note counts the rows that the next epoch needs, too, and notes entities.
func (w *epochWriter) note(key, value []byte) {
	switch rule := leaveRules[key[0]]; rule.kind {
	case listsPresent:
		w.shared++
	case versionsLeave:
		base := key[:len(key)-versionBytes]
		if !bytes.Equal(base, w.base) {
			w.base = append(w.base[:0], base...)
			if !gone(key, value) {
				w.shared++
			}
		}
	}
	if historyTables[key[0]] && versionOf(key) > w.first {
		base := entityHash(key[:len(key)-versionBytes])
		if len(w.entities) == 0 || base != w.entity {
			w.entities = append(w.entities, base)
			w.entity = base
		}
	}
}

func (w *epochWriter) beginFile(key []byte) error {
	path := filepath.Join(w.folder, fmt.Sprintf("%020d-%05d.sst", w.last, len(w.paths)))
	file, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w.paths = append(w.paths, path)
	w.table, w.bytes = sstable.NewWriter(objstorageprovider.NewFileWritable(file), pastTableOptions), 0
	w.low = bytes.Clone(key)
	return nil
}

// endFile ends the file that is being written, if there is one.
func (w *epochWriter) endFile() error {
	if w.table == nil {
		return nil
	}
	table := w.table
	w.table = nil
	if err := table.Close(); err != nil { // it is synced, too
		return fmt.Errorf("projector: write past versions: %w", err)
	}
	one := past.File{Form: schemaVersion, First: w.first, Last: w.last, Number: len(w.files)}
	one, err := past.Describe(one, w.paths[one.Number])
	w.files = append(w.files, epochFile{File: one, low: w.low, high: bytes.Clone(w.key)})
	return err
}

// errRows means that files do not have the rows of an epoch.
var errRows = errors.New("projector: a file of past versions does not have the rows that were written")

// compareRows compares files with the rows of the read models.
func (m *models) compareRows(ctx context.Context, e *epoch, paths []string) (err error) {
	var tables []sstable.ReadableFile
	for _, path := range paths {
		table, err := vfs.Default.Open(path)
		if err != nil {
			return errors.Join(err, closeTables([][]sstable.ReadableFile{tables}))
		}
		tables = append(tables, table)
	}
	it, err := pebble.NewExternalIter(pastOptions, nil, [][]sstable.ReadableFile{tables})
	if err != nil {
		return fmt.Errorf("%w: %w", errRows, err)
	}
	ok := it.First()
	err = m.rowsUntil(ctx, e.last, func(key, value []byte) error {
		if !ok || !bytes.Equal(it.Key(), key) || !bytes.Equal(it.Value(), value) {
			return errors.Join(errRows, it.Error())
		}
		ok = it.Next()
		return nil
	})
	if err == nil && (ok || it.Error() != nil) {
		err = errors.Join(errRows, it.Error())
	}
	return errors.Join(err, it.Close())
}

// keepEpoch notes an epoch that all archives have: from then on its files are read.
func (m *models) keepEpoch(e *epoch, chunks [][]byte) (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	batch := m.db.NewBatch()
	for i, chunk := range chunks {
		err = errors.Join(err, batch.Set(filterKey(e.last, i), chunk, nil))
	}
	if err = errors.Join(err, batch.Set(epochKey(e.last), e.value(), nil)); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := errors.Join(batch.Commit(pebble.Sync), batch.Close()); err != nil {
		return m.broke(fmt.Errorf("keep the epoch up to %d: %w", e.last, err))
	}
	m.horizon.Store(e.horizon())
	return nil
}

// drop removes from the read models what views from an epoch's last one on do not need.
// If it is interrupted, it is done again.
func (m *models) drop(ctx context.Context, e *epoch) error {
	for table := range leaveRules {
		if err := m.dropFrom(ctx, byte(table), e.last); err != nil {
			return err
		}
	}
	e.dropped = true
	return m.write(func(batch *pebble.Batch) error { return batch.Set(epochKey(e.last), e.value(), nil) })
}

// dropBytes is how much is removed at a time.
const dropBytes = 64 << 10

// dropFrom removes the rows of a table.
func (m *models) dropFrom(ctx context.Context, table byte, last uint64) error {
	rule := leaveRules[table]
	if rule.kind == stays || rule.kind == listsPresent {
		return nil
	}
	it, err := m.cursor([]byte{table}, []byte{table + 1})
	if err != nil {
		return err
	}
	var base []byte // that has had its newest version at the horizon
	var keys [][]byte
	size, rest := 0, breather{}
	remove := func() error {
		err := m.write(func(batch *pebble.Batch) (err error) {
			for _, key := range keys {
				err = errors.Join(err, batch.Delete(key, nil))
			}
			return err
		})
		keys, size = keys[:0], 0
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		rest.breathe()
		key := it.Key()
		if rule.version(key) > last {
			continue
		}
		if rule.kind == versionsLeave {
			if own := key[:len(key)-versionBytes]; !bytes.Equal(own, base) || base == nil {
				base = append(base[:0], own...)
				if !gone(key, it.Value()) {
					continue
				}
			}
		}
		keys = append(keys, bytes.Clone(key))
		if size += len(key); size > dropBytes {
			err = errors.Join(remove(), ctx.Err())
		}
	}
	if err == nil && len(keys) > 0 {
		err = remove()
	}
	return finish(it, err)
}

// write writes a batch that need not be durable yet.
func (m *models) write(fill func(*pebble.Batch) error) (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	batch := m.db.NewBatch()
	if err := fill(batch); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
		return m.broke(err)
	}
	return nil
}
