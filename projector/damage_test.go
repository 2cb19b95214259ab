package projector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/store"
)

const damagedCommits = 40

// trial is a log: its commits with their changes, and the digest of its read models.
type trial struct {
	commits []*ledger.Commit
	changes []ledger.Changes
	log     *memlog.Log
	want    ledger.Digest
}

var quiet = slog.New(slog.DiscardHandler)

func newTrial(t *testing.T) *trial {
	t.Helper()
	tr := &trial{commits: ledgertest.Commits(t, damagedCommits), log: &memlog.Log{}}
	state := ledger.NewState()
	for _, c := range tr.commits {
		changes := ledgertest.Must(state.Fold(c))
		tr.changes = append(tr.changes, changes)
	}
	ledgertest.AppendCommits(t, tr.log, tr.commits)
	p := tr.open(t, vfs.NewMem())
	tr.foldTo(t, p, damagedCommits)
	tr.want = tr.digest(t, p)
	ledgertest.OK(t, p.Close())
	return tr
}

// process is the Projector of a server that ends when its read models are damaged, and
// whose supervisor starts it again.
type process struct {
	*Projector
	files  vfs.FS
	dir    string
	starts int
}

// open starts a process with read models on a file system.
func (tr *trial) open(t *testing.T, files vfs.FS) *process {
	t.Helper()
	return tr.openIn(t, files, t.TempDir())
}

func (tr *trial) openIn(t *testing.T, files vfs.FS, dir string) *process {
	t.Helper()
	p := &process{files: files, dir: dir}
	tr.start(t, p)
	return p
}

func (tr *trial) start(t *testing.T, p *process) {
	t.Helper()
	var err error
	p.Projector, err = openOn(rooted{p.files}, p.dir, quiet)
	ledgertest.OK(t, err)
	p.starts++
}

// startAgain ends a process whose read models are condemned, and starts it again with what it had folded.
func (tr *trial) startAgain(t *testing.T, p *process) {
	t.Helper()
	if err := p.Await(); !errors.Is(err, ErrCondemned) {
		t.Fatalf("the server would not end: %v", err)
	}
	last := p.Checkpoint().Sequence
	if err := p.Close(); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, fs.ErrClosed) {
		t.Fatal(err)
	}
	tr.start(t, p)
	tr.foldTo(t, p, last)
}

// foldTo folds the missing commits, up to a sequence.
func (tr *trial) foldTo(t *testing.T, p *process, last uint64) {
	t.Helper()
	for next := p.Checkpoint().Sequence + 1; next <= last; next = p.Checkpoint().Sequence + 1 {
		switch err := p.Fold(tr.commits[next-1], tr.changes[next-1]); {
		case errors.Is(err, ErrCondemned):
			tr.startAgain(t, p)
		case err != nil:
			t.Fatal(err)
		}
	}
}

// digest reads everything, if need be after another start.
func (tr *trial) digest(t *testing.T, p *process) ledger.Digest {
	t.Helper()
	for {
		sum, err := p.Digest()
		if err == nil {
			return sum
		}
		if !errors.Is(err, ErrCondemned) {
			t.Fatal(err)
		}
		tr.startAgain(t, p)
	}
}

// check folds the rest and compares all answers.
func (tr *trial) check(t *testing.T, p *process, what string) {
	t.Helper()
	for {
		tr.foldTo(t, p, damagedCommits)
		if got := tr.digest(t, p); got != tr.want {
			t.Fatalf("%s: another digest", what)
		}
		world, view := p.World()
		v, found, err := view.Provider(ledgertest.ID(1, 1))
		if errors.Is(err, ErrCondemned) { // Pebble has met it just now, by itself
			tr.startAgain(t, p)
			continue
		}
		if err != nil || !found || world.Len() != 1 {
			t.Fatalf("%s: %v, %v, %v", what, v, found, err)
		}
		return
	}
}

// rooted puts the read models of every test at one place in a file system.
type rooted struct{ vfs.FS }

// small returns closed read models of the first commits, with tables of several levels and a write-ahead log.
func (tr *trial) small(t *testing.T) (files *vfs.MemFS, dir string) {
	t.Helper()
	files, dir = vfs.NewMem(), t.TempDir()
	p := tr.openIn(t, files, dir)
	for _, last := range []uint64{12, 24, 34} {
		ledgertest.OK(t, p.models.Load().Flush())
		tr.foldTo(t, p, last)
	}
	ledgertest.OK(t, p.Close())
	return files, dir
}

// clone copies the read models of a folder into another file system.
func clone(t *testing.T, from vfs.FS, dir string) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	ledgertest.OK(t, to.MkdirAll(dir, 0o700))
	_, err := vfs.Clone(from, to, dir, dir)
	ledgertest.OK(t, err)
	return to
}

