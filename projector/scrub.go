package projector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Dir returns the folder of the read models' files.
func (p *Projector) Dir() string { return p.dir }

// FilesIn is Dir of the read models that are opened in a folder.
func FilesIn(dir string) string { return filepath.Join(dir, "pebble") }

// tableSuffix is that of the files that do not change once they are written.
const tableSuffix = ".sst"

func isTable(name string) bool { return strings.HasSuffix(name, tableSuffix) }

// pace is what holds CheckFiles up; a rate.Limiter is one.
type pace interface {
	WaitN(ctx context.Context, n int) error
}

// paceBytes is how many bytes are read between two waits.
const paceBytes = 256 << 10

// CheckFiles compares every block of the read models' tables on the disk with its
// checksum, at a pace. At the first damaged one it calls tell and condemns the
// read models. It skips tables that are compacted away meanwhile.
func (p *Projector) CheckFiles(ctx context.Context, pace pace, tell func(error), read func(bytes int64)) error {
	m := p.models.Load()
	names, err := p.files.List(p.dir)
	if err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	for _, name := range names {
		if !isTable(name) {
			continue
		}
		path := p.files.PathJoin(p.dir, name)
		info, err := p.files.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("projector: %w", err)
		}
		for left := info.Size(); left > 0; left -= paceBytes {
			if err := pace.WaitN(ctx, int(min(left, paceBytes))); err != nil {
				return fmt.Errorf("projector: %w", err)
			}
		}
		if err := checkTable(ctx, p.files, path); err != nil {
			// A table that is being written is none yet, and one that has just been
			// finished is looked at again.
			if live, unknown := m.live(name); unknown != nil || !live {
				continue
			}
			err = checkTable(ctx, p.files, path)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			err = fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
			tell(err)
			m.condemn(err)
			return nil
		}
		read(info.Size())
	}
	return nil
}

// live reports whether a file is a table that the read models consist of now.
func (m *models) live(name string) (found bool, err error) {
	if err := m.enter(); err != nil {
		return false, err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	levels, err := m.db.SSTables()
	if err != nil {
		return false, fmt.Errorf("projector: %w", err)
	}
	for _, tables := range levels {
		for _, table := range tables {
			found = found || name == table.BackingSSTNum.String()+tableSuffix
		}
	}
	return found, nil
}

// checkTable reads all of one table.
func checkTable(ctx context.Context, files vfs.FS, path string) error {
	file, err := files.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	reader, err := sstable.NewReader(ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(reader.ValidateBlockChecksums(), reader.Close())
}
