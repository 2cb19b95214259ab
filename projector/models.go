package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/candidates"
)

// schemaVersion is the version of the read models' form. Those of another version
// are removed, and made again.
const schemaVersion = 1

const (
	cacheBytes    = 128 << 20
	memTableBytes = 32 << 20
	// upperLevels is the last level that is written fast rather than small.
	upperLevels = 2
	// lowerBlockBytes is the size of blocks in the lower levels, before compression.
	lowerBlockBytes = 64 << 10
	// closeWait is how long a close waits for readers of the read models, and for
	// Pebble to close condemned ones.
	closeWait = 5 * time.Second
)

// models are read models in one folder, with what is kept in memory beside them.
// Once condemned, they answer nothing any more.
type models struct {
	db     *pebble.DB
	cache  *pebble.Cache
	disk   *disk
	users  *users
	logger *slog.Logger

	broken   chan struct{} // closed when they are condemned
	replaced chan struct{} // closed when others were put in their place
	reason   atomic.Pointer[error]
	stopped  chan struct{}
	closing  sync.Once
	idle     sync.WaitGroup

	sequence atomic.Uint64 // head of the newest folded commit; the newest View's
	classes  atomic.Pointer[versionedClasses]
	past     pastWorlds
	commands commandFilter
	slow     slowdown

	mu     sync.Mutex
	index  *candidates.Index // head of the newest folded commit; guarded by mu
	head   ledger.Head       // guarded by mu
	synced ledger.Head       // guarded by mu
	tree   *proof.Tree       // Merkle tree of all records folded; replaced under mu, never changed

	value       []byte               // scratch of fold
	key         []byte               // scratch of fold
	left, taken []ledger.UUID        // scratch of fold
	amounts     []ledger.ClassAmount // scratch of fold
	recent      map[string]*runs     // newest amounts by their keys; of fold
}

// versionedClasses is the newest class table, with the sequence since which it
// holds. Every read asks for it, and it almost never changes.
type versionedClasses struct {
	since uint64
	table *ledger.ClassTable
}

// errOtherVersion means that the read models are of an older or newer build.
var errOtherVersion = errors.New("projector: the read models have another version")

func newModels(files vfs.FS, logger *slog.Logger, stopped <-chan struct{}) *models {
	m := &models{
		cache: pebble.NewCache(cacheBytes),
		users: newUsers(), recent: make(map[string]*runs), logger: logger, index: candidates.NewIndex(), tree: &proof.Tree{},
		broken: make(chan struct{}), replaced: make(chan struct{}), stopped: make(chan struct{}),
		past: pastWorlds{building: make(chan struct{}, 1)},
	}
	m.slow.depth = func() int { return sublevels(m.db) }
	m.disk = &disk{FS: files, condemn: m.condemn, stopped: stopped}
	return m
}

// openModels opens read models or begins new ones. Once stopped is closed, no
// write waits for space on the disk any more.
func openModels(files vfs.FS, dir string, logger *slog.Logger, stopped <-chan struct{}) (*models, error) {
	m := newModels(files, logger, stopped)
	unflushed := walBytes(files, dir)
	if err := m.open(dir, false); err != nil {
		m.cache.Unref()
		return nil, errors.Join(m.reasonOf(err), m.disk.unlock())
	}
	err := m.load()
	if err == nil {
		err = m.checkSeam(unflushed)
	}
	if err == nil {
		err = m.loadIndex()
	}
	if err != nil {
		return nil, errors.Join(m.reasonOf(err), m.close())
	}
	m.synced = m.head
	m.disk.serving.Store(true)
	m.idle.Go(func() {
		if err := m.commands.load(m.view(), m.stopped, time.Now()); err != nil {
			logger.Error("command ids could not be read; each one is looked up on disk", "error", err)
		}
	})
	return m, nil
}

// reasonOf is why read models cannot be opened. Where the disk has refused to write, for
// a reason that passes, that is all that is known, whatever Pebble made of it: an error of
// another kind, a panic, or the end of one of its goroutines. Nothing is damaged then.
func (m *models) reasonOf(err error) error {
	if refused := m.disk.refused.Load(); refused != nil {
		return fmt.Errorf("projector: the read models cannot be opened now, and nothing was changed: %w", *refused)
	}
	return err
}