// spot is one byte of a file.
type spot struct {
	path string
	at   int64
}

func (s spot) String() string { return fmt.Sprintf("byte %d of %s", s.at, path.Base(s.path)) }

// spots are bytes of all files in a folder, evenly spread over each.
func spots(t *testing.T, files vfs.FS, dir string) (list []spot) {
	t.Helper()
	names := ledgertest.Must(files.List(dir))
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := files.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Pebble has removed it meanwhile
		}
		ledgertest.OK(t, err)
		each := max(1, info.Size()*int64(len(names))/int64(ledgertest.Cases(300, 60)))
		for at := int64(0); at < info.Size(); at += each {
			list = append(list, spot{p, at})
		}
	}
	return list
}

func flip(t *testing.T, files vfs.FS, s spot) {
	t.Helper()
	f, err := files.OpenReadWrite(s.path, vfs.WriteCategoryUnspecified)
	if errors.Is(err, fs.ErrNotExist) {
		return // Pebble has removed it meanwhile
	}
	ledgertest.OK(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], s.at)
	b[0] ^= 1 << (s.at % 8)
	_, writeErr := f.WriteAt(b[:], s.at)
	ledgertest.OK(t, err, writeErr, f.Close())
}

// atRest damages closed read models, at one spot after the other. They open with the same answers, or
// are made again with the same answers.
func atRest(t *testing.T, damage func(files vfs.FS, i int, s spot)) {
	t.Helper()
	tr := newTrial(t)
	files, dir := tr.small(t)
	for i, s := range spots(t, files, path.Join(dir, "pebble")) {
		broken := clone(t, files, path.Join(dir, "pebble"))
		damage(broken, i, s)
		p := tr.openIn(t, broken, dir)
		tr.check(t, p, s.String())
		ledgertest.OK(t, p.Close())
	}
}

// TestFlippedAtRest changes bytes of every file of read models, one at a time.
func TestFlippedAtRest(t *testing.T) {
	t.Parallel()
	atRest(t, func(files vfs.FS, _ int, s spot) { flip(t, files, s) })
}

// TestCutOrMissing is TestFlippedAtRest for files that were cut or deleted.
func TestCutOrMissing(t *testing.T) {
	t.Parallel()
	atRest(t, func(files vfs.FS, i int, s spot) {
		if i%8 != 0 {
			cut(t, files, s)
		} else if err := files.Remove(s.path); err != nil {
			t.Fatal(err)
		}
	})
}

// cut keeps only the bytes of a file before a spot.
func cut(t *testing.T, files vfs.FS, s spot) {
	t.Helper()
	f := ledgertest.Must(files.Open(s.path))
	kept := make([]byte, s.at)
	if _, err := f.ReadAt(kept, 0); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	shorter, err := files.Create(s.path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = shorter.Write(kept)
	}
	ledgertest.OK(t, err, f.Close(), shorter.Close())
}

// TestFlippedWhileOpen is TestFlippedAtRest for damage that comes while the read models
// are open, and that some reader meets, or none. The next start works, too.
func TestFlippedWhileOpen(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	files, dir := tr.small(t)
	rebuilt := 0
	trials := ledgertest.Cases(100, 12)
	for n := range trials {
		broken := clone(t, files, path.Join(dir, "pebble"))
		p := tr.openIn(t, broken, dir)
		// Opening them made new files, and Pebble may be making others.
		list := spots(t, broken, path.Join(dir, "pebble"))
		s := list[n*len(list)/trials]
		if _, err := broken.Stat(s.path); err != nil {
			ledgertest.OK(t, p.Close())
			continue
		}
		flip(t, broken, s)
		tr.check(t, p, s.String())
		// Only the background search reads from the disk what is in Pebble's cache,
		// and it leaves out what was compacted away.
		search := func() {
			ledgertest.OK(t, p.CheckFiles(t.Context(), rate.NewLimiter(rate.Inf, 0), func(error) {}, func(int64) {}))
			tr.check(t, p, s.String()+", searched")
		}
		if n%2 == 0 {
			search()
		}
		compact(t, p.models.Load())
		tr.check(t, p, s.String()+", compacted")
		search()
		if p.starts > 1 {
			rebuilt++
		}
		ledgertest.OK(t, p.Close())
		p = tr.openIn(t, broken, dir)
		tr.check(t, p, s.String()+", after a restart")
		ledgertest.OK(t, p.Close())
	}
	if rebuilt == 0 {
		t.Error("no damage was ever met: the test damages nothing")
	}
}

