package projector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/allot-project/allot/projector/store"
)

// Await returns once the read models are condemned, with the reason; nil: the Projector was
// interrupted before. Condemned read models answer nothing any more, so their server ends:
// Close sets them aside, and the next start makes others, from a copy or from the log.
func (p *Projector) Await() error {
	for {
		m := p.models.Load()
		select {
		case <-m.Broken():
			return m.Fault()
		case <-m.replaced:
		case <-p.stopped:
			return nil
		}
	}
}

// Ready returns nil if the read models can be read and written, or why not.
func (p *Projector) Ready() error { return p.models.Load().Fault() }

// Full reports whether the read models wait for space on their disk, or were opened without it.
func (p *Projector) Full() bool { return p.models.Load().Full() }

// InMemory reports whether the disk was full when the read models were opened: what is folded
// now is in memory only, and folded again at the next start.
func (p *Projector) InMemory() bool { return p.models.Load().InMemory() }

// setAside makes room for new read models. The last damaged ones are kept for examination.
func (p *Projector) setAside(reason error) error {
	if _, err := p.files.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(reason, errOtherVersion) {
		p.logger.Info("read models of another version removed; they are made again from the log", "reason", reason)
		return p.files.RemoveAll(p.dir)
	}
	parent := filepath.Dir(p.dir)
	names, err := p.files.List(parent)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, filepath.Base(p.dir)+damagedSuffix) {
			if err := p.files.RemoveAll(filepath.Join(parent, name)); err != nil {
				return err
			}
		}
	}
	aside := fmt.Sprintf("%s%s%d", p.dir, damagedSuffix, time.Now().UnixNano())
	p.logger.Warn("read models set aside; they are made again from a copy or the log", "error", reason, "moved_to", aside)
	return p.files.Rename(p.dir, aside)
}

const damagedSuffix = ".damaged-"

// Dir returns the folder of the read models' files.
func (p *Projector) Dir() string { return p.dir }

// FilesIn is Dir of the read models that are opened in a folder.
func FilesIn(dir string) string { return filepath.Join(dir, "pebble") }

// StoreStats returns Pebble's present statistics; zeros once the read models are closed.
func (p *Projector) StoreStats() store.Stats { return p.models.Load().Stats() }

// CheckFiles compares every block of the read models' tables on the disk with its checksum, at a
// pace. At the first damaged one it calls tell and condemns the read models.
func (p *Projector) CheckFiles(ctx context.Context, pace store.Pace, tell func(error), read func(bytes int64)) error {
	return p.models.Load().Check(ctx, pace, tell, read)
}