// open opens Pebble. Files that Pebble cannot understand are damaged; errors of
// the operating system are no damage.
func (m *models) open(dir string, readOnly bool) error {
	granted := newCompactions()
	opts := m.options()
	opts.ReadOnly, opts.Experimental.CompactionScheduler = readOnly, granted
	opts.DisableAutomaticCompactions = m.disk.inMemory()
	opened := make(chan error, 1)
	go func() { opened <- m.openPebble(dir, opts) }()
	var err error
	select {
	case err = <-opened:
	case <-m.broken: // Pebble may wait for ever for a goroutine of its own that has ended
		err = m.fault()
		go m.closeLate(opened)
	}
	if err == nil {
		return nil
	}
	granted.stop()
	if passes(err) {
		return fmt.Errorf("projector: open %s: %w", dir, err)
	}
	return fmt.Errorf("%w: open %s: %w", ErrDamaged, dir, err)
}

// closeLate closes what is opened although it is condemned: nothing of it reaches the disk.
func (m *models) closeLate(opened <-chan error) {
	defer func() { _ = recover() }() // Pebble panics where it finds a fault as it closes
	if err := <-opened; err == nil {
		_ = m.db.Close() // it is condemned
	}
}

func (m *models) openPebble(dir string, opts *pebble.Options) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
	}()
	m.db, err = pebble.Open(dir, opts)
	return err
}

func (m *models) options() *pebble.Options {
	opts := &pebble.Options{
		FS:                          m.disk,
		Cache:                       m.cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       compactSublevels,
		L0StopWritesThreshold:       stopSublevels,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleLogger{m},
		// Without a listener of its own, Pebble ends the process when it meets a
		// corrupt block.
		EventListener: &pebble.EventListener{
			DataCorruption:  func(info pebble.DataCorruptionInfo) { m.condemn(fmt.Errorf("%s: %w", info.Path, info.Details)) },
			BackgroundError: func(err error) { m.condemn(err) },
		},
	}
	// Nearly everything is in the lower levels. Compactions have time for them: zstd over
	// large blocks takes a quarter less room than what the upper levels have. Nearly every
	// key that is looked up is in the last level, if it is in none above: a filter there, of
	// 10 bits a key, would save no look.
	last := len(opts.Levels) - 1
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		if i > upperLevels {
			opts.Levels[i].BlockSize = lowerBlockBytes
			opts.Levels[i].Compression = func() *block.CompressionProfile { return block.ZstdCompression }
		}
	}
	opts.Levels[last].FilterPolicy = pebble.NoFilterPolicy
	return opts
}

// pebbleLogger passes Pebble's lines on. Its routine lines become debug messages.
type pebbleLogger struct{ m *models }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.m.logger.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.m.logger.Error(fmt.Sprintf(format, args...), "from", "pebble")
}

// enter keeps the read models open until users.leave.
func (m *models) enter() error {
	if err := m.fault(); err != nil {
		return err
	}
	if !m.users.enter() {
		return ErrClosed
	}
	return nil
}

func (m *models) view() View { return View{p: m, sequence: m.sequence.Load()} }