// compact makes Pebble rewrite everything, as long as the read models are good.
func compact(t *testing.T, m *models) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-m.Broken():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := m.Use(func(db *pebble.DB) error { return db.Compact(ctx, []byte{0}, []byte{0xff}, false) })
	if err != nil && m.Fault() == nil {
		t.Fatal(err)
	}
}

// flush makes Pebble write folded commits to a table, as long as the read models are good.
func flush(t *testing.T, m *models) {
	t.Helper()
	err := m.Use(func(db *pebble.DB) error {
		flushed, err := db.AsyncFlush()
		if err != nil {
			return err
		}
		select {
		case <-flushed:
		case <-m.Broken():
		}
		return nil
	})
	if err != nil && m.Fault() == nil {
		t.Fatal(err)
	}
}

// faults makes operations on files fail.
type faults struct {
	kind  errorfs.OpReadWrite
	count atomic.Int64 // operations of this kind so far
	first atomic.Int64 // the first one that fails
	until atomic.Int64 // the first one that succeeds again
	err   error
}

// failing makes operations of a kind fail, so many of them from the first on.
func failing(kind errorfs.OpReadWrite, err error, first, many int64) *faults {
	f := &faults{kind: kind, err: err}
	f.first.Store(first)
	f.until.Store(first + many)
	return f
}

// always is more operations than there are.
const always = 1 << 40

func (f *faults) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != f.kind || op.Kind == errorfs.OpFileClose {
		return nil
	}
	if n := f.count.Add(1); n >= f.first.Load() && n < f.until.Load() {
		return f.err
	}
	return nil
}

func (f *faults) String() string { return f.err.Error() }

// TestDiskErrors makes each n-th write, sync, rename or read of a running ledger fail with an I/O error. Nothing
// panics, every commit is folded, and the answers are right.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	for _, kind := range []errorfs.OpReadWrite{errorfs.OpIsWrite, errorfs.OpIsRead} {
		healed := 0
		for n := int64(1); ; n += int64(ledgertest.Cases(3, 10)) {
			f := failing(kind, syscall.EIO, 0, 0)
			p := tr.open(t, errorfs.Wrap(vfs.NewMem(), f))
			begun := f.count.Load()
			f.first.Store(begun + n)
			f.until.Store(begun + n + 1 + n%3)
			for _, last := range []uint64{10, 20, 30, damagedCommits} {
				tr.foldTo(t, p, last)
				if err := p.Sync(); err != nil && !errors.Is(err, ErrCondemned) {
					t.Fatal(err)
				}
				flush(t, p.models.Load())
				tr.digest(t, p)
			}
			tr.check(t, p, fmt.Sprint(kind, " fail from the ", n, "th on"))
			if p.starts > 1 {
				healed++
			}
			met := f.count.Load() >= f.first.Load()
			if err := p.Close(); err != nil && !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			if !met {
				break
			}
		}
		if healed == 0 {
			t.Errorf("no failure of %s was ever met", kind)
		}
	}
}

// TestFullDisk: writes wait for space, reads go on, and nothing is condemned.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	f := failing(errorfs.OpIsWrite, syscall.ENOSPC, 0, 0)
	p := tr.open(t, errorfs.Wrap(vfs.NewMem(), f))
	tr.foldTo(t, p, 10)
	f.until.Store(1 << 62)
	synced := make(chan error, 1)
	tr.foldTo(t, p, 20)
	go func() { synced <- p.Sync() }()
	ledgertest.WaitFor(t, "a write that waits for space", p.Full)
	if _, found, err := p.View().Provider(ledgertest.ID(1, 1)); err != nil || !found {
		t.Errorf("while the disk is full: %v, %v", found, err)
	}
	f.until.Store(0)
	ledgertest.OK(t, <-synced)
	tr.check(t, p, "after there was space again")
	if p.starts > 1 || p.Full() {
		t.Error("read models were made again because of a full disk")
	}
	// A disk that stays full does not delay the end, and costs only the missing writes.
	f.until.Store(1 << 62)
	p.Interrupt()
	ledgertest.OK(t, p.Close())
}

// synced are read models of all commits: of a process that has ended well, or that was cut off.
func (tr *trial) synced(t *testing.T, dir string, cutOff bool) vfs.FS {
	t.Helper()
	files := vfs.NewCrashableMem()
	p := tr.openIn(t, files, dir)
	tr.foldTo(t, p, damagedCommits)
	ledgertest.OK(t, p.Sync())
	left := files.CrashClone(vfs.CrashCloneCfg{})
	ledgertest.OK(t, p.Close())
	if cutOff {
		return left
	}
	return files
}

// nothingMoved makes sure that no read models were put aside as damaged.
func nothingMoved(t *testing.T, files vfs.FS, dir string) {
	t.Helper()
	names, err := files.List(dir)
	if err != nil || strings.Contains(strings.Join(names, " "), damagedSuffix) {
		t.Errorf("%v are there, %v", names, err)
	}
}

