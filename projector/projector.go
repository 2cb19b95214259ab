package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/candidates"
)

// schemaVersion counts changes of the read models' form. Read models of
// another version are rebuilt from the log.
const schemaVersion = 5

const (
	cacheBytes    = 128 << 20
	memTableBytes = 32 << 20
	// syncEvery bounds how much of the read models a power cut takes back,
	// and so how old the high-water mark that they keep of the log can be.
	syncEvery = time.Second
)

// Projector folds commits into Pebble. Fold must be called by one goroutine
// at a time; everything else may be used by any number.
type Projector struct {
	db    *pebble.DB
	cache *pebble.Cache

	sequence atomic.Uint64 // of the newest folded commit; the newest View's
	classes  atomic.Pointer[versionedClasses]

	mu      sync.Mutex
	index   *candidates.Index // of the newest folded commit; guarded by mu
	head    ledger.Head       // guarded by mu
	mark    *markFile         // guarded by mu
	changed chan struct{}     // closed at the next fold; guarded by mu
	dirty   bool              // folded since the last sync; guarded by mu
	tree    *proof.Tree       // of all records folded; replaced under mu, never changed
	stopped chan struct{}
	idle    sync.WaitGroup

	past     pastWorlds
	commands commandFilter

	value []byte // scratch of Fold
	key   []byte // scratch of Fold
}

// versionedClasses is the newest class table and since when it is so: asked
// for by every read, changed almost never.
type versionedClasses struct {
	since uint64
	table *ledger.ClassTable
}

// errOtherVersion reports read models of an older or newer build.
var errOtherVersion = errors.New("projector: the read models have another version")

// Open opens the read models in a folder, or begins new ones. What is there
// but damaged is moved aside, what has another version is removed, and both
// are rebuilt: Checkpoint then is at 0.
func Open(dir string, logger *slog.Logger) (*Projector, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	mark, err := openMark(filepath.Join(dir, "mark"))
	if err != nil {
		return nil, err
	}
	db := filepath.Join(dir, "pebble")
	p, err := open(db, mark, logger)
	if errors.Is(err, errOtherVersion) || errors.Is(err, ErrDamaged) {
		if err := giveWay(db, err, logger); err != nil {
			return nil, errors.Join(fmt.Errorf("projector: %w", err), mark.f.Close())
		}
		p, err = open(db, mark, logger)
	}
	if err != nil {
		return nil, errors.Join(err, mark.f.Close())
	}
	return p, nil
}

// giveWay makes room for new read models where there are some of no use.
func giveWay(db string, reason error, logger *slog.Logger) error {
	if errors.Is(reason, errOtherVersion) {
		logger.Info("read models of another version removed; they are rebuilt from the log", "reason", reason)
		return os.RemoveAll(db)
	}
	aside := fmt.Sprintf("%s.damaged-%d", db, time.Now().UnixNano())
	logger.Warn("read models set aside; they are rebuilt from the log", "error", reason, "moved_to", aside)
	return os.Rename(db, aside)
}

func open(dir string, mark *markFile, logger *slog.Logger) (*Projector, error) {
	cache := pebble.NewCache(cacheBytes)
	opts := options(cache, logger)
	opts.FS = patientFS(dir, logger)
	db, err := pebble.Open(dir, opts)
	if err != nil {
		cache.Unref()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOSPC) {
			return nil, fmt.Errorf("projector: open %s: %w", dir, err)
		}
		return nil, fmt.Errorf("%w: open %s: %w", ErrDamaged, dir, err)
	}
	p := &Projector{
		db: db, cache: cache, mark: mark, index: candidates.NewIndex(),
		changed: make(chan struct{}), stopped: make(chan struct{}),
	}
	if err := errors.Join(p.load(), p.loadIndex()); err != nil {
		return nil, errors.Join(err, p.closeDB())
	}
	p.idle.Go(func() { p.syncLoop(logger) })
	p.idle.Go(func() {
		if err := p.commands.load(p.View(), p.stopped); err != nil {
			logger.Error("command ids not read; each is looked for on disk", "error", err)
		}
	})
	return p, nil
}

func options(cache *pebble.Cache, logger *slog.Logger) *pebble.Options {
	opts := &pebble.Options{
		Cache:                       cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleLogger{logger},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// pebbleLogger passes Pebble's lines on; its routine ones are debug lines.
type pebbleLogger struct{ log *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...), "from", "pebble")
}

// Fatalf is called by Pebble when it cannot go on, and must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	panic("pebble: " + fmt.Sprintf(format, args...))
}

