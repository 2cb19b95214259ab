// Package projector answers what is true now and what was true in the past. It
// folds commits into read models in Pebble and serves them as Views, each as of
// one sequence.
//
// Read models are disposable: they follow from the log alone, key by key and byte
// by byte, however the commits were batched. Every entity is stored once per
// commit that changed it, under a key that ends with the sequence. So a View of
// any past sequence reads exactly what was true then.
//
// No other package knows Pebble.
package projector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/projector/store"
)

// syncEvery bounds how much of the read models a power cut takes back, and so how
// old their checkpoint of the log can be.
const syncEvery = time.Second

// Projector folds commits into Pebble. Fold must be called by one goroutine at a
// time; all other methods may be called by any number.
//
// Damaged read models answer nothing any more. Await tells it, Close sets them
// aside, and the next Open begins new ones.
type Projector struct {
	dir    string
	files  store.Files
	logger *slog.Logger

	models  atomic.Pointer[models]
	folding sync.Mutex // held while a commit is folded, and while read models are exchanged

	mu      sync.Mutex
	changed chan struct{} // closed at the next fold; guarded by mu

	stopped  chan struct{}
	stopping sync.Once
	idle     sync.WaitGroup
}

// ErrCondemned means that the read models are damaged and answer nothing any more. After
// the next start of the server there are others.
var ErrCondemned = store.ErrCondemned

// ErrClosed means that the read models were closed.
var ErrClosed = store.ErrClosed

// Open opens the read models in a folder, or begins new ones. It moves damaged
// ones aside, and removes those of another version. Checkpoint is then at 0.
func Open(dir string, logger *slog.Logger) (*Projector, error) {
	return openOn(store.OnDisk, dir, logger)
}

func openOn(files store.Files, dir string, logger *slog.Logger) (*Projector, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	p := &Projector{
		dir: FilesIn(dir), files: files, logger: logger, changed: make(chan struct{}), stopped: make(chan struct{}),
	}
	m, err := p.openOrBegin()
	if err != nil {
		return nil, err
	}
	p.models.Store(m)
	p.idle.Go(p.syncLoop)
	return p, nil
}

// Interrupt ends all waiting for space on the disk. Call it before the writer is
// closed, which may be waiting.
func (p *Projector) Interrupt() { p.stopping.Do(func() { close(p.stopped) }) }

// Close syncs and closes the read models, once they are not read any more. It
// sets damaged ones aside.
func (p *Projector) Close() error {
	p.Interrupt()
	p.idle.Wait()
	m := p.models.Load()
	err := errors.Join(p.Sync(), m.close())
	switch reason := m.Fault(); {
	case reason == nil:
	case durable.NoRoom(reason):
		p.logger.Warn("the read models could not be synced; the next start folds the missing commits again", "error", reason)
		err = nil
	default:
		err = p.setAside(reason) // an error of damaged read models does not matter
	}
	return err
}

// Checkpoint returns the head of the last folded commit.
func (p *Projector) Checkpoint() ledger.Head { return p.models.Load().position().Head }

// Changed returns a channel that is closed when the next commit is folded. Take
// it before you read Checkpoint or View, and you miss nothing.
func (p *Projector) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Fold makes a durable commit readable. All of it appears at once, with the
// checkpoint in the same batch. The batch is not synced: whatever a crash takes
// away is read from the log again.
func (p *Projector) Fold(commit *ledger.Commit, changes ledger.Changes) error {
	p.folding.Lock()
	defer p.folding.Unlock()
	m := p.models.Load()
	if commit.Sequence <= m.sequence.Load() {
		return nil // they came from a replica that had folded more
	}
	if err := m.fold(commit, &changes); err != nil {
		return err
	}
	p.announce()
	return nil
}

func (p *Projector) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Sync makes everything folded so far durable, so that the log can be compared with the checkpoint.
func (p *Projector) Sync() error {
	if err := p.models.Load().sync(); err != nil {
		return fmt.Errorf("projector: sync: %w", err)
	}
	return nil
}

func (p *Projector) syncLoop() {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.stopped:
			return
		}
		if err := p.Sync(); err != nil && !errors.Is(err, ErrCondemned) {
			p.logger.Error("the read models could not be synced", "error", err)
		}
	}
}

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
