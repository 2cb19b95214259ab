package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Await returns once the read models are condemned, with the reason; nil: the Projector was
// interrupted before. Condemned read models answer nothing any more, so their server ends:
// Close sets them aside, and the next start makes others, from a copy or from the log.
func (p *Projector) Await() error {
	for {
		m := p.models.Load()
		select {
		case <-m.broken:
			return m.fault()
		case <-m.replaced:
		case <-p.stopped:
			return nil
		}
	}
}

// Ready returns nil if the read models can be read and written, or why not.
func (p *Projector) Ready() error { return p.models.Load().fault() }

// Full reports whether the read models wait for space on their disk, or were opened without it.
func (p *Projector) Full() bool { return p.models.Load().disk.full.Load() || p.InMemory() }

// InMemory reports whether the disk was full when the read models were opened: what is folded
// now is in memory only, and folded again at the next start.
func (p *Projector) InMemory() bool { return p.models.Load().disk.inMemory() }

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
