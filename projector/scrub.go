package projector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// Dir returns the folder of the read models' files.
func (p *Projector) Dir() string { return p.dir }

// tableSuffix is the suffix of the files that never change once they are written.
const tableSuffix = ".sst"

// pace slows CheckFiles down; a rate.Limiter implements it.
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
		if !strings.HasSuffix(name, tableSuffix) {
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
		if err := p.checkTable(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
			tell(err)
			m.condemn(err) // they are rebuilt from the log
			return nil
		}
		read(info.Size())
	}
	return nil
}

// checkTable reads one table completely.
func (p *Projector) checkTable(ctx context.Context, path string) error {
	file, err := p.files.Open(path)
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
