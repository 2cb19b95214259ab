package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableSuffix is that of the files that do not change once they are written.
const tableSuffix = ".sst"

func isTable(name string) bool { return strings.HasSuffix(name, tableSuffix) }

// Pace is what holds Check up; a rate.Limiter is one.
type Pace interface {
	WaitN(ctx context.Context, n int) error
}

// paceBytes is how many bytes are read between two waits.
const paceBytes = 256 << 10

// CheckTable compares every block of a table, in whatever file, with its checksum. What is wrong
// is an ErrDamaged.
func CheckTable(ctx context.Context, path string) error {
	if err := checkTable(ctx, OnDisk, path); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return nil
}

// Check compares every block of the tables on the disk with its checksum, at a pace. At the
// first damaged one it calls tell and condemns the store. It skips tables that are compacted
// away meanwhile.
func (s *Store) Check(ctx context.Context, pace Pace, tell func(error), read func(bytes int64)) error {
	names, err := s.disk.List(s.dir)
	if err != nil {
		return fmt.Errorf("projector: %w", err)
	}
	for _, name := range names {
		if !isTable(name) {
			continue
		}
		path := s.disk.PathJoin(s.dir, name)
		info, err := s.disk.Stat(path)
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
		if err := checkTable(ctx, s.disk, path); err != nil {
			// A table that is being written is none yet, and one that has just been
			// finished is looked at again.
			if live, unknown := s.live(name); unknown != nil || !live {
				continue
			}
			err = checkTable(ctx, s.disk, path)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			err = fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
			tell(err)
			s.Condemn(err)
			return nil
		}
		read(info.Size())
	}
	return nil
}

// live reports whether a file is a table that the read models consist of now.
func (s *Store) live(name string) (found bool, err error) {
	err = s.Use(func(db *pebble.DB) error {
		levels, err := db.SSTables()
		if err != nil {
			return fmt.Errorf("projector: %w", err)
		}
		for _, tables := range levels {
			for _, table := range tables {
				found = found || name == table.BackingSSTNum.String()+tableSuffix
			}
		}
		return nil
	})
	return found, err
}

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
