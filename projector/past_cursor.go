package projector

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/past"
)

// ErrPastUnknown means that versions have left the read models, and that no archive was
// named to read them from.
var ErrPastUnknown = fmt.Errorf("%w: what was true then has left the read models, and no archive is named", ledger.ErrArchived)

// errPast means that a file of past versions cannot be read: the disk has changed it.
var errPast = errors.New("projector: a file of past versions in the data folder is damaged, and is fetched again")

// pastCursor opens a cursor over rows of an epoch. Files without a key in any of some
// ranges are not read.
func (m *models) pastCursor(e *epoch, lower, upper []byte, only ...keyRange) (*cursor, error) {
	if len(only) == 0 {
		only = []keyRange{{lower, upper}}
	}
	files, err := m.filesWithin(e, only...)
	if err != nil {
		return nil, err
	}
	return m.filesCursor([][]past.File{files}, lower, upper)
}

// keyRange are the keys from lower (inclusive) to upper (exclusive).
type keyRange struct{ lower, upper []byte }

// filesCursor opens a cursor over the rows of files, each group of which is sorted. Of
// rows with the same key it has one.
func (m *models) filesCursor(groups [][]past.File, lower, upper []byte) (c *cursor, err error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	var opened [][]sstable.ReadableFile
	defer func() {
		if c == nil {
			m.users.leave()
		}
	}()
	files, err := m.origin.openPast()
	if err != nil {
		return nil, err
	}
	ctx, cancel := m.origin.pastContext()
	defer cancel()
	var names []past.File
	for _, group := range groups {
		var tables []sstable.ReadableFile
		for _, file := range group {
			err = files.Read(ctx, file, func(path string) error {
				table, err := vfs.Default.Open(path)
				if err == nil {
					tables = append(tables, table)
				}
				return err
			})
			if err != nil {
				break
			}
			names = append(names, file)
		}
		opened = append(opened, tables)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("projector: %w", err), closeTables(opened))
		}
	}
	// From here on the iterator closes the files, also when it cannot be made.
	it, err := pebble.NewExternalIter(pastOptions, &pebble.IterOptions{LowerBound: lower, UpperBound: upper}, opened)
	c = &cursor{it: it, m: m, past: &pastReading{files: files, names: names}}
	if err != nil {
		err = c.past.damaged(err)
		c = nil
	}
	return c, err
}

// pathsCursor opens a cursor over the rows of files that are being made, which are sorted
// through all of them.
func (m *models) pathsCursor(paths []string) (c *cursor, err error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if c == nil {
			m.users.leave()
		}
	}()
	var tables []sstable.ReadableFile
	for _, path := range paths {
		table, err := vfs.Default.Open(path)
		if err != nil {
			return nil, errors.Join(err, closeTables([][]sstable.ReadableFile{tables}))
		}
		tables = append(tables, table)
	}
	it, err := pebble.NewExternalIter(pastOptions, nil, [][]sstable.ReadableFile{tables})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRows, err)
	}
	return &cursor{it: it, m: m}, nil
}

func closeTables(groups [][]sstable.ReadableFile) (err error) {
	for _, group := range groups {
		for _, table := range group {
			err = errors.Join(err, table.Close())
		}
	}
	return err
}

// pastOptions are those of files of past versions.
var pastOptions = func() *pebble.Options {
	o := &pebble.Options{}
	o.EnsureDefaults()
	return o
}()

// pastReading is what a cursor reads that does not read Pebble.
type pastReading struct {
	files  *past.Files
	names  []past.File
	failed error
}

// damaged has the files fetched again, and returns the error for the reader. The read
// models are good.
func (r *pastReading) damaged(reason error) error {
	for _, name := range r.names {
		r.files.Forget(name)
	}
	r.failed = fmt.Errorf("%w: %w: %w", ledger.ErrArchived, errPast, reason)
	return r.failed
}

// openPast returns the files of past versions.
func (o *origin) openPast() (*past.Files, error) {
	if files := o.past.Load(); files != nil {
		return files, nil
	}
	return nil, ErrPastUnknown
}

// ReadPastFrom says where the files of past versions are, with which old versions may
// leave, and from which they are read. Without it, reading them is an ErrPastUnknown.
func (p *Projector) ReadPastFrom(files *past.Files) { p.origin.past.Store(files) }

// HotFrom returns the sequence from which on views are in the read models: what was true
// before is in archives.
func (p *Projector) HotFrom() uint64 { return p.models.Load().horizon.Load().sequence }

// PastBytes returns how many bytes of past versions are in each archive.
func (p *Projector) PastBytes() (bytes int64, err error) {
	m := p.models.Load()
	if m.horizon.Load().sequence == 0 {
		return 0, nil
	}
	it, err := m.cursor([]byte{tableEpochFile}, []byte{tableEpochFile + 1})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var f epochFile
		f, err = readEpochFile(it)
		bytes += f.Bytes
	}
	return bytes, finish(it, err)
}

// pastContext bounds how long a reader waits for an archive.
func (o *origin) pastContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(o.ctx, stretchPatience)
}
