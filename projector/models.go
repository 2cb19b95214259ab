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

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/candidates"
	"github.com/allot-project/allot/projector/store"
)

// schemaVersion is the version of the read models' form. Those of another version
// are removed, and made again.
const schemaVersion = 1

// models are read models in one folder, with what is kept in memory beside them.
// Once condemned, they answer nothing any more.
type models struct {
	*store.Store

	replaced chan struct{} // closed when others were put in their place
	stopped  chan struct{}
	closing  sync.Once
	idle     sync.WaitGroup

	sequence atomic.Uint64 // head of the newest folded commit; the newest View's
	classes  atomic.Pointer[versionedClasses]
	past     pastWorlds
	commands commandFilter

	mu     sync.Mutex
	index  *candidates.Index // head of the newest folded commit; guarded by mu
	head   ledger.Head       // guarded by mu
	synced ledger.Head       // guarded by mu
	tree   *proof.Tree       // Merkle tree of all records folded; replaced under mu, never changed

	value       []byte               // scratch of fold
	key         []byte               // scratch of fold
	left, taken []ledger.UUID        // scratch of fold
	amounts     []ledger.ClassAmount // scratch of fold
	// recent and older are the newest amounts by their keys, those used last in recent; of fold
	recent, older map[string]*runs
}

// versionedClasses is the newest class table, with the sequence since which it
// holds. Every read asks for it, and it almost never changes.
type versionedClasses struct {
	since uint64
	table *ledger.ClassTable
}

// errOtherVersion means that the read models are of an older or newer build.
var errOtherVersion = errors.New("projector: the read models have another version")

func newModels(kept *store.Store) *models {
	return &models{
		Store: kept, recent: make(map[string]*runs), index: candidates.NewIndex(), tree: &proof.Tree{},
		replaced: make(chan struct{}), stopped: make(chan struct{}), past: pastWorlds{building: make(chan struct{}, 1)},
	}
}

// openModels opens read models or begins new ones. Once stopped is closed, no
// write waits for space on the disk any more.
func openModels(files store.Files, dir string, logger *slog.Logger, stopped <-chan struct{}) (*models, error) {
	unflushed := walBytes(files, dir)
	kept, err := store.Open(files, dir, logger, stopped)
	if err != nil {
		return nil, err
	}
	m := newModels(kept)
	err = m.load()
	if err == nil {
		err = m.checkSeam(unflushed)
	}
	if err == nil {
		err = m.loadIndex()
	}
	if err == nil {
		err = m.Serve()
	}
	if err != nil {
		return nil, errors.Join(m.Refused(err), m.close())
	}
	m.synced = m.head
	m.idle.Go(func() {
		if err := m.commands.load(m.view(), m.stopped, time.Now()); err != nil {
			logger.Error("command ids could not be read; each one is looked up on disk", "error", err)
		}
	})
	return m, nil
}

func (m *models) view() View { return View{p: m, sequence: m.sequence.Load()} }

func (m *models) load() error {
	var version uint64
	var head ledger.Head
	var edge []ledger.Digest
	found, err := m.Get([]byte{tableCheckpoint}, func(value []byte) error {
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
func walBytes(files store.Files, dir string) (total int64) {
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
	it, err := m.Iterate([]byte{tableCommit}, []byte{tableCommit + 1})
	if err != nil {
		return err
	}
	if !it.Last() || binary.BigEndian.Uint64(it.Key()[1:]) != m.head.Sequence {
		return it.Finish(fmt.Errorf("%w: commit %d is missing", ErrDamaged, m.head.Sequence))
	}
	for next, err := readSpan(it); ; {
		if err != nil || unflushed < 0 || next.before == 0 {
			return it.Finish(err)
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
		err = m.Close()
	})
	return err
}

// fold makes a commit readable: all of it at once, with the checkpoint in the
// same batch.
func (m *models) fold(commit *ledger.Commit, changes *ledger.Changes) error {
	m.forget()
	var grown *proof.Tree
	return m.Write(func(batch *store.Batch) error {
		w := &writer{batch: batch, p: m, commit: commit, changes: changes, grown: m.tree.Copy()}
		if err := w.all(); err != nil {
			m.recent, m.older = make(map[string]*runs), nil // they may be ahead of what is written
			return fmt.Errorf("projector: fold commit %d: %w", commit.Sequence, err)
		}
		grown = w.grown
		return nil
	}, func() {
		if n := len(changes.Classes); n > 0 {
			m.classes.Store(&versionedClasses{since: commit.Sequence, table: changes.Classes[n-1].After})
		}
		m.advance(commit, changes, grown)
	}, m.stopped)
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
func (m *models) sync() error {
	m.mu.Lock()
	head, synced := m.head, m.synced
	m.mu.Unlock()
	if head == synced {
		return nil
	}
	if err := m.Sync(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = head
	return nil
}

func appendCheckpoint(b []byte, head ledger.Head, tree *proof.Tree) []byte {
	b = binary.AppendUvarint(b, schemaVersion)
	b = binary.AppendUvarint(b, head.Sequence)
	return appendHashes(append(b, head.Digest[:]...), tree.Edge())
}
