// Package store keeps the keys and values of read models in Pebble, in one folder. What Pebble
// finds wrong, or cannot do, ends the store and not the process: a condemned store answers
// nothing any more.
package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of a store.
var (
	// ErrDamaged means that read models cannot be read. They can be deleted, because
	// they are made again from the log.
	ErrDamaged = errors.New("projector: the read models are damaged")
	// ErrCondemned means that the read models are damaged and answer nothing any more. After
	// the next start of the server there are others.
	ErrCondemned = errors.New("projector: the read models are damaged; the server ends, and makes them again when it starts")
	// ErrClosed means that the read models were closed.
	ErrClosed = errors.New("projector: the read models are closed")
)

// Format is the version of Pebble's files that this build writes, and the only one that it reads.
const Format = uint64(pebble.FormatNewest)

const (
	cacheBytes    = 128 << 20
	memTableBytes = 32 << 20
	// upperLevels is the last level that is written fast rather than small.
	upperLevels = 2
	// lowerBlockBytes is the size of blocks in the lower levels, before compression.
	lowerBlockBytes = 64 << 10
	// closeWait is how long a close waits for readers, and for Pebble to close what is
	// condemned.
	closeWait = 5 * time.Second
)

// Files is a file system.
type Files = vfs.FS

// OnDisk is the file system of the machine.
var OnDisk = vfs.Default

// Batch is what is written at once.
type Batch = pebble.Batch

// Store is an open store. Once condemned, it answers nothing any more. Any number of
// goroutines may use it.
type Store struct {
	db     *pebble.DB
	cache  *pebble.Cache
	disk   *disk
	dir    string
	users  *users
	logger *slog.Logger
	slow   slowdown

	broken  chan struct{} // closed when it is condemned
	reason  atomic.Pointer[error]
	closing sync.Once
}

func newStore(files Files, dir string, logger *slog.Logger, stopped <-chan struct{}) *Store {
	s := &Store{
		dir: dir, cache: pebble.NewCache(cacheBytes), users: newUsers(), logger: logger, broken: make(chan struct{}),
	}
	s.slow.depth = func() int { return sublevels(s.db) }
	s.disk = &disk{FS: files, condemn: s.Condemn, stopped: stopped}
	return s
}

// Open opens the store in a folder, or begins a new one. A full disk is an error until Serve
// is called, and after that holds writes up, until stopped is closed.
func Open(files Files, dir string, logger *slog.Logger, stopped <-chan struct{}) (*Store, error) {
	return newStore(files, dir, logger, stopped).opened(false)
}

// OpenToRead opens a store that nothing has open, and changes none of its files.
func OpenToRead(dir string) (*Store, error) {
	return newStore(OnDisk, dir, slog.New(slog.DiscardHandler), nil).opened(true)
}

func (s *Store) opened(readOnly bool) (*Store, error) {
	if err := s.open(readOnly); err != nil {
		s.cache.Unref()
		return nil, errors.Join(s.Refused(err), s.disk.unlock())
	}
	return s, nil
}

// Serve has writes wait for space on a full disk from now on. It fails if one was refused before,
// perhaps in a goroutine of Pebble's own.
func (s *Store) Serve() error {
	if s.disk.serve() {
		return nil
	}
	return s.Refused(nil)
}

// Refused is why a store cannot be opened, or what is in it not be read before Serve. Where the
// disk has refused to write, for a reason that passes, that is all that is known, whatever Pebble
// made of it: an error of another kind, a panic, or the end of one of its goroutines. Nothing is
// damaged then.
func (s *Store) Refused(err error) error {
	if refused := s.disk.refusal(); refused != nil {
		return fmt.Errorf("projector: the read models cannot be opened now, and nothing was changed: %w", refused)
	}
	return err
}

// open opens Pebble. Files that Pebble cannot understand are damaged; errors of
// the operating system are no damage.
func (s *Store) open(readOnly bool) error {
	granted := newCompactions()
	opts := s.options()
	opts.ReadOnly, opts.Experimental.CompactionScheduler = readOnly, granted
	opts.DisableAutomaticCompactions = s.disk.inMemory()
	opened := make(chan error, 1)
	go func() { opened <- s.openPebble(opts) }()
	var err error
	select {
	case err = <-opened:
	case <-s.broken: // Pebble may wait for ever for a goroutine of its own that has ended
		err = s.Fault()
		go s.closeLate(opened)
	}
	if err == nil {
		granted.start()
		return nil
	}
	if passes(err) {
		return fmt.Errorf("projector: open %s: %w", s.dir, err)
	}
	return fmt.Errorf("%w: open %s: %w", ErrDamaged, s.dir, err)
}

// closeLate closes what is opened although it is condemned: nothing of it reaches the disk.
func (s *Store) closeLate(opened <-chan error) {
	defer func() { _ = recover() }() // Pebble panics where it finds a fault as it closes
	if err := <-opened; err == nil {
		_ = s.db.Close() // it is condemned
	}
}

func (s *Store) openPebble(opts *pebble.Options) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
	}()
	s.db, err = pebble.Open(s.dir, opts)
	return err
}