// TestFullDiskAtTheStart: a disk that is full from the n-th write of a start on, whatever Pebble does there, is no
// damage. Reads are answered, nothing is moved or deleted, and with room everything is as it was.
func TestFullDiskAtTheStart(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	for _, unclean := range []bool{false, true} {
		met := 0
		for n := int64(1); ; n += int64(ledgertest.Cases(1, 4)) {
			dir := t.TempDir()
			files := tr.synced(t, dir, unclean)
			f := failing(errorfs.OpIsWrite, syscall.ENOSPC, n, always)
			full := tr.openIn(t, errorfs.Wrap(files, f), dir)
			tr.check(t, full, "on a full disk")
			inMemory := full.InMemory()
			if inMemory && !full.Full() || full.starts > 1 {
				t.Errorf("unclean %v, write %d: in memory %v, full %v, started %d times",
					unclean, n, inMemory, full.Full(), full.starts)
			}
			full.Interrupt()
			ledgertest.OK(t, full.Close())
			if !inMemory { // the start had ended; a later write waits for room, as in TestFullDisk
				break
			}
			met++
			nothingMoved(t, files, dir)
			tr.check(t, tr.openIn(t, files, dir), "with room again")
		}
		if met < 3 {
			t.Errorf("unclean %v: only %d writes of a start failed", unclean, met)
		}
	}
}

// TestSyncsFailAtTheStart: whichever sync of a start fails, in a goroutine of Pebble's own or not,
// the process lives, and the read models are opened, or are said to be damaged.
func TestSyncsFailAtTheStart(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	for n := int64(1); ; n++ {
		dir := t.TempDir()
		files := tr.synced(t, dir, true)
		f := failing(errorfs.OpIsWrite, syscall.EIO, n, 1)
		m, err := openModels(errorfs.Wrap(rooted{files}, f), FilesIn(dir), quiet, nil)
		if err == nil {
			err = m.close()
		}
		if met := f.count.Load() >= n; err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("failure %d: %v", n, err)
		} else if !met {
			break
		}
	}
}

// TestMemoryForAFullDiskIsBounded: read models that need more memory beside a full disk than
// they may have are condemned, and what is on the disk stays where it is.
func TestMemoryForAFullDiskIsBounded(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	mem, dir := vfs.NewMem(), t.TempDir()
	p := tr.openIn(t, mem, dir)
	tr.foldTo(t, p, 10)
	ledgertest.OK(t, p.Close())
	f := failing(errorfs.OpIsWrite, syscall.ENOSPC, 0, always)
	full := tr.openIn(t, errorfs.Wrap(mem, f), dir)
	files := ledgertest.Must(store.Beside(errorfs.Wrap(rooted{mem}, f), FilesIn(dir), 16<<10))
	ledgertest.OK(t, full.models.Load().close())
	m, err := openModels(files, FilesIn(dir), quiet, full.stopped)
	ledgertest.OK(t, err)
	full.models.Store(m)
	for last := 10; err == nil && last < len(tr.commits); last++ {
		if err = full.Fold(tr.commits[last], tr.changes[last]); err == nil { // it is in Pebble's memory
			err = full.Sync()
		}
	}
	if !errors.Is(err, ErrCondemned) || !errors.Is(full.Await(), ErrCondemned) {
		t.Errorf("beyond the bound: %v", err)
	}
	ledgertest.OK(t, full.Close())
	nothingMoved(t, mem, dir)
	tr.check(t, tr.openIn(t, mem, dir), "with room again")
}

// TestCloseWaitsForReaders: Close waits for readers, lets no other in, and does not wait for ever.
func TestCloseWaitsForReaders(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	p := tr.open(t, vfs.NewMem())
	tr.foldTo(t, p, 10)
	view := p.View()
	closed := make(chan error, 1)
	err := view.Providers(func(*ledger.Provider) bool {
		go func() { closed <- p.Close() }()
		ledgertest.WaitFor(t, "Close to begin", func() bool {
			return errors.Is(view.p.Use(func(*pebble.DB) error { return nil }), ErrClosed)
		})
		if _, _, err := view.Consumer(ledgertest.ID(2, 5)); !errors.Is(err, ErrClosed) {
			t.Errorf("another reader while they are being closed: %v", err)
		}
		select {
		case err := <-closed:
			t.Errorf("closed under a reader: %v", err)
		default:
		}
		return true
	})
	ledgertest.OK(t, err)
	ledgertest.OK(t, <-closed)
	if err := p.Sync(); !errors.Is(err, ErrClosed) && err != nil {
		t.Errorf("after the end: %v", err)
	}
	if _, err := p.Digest(); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