// load reads the checkpoint.
func (p *Projector) load() error {
	value, closer, err := p.db.Get([]byte{tableCheckpoint})
	if errors.Is(err, pebble.ErrNotFound) {
		p.tree = &proof.Tree{}
		return p.loadClasses()
	}
	if err != nil {
		return fmt.Errorf("%w: checkpoint: %w", ErrDamaged, err)
	}
	f := fields{data: value}
	version, sequence := f.uint(), f.uint()
	head := ledger.Head{Sequence: sequence}
	copy(head.Digest[:], f.take(uint64(len(head.Digest))))
	err = errors.Join(f.end("checkpoint"), closer.Close())
	if err != nil {
		return err
	}
	if version != schemaVersion {
		return fmt.Errorf("%w: %d, not %d", errOtherVersion, version, schemaVersion)
	}
	p.head = head
	p.sequence.Store(sequence)
	if p.tree, err = p.View().Tree(); err != nil {
		return err
	}
	return p.loadClasses()
}

func (p *Projector) loadClasses() error {
	v := p.View()
	value, since, found, err := v.version([]byte{tableClasses})
	if err != nil {
		return err
	}
	latest := &versionedClasses{table: ledger.NewClassTable(nil)}
	if found {
		if latest.table, err = readClasses(value); err != nil {
			return err
		}
		latest.since = since
	}
	p.classes.Store(latest)
	return nil
}

// Close syncs and closes the read models.
func (p *Projector) Close() error {
	close(p.stopped)
	p.idle.Wait()
	return errors.Join(p.closeDB(), p.mark.f.Close())
}

func (p *Projector) closeDB() error {
	err := p.db.Close()
	p.cache.Unref()
	return err
}

// Checkpoint is the position of the last folded commit.
func (p *Projector) Checkpoint() ledger.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head
}

// Mark is the position of the newest commit that was ever folded here. A log
// that ends before it has lost something.
func (p *Projector) Mark() ledger.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark.head
}

// Changed is closed when the next commit is folded. Take it before reading
// Checkpoint or View, and nothing is missed.
func (p *Projector) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Fold makes a durable commit readable. All of it appears at once, with the
// checkpoint in the same batch. The batch is not synced: what a crash takes
// away is read from the log again.
func (p *Projector) Fold(commit *ledger.Commit, changes ledger.Changes) error {
	batch := p.db.NewBatch()
	w := &writer{batch: batch, p: p, commit: commit, changes: &changes, grown: p.tree.Copy()}
	if err := w.all(); err != nil {
		return errors.Join(fmt.Errorf("projector: fold commit %d: %w", commit.Sequence, err), batch.Close())
	}
	p.mu.Lock()
	err := p.mark.set(commit.Head())
	p.mu.Unlock()
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	// Closed, the batch gives its memory back for the next one.
	if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
		return fmt.Errorf("projector: fold commit %d: %w", commit.Sequence, err)
	}
	if n := len(changes.Classes); n > 0 {
		p.classes.Store(&versionedClasses{since: commit.Sequence, table: changes.Classes[n-1].After})
	}
	p.mu.Lock()
	p.sequence.Store(commit.Sequence)
	p.index.Apply(changes.Providers)
	p.head, p.tree = commit.Head(), w.grown
	p.dirty = true
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	return nil
}

// Sync makes everything folded so far durable, so that the checkpoint can
// serve as a high-water mark of the log.
func (p *Projector) Sync() error {
	p.mu.Lock()
	dirty := p.dirty
	p.dirty = false
	p.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := errors.Join(p.db.LogData(nil, pebble.Sync), p.mark.f.Sync()); err != nil {
		return fmt.Errorf("projector: sync: %w", err)
	}
	return nil
}

func (p *Projector) syncLoop(logger *slog.Logger) {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-p.stopped:
			if err := p.Sync(); err != nil {
				logger.Error("read models not synced", "error", err)
			}
			return
		}
		if err := p.Sync(); err != nil {
			logger.Error("read models not synced", "error", err)
		}
	}
}

// Command finds the record of a command id.
func (p *Projector) Command(id ledger.UUID) (ledger.CommandResult, bool, error) {
	var result ledger.CommandResult
	if p.commands.excludes(id) {
		return result, false, nil
	}
	value, closer, err := p.db.Get(idKey(tableCommand, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return result, false, nil
	}
	if err != nil {
		return result, false, fmt.Errorf("%w: command: %w", ErrDamaged, err)
	}
	f := fields{data: value}
	result.Address = ledger.Address{Sequence: f.uint(), Index: int(f.uint())}
	copy(result.Fingerprint[:], f.take(uint64(len(result.Fingerprint))))
	return result, true, errors.Join(f.end("command"), closer.Close())
}

func appendCheckpoint(b []byte, head ledger.Head) []byte {
	b = binary.AppendUvarint(b, schemaVersion)
	b = binary.AppendUvarint(b, head.Sequence)
	return append(b, head.Digest[:]...)
}