func (s *Store) options() *pebble.Options {
	opts := &pebble.Options{
		FS:                          s.disk,
		Cache:                       s.cache,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       compactSublevels,
		L0StopWritesThreshold:       stopSublevels,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      pebbleLogger{s},
		// Without a listener of its own, Pebble ends the process when it meets a
		// corrupt block.
		EventListener: &pebble.EventListener{
			DataCorruption:  func(info pebble.DataCorruptionInfo) { s.Condemn(fmt.Errorf("%s: %w", info.Path, info.Details)) },
			BackgroundError: func(err error) { s.Condemn(err) },
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

// enter keeps the store open until users.leave.
func (s *Store) enter() error {
	if err := s.Fault(); err != nil {
		return err
	}
	if !s.users.enter() {
		return ErrClosed
	}
	return nil
}

// Use lets do use Pebble itself, which stays open meanwhile. What it panics about is damage.
func (s *Store) Use(do func(db *pebble.DB) error) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.users.leave()
	defer s.recovered(&err)
	return do(s.db)
}

// Get lets read see the value of a key, which must not be kept or changed. What it finds
// wrong, an ErrDamaged, condemns the store.
func (s *Store) Get(key []byte, read func(value []byte) error) (found bool, err error) {
	err = s.Use(func(db *pebble.DB) error {
		value, closer, err := db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return s.Fault()
		}
		found = true
		if err != nil {
			return s.Broke(err)
		}
		err = read(value)
		if closing := closer.Close(); err == nil && closing != nil {
			err = s.Broke(closing)
		}
		return s.Judged(err)
	})
	return found, err
}

// Write writes what fill puts into a batch, all of it or nothing, and calls written. It is not
// synced. If fill fails, nothing is written, and its error returned. While the store takes more
// than it can compact, Write then waits, unless stopped is closed.
func (s *Store) Write(fill func(*Batch) error, written func(), stopped <-chan struct{}) error {
	return s.Use(func(db *pebble.DB) error {
		batch := db.NewBatch()
		if err := fill(batch); err != nil {
			return errors.Join(err, batch.Close())
		}
		bytes := batch.Len()
		// Close returns the batch's memory for the next batch.
		if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
			return s.Broke(fmt.Errorf("write: %w", err))
		}
		written()
		s.slow.wrote(bytes, stopped)
		return nil
	})
}

// Sync makes durable what was written before.
func (s *Store) Sync() error {
	return s.Use(func(db *pebble.DB) error {
		if err := db.LogData(nil, pebble.Sync); err != nil {
			return s.Broke(fmt.Errorf("sync: %w", err))
		}
		return s.Fault()
	})
}

// Flush moves what is in memory to tables.
func (s *Store) Flush() error {
	return s.Use(func(db *pebble.DB) error {
		if err := db.Flush(); err != nil {
			return s.Broke(fmt.Errorf("flush: %w", err))
		}
		return nil
	})
}

// Copy writes a copy into a folder that does not exist yet, on the same disk: its files are
// links, and take no room until the store has changed. Nothing may be written meanwhile.
func (s *Store) Copy(dir string) error {
	return s.Use(func(db *pebble.DB) error {
		if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
			return fmt.Errorf("projector: copy: %w", err)
		}
		// What was written after it was condemned never reached the disk.
		return s.Fault()
	})
}

// Full reports whether the store waits for space on its disk, or was opened without it.
func (s *Store) Full() bool { return s.disk.full.Load() || s.InMemory() }

// InMemory reports whether the disk was full when the store was opened: what is written now is in
// memory only.
func (s *Store) InMemory() bool { return s.disk.inMemory() }

// Close closes the store once it is not in use, and releases its folder in any case. It takes at
// most some seconds if the store is condemned, or readers stay.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		closed := make(chan error, 1)
		go func() {
			<-s.users.close()
			closed <- s.closeDB()
		}()
		if s.Fault() == nil {
			// A regular close may take as long as a sync, unless readers stay.
			select {
			case <-s.users.gone:
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
		s.disk.dead.Store(true)
		err = errors.Join(err, s.disk.unlock())
	})
	return err
}

func (s *Store) closeDB() (err error) {
	defer s.recovered(&err)
	err = s.db.Close()
	s.cache.Unref()
	return err
}

// users counts the readers and writers of read models, so that these are not
// closed while they are in use.
type users struct {
	n    atomic.Int64 // negative: no user may enter any more
	gone chan struct{}
	once sync.Once
}

const leaving = math.MinInt64

func newUsers() *users { return &users{gone: make(chan struct{})} }

// enter reports whether the read models can still be used. After true the caller
// must leave.
func (u *users) enter() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.leave()
	return false
}

func (u *users) leave() {
	if u.n.Add(-1) == leaving {
		u.once.Do(func() { close(u.gone) })
	}
}

// close lets no user enter any more. It returns a channel that is closed when all have
// left.
func (u *users) close() <-chan struct{} {
	if u.n.Load() >= 0 && u.n.Add(leaving) == leaving {
		u.once.Do(func() { close(u.gone) })
	}
	return u.gone
}

// Stats are Pebble's statistics of the read models' files.
type Stats struct {
	// DiskBytes is the size of all files, WALBytes the part in the write-ahead
	// log that is not in tables yet.
	DiskBytes, WALBytes uint64
	// CacheHits and CacheMisses count the blocks that were found in memory, and
	// those that were not.
	CacheHits, CacheMisses int64
	// Compactions and Flushes count those since the start; DebtBytes is how many
	// bytes wait for compaction.
	Compactions, Flushes int64
	DebtBytes            uint64
	// ReadAmplification is how many tables one read may have to search.
	ReadAmplification int
	// HeldUp is how long writes were held up because more came than is compacted.
	HeldUp time.Duration
}

// Stats returns Pebble's present statistics; zeros once the store is closed.
func (s *Store) Stats() Stats {
	if !s.users.enter() {
		return Stats{}
	}
	defer s.users.leave()
	now := s.db.Metrics()
	return Stats{
		DiskBytes: now.DiskSpaceUsage(), WALBytes: now.WAL.Size,
		CacheHits: now.BlockCache.Hits, CacheMisses: now.BlockCache.Misses,
		Compactions: now.Compact.Count, Flushes: now.Flush.Count, DebtBytes: now.Compact.EstimatedDebt,
		ReadAmplification: now.ReadAmp(), HeldUp: time.Duration(s.slow.held.Load()),
	}
}
