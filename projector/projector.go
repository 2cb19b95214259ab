package projector

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/projector/store"
)

// syncEvery bounds how much of the read models a power cut takes back, and so how
// old their high-water mark of the log can be.
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

	mu        sync.Mutex
	highWater *highWaterFile // guarded by mu
	changed   chan struct{}  // closed at the next fold; guarded by mu

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

// openOn is Open with Pebble's files on any file system.
func openOn(files store.Files, dir string, logger *slog.Logger) (*Projector, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	highWater, err := openHighWater(filepath.Join(dir, "mark"))
	if err != nil {
		return nil, err
	}
	p := &Projector{
		dir: FilesIn(dir), files: files, logger: logger, highWater: highWater,
		changed: make(chan struct{}), stopped: make(chan struct{}),
	}
	m, err := p.openOrBegin()
	if err != nil {
		return nil, errors.Join(err, highWater.f.Close())
	}
	p.models.Store(m)
	p.idle.Go(p.syncLoop)
	return p, nil
}

// Interrupt ends all waiting for space on the disk. Call it before the writer is
// closed, which may be waiting.
func (p *Projector) Interrupt() {
	p.stopping.Do(func() { close(p.stopped) })
}

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
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.highWater.f.Close())
}

// Checkpoint returns the head of the last folded commit.
func (p *Projector) Checkpoint() ledger.Head { return p.models.Load().checkpoint() }

// HighWater returns the head of the newest commit that was ever folded here. A
// log that ends before it has lost something.
func (p *Projector) HighWater() ledger.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highWater.head
}

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
	if err := m.fold(commit, &changes, p.seen); err != nil {
		return err
	}
	p.announce()
	return nil
}

// seen raises the high-water mark before a commit is answered.
func (p *Projector) seen(head ledger.Head) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.highWater.set(head)
}

func (p *Projector) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Sync makes everything folded so far durable, so that the checkpoint can
// serve as a high-water mark of the log.
func (p *Projector) Sync() error {
	err := p.models.Load().sync(p.syncHighWater)
	if err != nil {
		return fmt.Errorf("projector: sync: %w", err)
	}
	return nil
}

// syncHighWater makes the high-water mark durable. Commits are folded meanwhile.
func (p *Projector) syncHighWater() error {
	p.mu.Lock()
	f := p.highWater.f
	p.mu.Unlock()
	return f.Sync()
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
