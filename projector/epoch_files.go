package projector

import (
	"bytes"
	"cmp"
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

	"github.com/allot-project/allot/ledger"
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

// epochFiles are the files of an epoch that archives are to have.
type epochFiles struct {
	*epoch

	list   []epochFile
	paths  []string
	filter [][]byte // in chunks
	ids    idTimes
}

// makeEpochs writes the files of the next epochs, which end at marks, into a folder, and
// reads them back.
//
// It goes through all rows in the read models once, also those of later versions: they
// are sorted by entity. So several epochs are made together, see epochsDue.
func (m *models) makeEpochs(ctx context.Context, ends []mark, folder string) (list []epochFiles, err error) {
	pass := &epochPass{m: m, ctx: ctx}
	from := m.horizon.Load()
	for _, to := range ends {
		ids, err := m.idsAfter(from.sequence, to.head.Sequence)
		if err != nil {
			return nil, err
		}
		pass.epochs = append(pass.epochs, &epochWriter{
			folder: folder, epoch: &epoch{first: from.sequence, last: to.head.Sequence, records: to.with},
			filter: newEpochFilter(2 * (to.with - from.records)), ids: ids, written: newDigester(),
		})
		from = &horizon{to.head.Sequence, to.with}
	}
	err = pass.all()
	for _, w := range pass.epochs {
		err = errors.Join(err, w.endFile())
	}
	for _, w := range pass.epochs {
		if err != nil {
			return nil, err
		}
		one := epochFiles{epoch: w.epoch, list: w.list, paths: w.paths, ids: w.ids}
		if one.filter, err = w.filter.chunks(); err == nil {
			one.chunks, one.files = len(one.filter), len(one.list)
			err = m.readBack(ctx, w.paths, w.written.digest())
		}
		list = append(list, one)
	}
	return list, err
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
	folder  string
	list    []epochFile
	paths   []string
	filter  epochFilter // of the entities of whose history the epoch has a part, and of its command ids
	ids     idTimes     // of its command ids
	written *digester   // of all rows

	table    *sstable.Writer // of the file that is being written; nil: there is none
	bytes    int             // of its rows
	low, key []byte          // its first and its last key
	entity   uint64          // the last one in the filter, by its hash
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
	w.written.add(key)
	w.written.add(value)
	w.note(key)
	w.key = append(w.key[:0], key...)
	if w.bytes += len(key) + len(value); w.bytes >= pastFileBytes {
		return w.endFile()
	}
	return nil
}

// note notes an entity of whose history the epoch has a part, or a command id.
func (w *epochWriter) note(key []byte) {
	base := key
	if key[0] != tableCommand {
		if !historyTables[key[0]] || versionOf(key) <= w.first {
			return
		}
		base = key[:len(key)-versionBytes]
	}
	if entity := entityHash(base); entity != w.entity {
		w.filter.add(entity)
		w.entity = entity
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
	one := past.File{Form: schemaVersion, First: w.first, Last: w.last, Number: len(w.list)}
	one, err := past.Describe(one, w.paths[one.Number])
	w.list = append(w.list, epochFile{File: one, low: w.low, high: bytes.Clone(w.key)})
	return err
}

// errRows means that files do not have the rows of an epoch.
var errRows = errors.New("projector: a file of past versions does not have the rows that were written")

// readBack compares the rows of files with what was written, by its digest.
func (m *models) readBack(ctx context.Context, paths []string, written ledger.Digest) error {
	it, err := m.pathsCursor(paths)
	if err != nil {
		return err
	}
	sum, rest := newDigester(), breather{}
	for ok := it.First(); ok && ctx.Err() == nil; ok = it.Next() {
		rest.breathe()
		sum.add(it.Key())
		sum.add(it.Value())
	}
	if err = finish(it, ctx.Err()); err == nil && sum.digest() != written {
		err = errRows
	}
	return err
}

// keepEpoch notes an epoch that all archives have: from then on its files are read.
func (m *models) keepEpoch(e epochFiles) (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	batch := m.db.NewBatch()
	for i, chunk := range e.filter {
		err = errors.Join(err, batch.Set(filterKey(e.last, i), chunk, nil))
	}
	for _, f := range e.list {
		err = errors.Join(err, batch.Set(f.key(), f.value(), nil))
	}
	left := leftIDs{e.ids, e.last}
	err = errors.Join(err, batch.Set(left.key(), left.value(), nil), batch.Set(epochKey(e.last), e.value(), nil))
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := errors.Join(batch.Commit(pebble.Sync), batch.Close()); err != nil {
		return m.broke(fmt.Errorf("keep the epoch up to %d: %w", e.last, err))
	}
	m.idsLeft.add(left)
	m.horizon.Store(e.horizon())
	return nil
}

// drop removes from the read models what views from an epoch's last one on do not need:
// of the rows of its files, which a cursor goes through, all that tell about the past
// alone, and all versions but the newest. If it is interrupted, it is done again.
func (m *models) drop(ctx context.Context, e *epoch, it *cursor) error {
	d := &dropping{m: m}
	rest := breather{}
	var err error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		rest.breathe()
		err = cmp.Or(d.row(it.Key(), it.Value()), ctx.Err())
	}
	if err = finish(it, err); err == nil {
		err = d.end()
	}
	if err != nil {
		return err
	}
	e.dropped = true
	return m.write(func(batch *pebble.Batch) error { return batch.Set(epochKey(e.last), e.value(), nil) })
}

// dropping removes rows of an epoch. Whatever stays between two rows that are next to one
// another in its files, and belong together, is none: the read models have what came later
// before them, in the order of keys. So many such rows are removed by their range, which
// costs no more than one of them.
type dropping struct {
	m     *models
	group []byte   // what the rows belong to, see leaveRule.group
	run   [][]byte // rows of the group that go, next to one another; of many only the first and the last
	count int      // how many they are
	size  int      // bytes of what was not written yet
	steps []func(*pebble.Batch) error
}

// dropBytes is how much is removed at a time.
const dropBytes = 64 << 10

// dropRun is how many rows are removed by their range: it slows readers until it is
// compacted, and one or two do not. Tests change it.
var dropRun = 32

// row removes a row, unless it is the newest of an entity that is there.
func (d *dropping) row(key, value []byte) error {
	rule := leaveRules[key[0]]
	if rule.kind == stays || rule.kind == listsPresent {
		return nil
	}
	if group := rule.group(key); d.group == nil || !bytes.Equal(group, d.group) {
		if err := d.endRun(); err != nil {
			return err
		}
		d.group = append(d.group[:0], group...)
		if rule.kind == versionsLeave && !gone(key, value) {
			return nil
		}
	}
	if d.count++; d.count > dropRun {
		d.run[dropRun-1] = append(d.run[dropRun-1][:0], key...)
	} else {
		d.run = append(d.run, bytes.Clone(key))
	}
	return nil
}

// endRun notes how to remove the rows of a group.
func (d *dropping) endRun() error {
	run, count := d.run, d.count
	if d.run, d.count = nil, 0; count == 0 {
		return nil
	}
	for _, key := range run {
		d.size += len(key)
	}
	if count >= dropRun {
		d.steps = append(d.steps, func(batch *pebble.Batch) error {
			return batch.DeleteRange(run[0], append(run[len(run)-1], 0), nil)
		})
	} else {
		d.steps = append(d.steps, func(batch *pebble.Batch) (err error) {
			for _, key := range run {
				err = errors.Join(err, batch.Delete(key, nil))
			}
			return err
		})
	}
	if d.size < dropBytes {
		return nil
	}
	return d.write()
}

func (d *dropping) write() error {
	err := d.m.write(func(batch *pebble.Batch) (err error) {
		for _, step := range d.steps {
			err = errors.Join(err, step(batch))
		}
		return err
	})
	d.steps, d.size = d.steps[:0], 0
	return err
}

// end removes what is left.
func (d *dropping) end() error { return cmp.Or(d.endRun(), d.write()) }

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
	bytes := batch.Len()
	if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
		return m.broke(err)
	}
	m.slow.wrote(bytes, m.stopped)
	return nil
}