// load reads the checkpoint.
func (m *models) load() error {
	var version uint64
	var head ledger.Head
	var edge []ledger.Digest
	found, err := m.get([]byte{tableCheckpoint}, func(value []byte) error {
		f := fields{data: value}
		version, head.Sequence = f.uint(), f.uint()
		copy(head.Digest[:], f.take(uint64(len(head.Digest))))
		for len(f.data) > 0 {
			edge = append(edge, ledger.Digest(f.take(uint64(len(head.Digest)))))
		}
		return f.end("checkpoint")
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if !found {
		return m.loadClasses()
	}
	if version != schemaVersion {
		return fmt.Errorf("%w: %d, not %d", errOtherVersion, version, schemaVersion)
	}
	m.head = head
	m.sequence.Store(head.Sequence)
	if m.tree, err = m.loadTree(edge); err != nil {
		return err
	}
	return m.loadClasses()
}

// walBytes is how many bytes of the read models at most are in Pebble's
// write-ahead logs only.
func walBytes(files vfs.FS, dir string) (total int64) {
	names, err := files.List(dir)
	if err != nil {
		return 0 // there are none, or Open reports the error
	}
	for _, name := range names {
		if info, err := files.Stat(files.PathJoin(dir, name)); err == nil && strings.HasSuffix(name, ".log") {
			total += info.Size()
		}
	}
	return total
}

// checkSeam checks that the contents of the write-ahead logs follow upon those of
// the tables. Pebble takes a damaged record of its manifest for the manifest's
// end and forgets the tables that are named after it, so that commits before
// those of the write-ahead logs would be missing. It reads back from the end,
// until it has seen more than the write-ahead logs can hold.
func (m *models) checkSeam(unflushed int64) error {
	if m.head.Sequence == 0 {
		return nil
	}
	it, err := m.cursor([]byte{tableCommit}, []byte{tableCommit + 1})
	if err != nil {
		return err
	}
	if !it.Last() || binary.BigEndian.Uint64(it.Key()[1:]) != m.head.Sequence {
		return finish(it, fmt.Errorf("%w: commit %d is missing", ErrDamaged, m.head.Sequence))
	}
	for next, err := readSpan(it); ; {
		if err != nil || unflushed < 0 || next.before == 0 {
			return finish(it, err)
		}
		unflushed -= int64(len(it.Key()) + len(it.Value()))
		var before span
		before, err = spanBefore(it)
		if err == nil && !next.follows(before) {
			err = fmt.Errorf("%w: a commit before %d is missing", ErrDamaged, next.sequence)
		}
		next = before
	}
}

func (m *models) loadClasses() error {
	v := m.view()
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
	m.classes.Store(latest)
	return nil
}

// close closes the read models once they are not in use, and releases their
// folder in any case.
func (m *models) close() (err error) {
	m.closing.Do(func() {
		close(m.stopped)
		m.idle.Wait()
		closed := make(chan error, 1)
		go func() {
			<-m.users.close()
			closed <- m.closeDB()
		}()
		if m.fault() == nil {
			// A regular close may take as long as a sync, unless readers stay.
			select {
			case <-m.users.gone:
				err = <-closed
				return
			case <-time.After(closeWait):
			}
		}
		select {
		case err = <-closed:
		case <-time.After(closeWait):
			err = errors.New("projector: the read models are still being read, or Pebble does not close; their memory is not released")
		}
		m.disk.dead.Store(true)
		err = errors.Join(err, m.disk.unlock())
	})
	return err
}

func (m *models) closeDB() (err error) {
	defer m.recovered(&err)
	err = m.db.Close()
	m.cache.Unref()
	return err
}

// fold makes a commit readable: all of it at once, with the checkpoint in the
// same batch. It calls seen before that, when it is clear that the commit can be
// folded.
func (m *models) fold(commit *ledger.Commit, changes *ledger.Changes, seen func(ledger.Head) error) (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	m.forget()
	batch := m.db.NewBatch()
	w := &writer{batch: batch, p: m, commit: commit, changes: changes, grown: m.tree.Copy()}
	if err := w.all(); err != nil {
		m.recent = make(map[string]*runs) // it may be ahead of what is written
		return errors.Join(fmt.Errorf("projector: fold commit %d: %w", commit.Sequence, err), batch.Close())
	}
	if err := seen(commit.Head()); err != nil {
		return errors.Join(m.broke(err), batch.Close())
	}
	bytes := batch.Len()
	// Close returns the batch's memory for the next batch.
	if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
		return m.broke(fmt.Errorf("fold commit %d: %w", commit.Sequence, err))
	}
	if n := len(changes.Classes); n > 0 {
		m.classes.Store(&versionedClasses{since: commit.Sequence, table: changes.Classes[n-1].After})
	}
	m.advance(commit, changes, w.grown)
	m.slow.wrote(bytes, m.stopped)
	return nil
}

// advance has readers see a folded commit.
func (m *models) advance(commit *ledger.Commit, changes *ledger.Changes, grown *proof.Tree) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sequence.Store(commit.Sequence)
	m.index.Apply(changes.Providers)
	m.head, m.tree = commit.Head(), grown
}

// sync makes everything folded so far durable. If it fails, the next sync covers
// it.
func (m *models) sync(also func() error) (err error) {
	m.mu.Lock()
	head, synced := m.head, m.synced
	m.mu.Unlock()
	if head == synced {
		return nil
	}
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	if err := errors.Join(m.db.LogData(nil, pebble.Sync), also()); err != nil {
		return m.broke(fmt.Errorf("sync: %w", err))
	}
	if err := m.fault(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = head
	return nil
}

// checkpoint returns the head of the last folded commit.
func (m *models) checkpoint() ledger.Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head
}

func appendCheckpoint(b []byte, head ledger.Head, tree *proof.Tree) []byte {
	b = binary.AppendUvarint(b, schemaVersion)
	b = binary.AppendUvarint(b, head.Sequence)
	return appendHashes(append(b, head.Digest[:]...), tree.Edge())
}
