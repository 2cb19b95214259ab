package projector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/past"
)

// faultyStore is an archive with a fault.
type faultyStore struct {
	bucket.Store

	create, open error
	flip         bool // a bit of each object
	cut          bool // an object's end
}

func (s *faultyStore) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	if s.create != nil {
		return s.create
	}
	return s.Store.Create(ctx, name, contents, size)
}

func (s *faultyStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if s.open != nil {
		return nil, s.open
	}
	body, err := s.Store.Open(ctx, name)
	if err != nil || !s.flip && !s.cut {
		return body, err
	}
	text, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if s.flip {
		text[len(text)/2] ^= 1
	}
	if s.cut {
		text = text[:len(text)-1]
	}
	return io.NopCloser(strings.NewReader(string(text))), nil
}

func storeIn(t testing.TB, folder string) bucket.Store {
	t.Helper()
	store, err := bucket.Open("file://"+folder, bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func filesOf(t testing.TB, o past.Options, stores ...bucket.Store) *past.Files {
	t.Helper()
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "past")
	}
	files, err := past.Open(stores, o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestNoEpochEnds: if one archive has not got what leaves, or gives it back otherwise,
// everything stays, and is answered from the read models.
func TestNoEpochEnds(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 12))
	subjects := subjectsOf(t, commits)
	p := foldedIn(t, t.TempDir(), commits)
	want := tellAll(t.Context(), p, subjects)
	away := errors.New("nobody is there")
	good := storeIn(t, t.TempDir())
	for name, bad := range map[string]*faultyStore{
		"takes nothing": {create: away}, "gives nothing back": {open: away},
		"has a flipped bit": {flip: true}, "lost an end": {cut: true},
	} {
		bad.Store = storeIn(t, t.TempDir())
		p.ReadPastFrom(filesOf(t, past.Options{}, good, bad))
		err := p.EndEpochs(t.Context(), commits[6].Sequence)
		if err == nil || p.HotFrom() != 0 {
			t.Errorf("an archive %s: %v, and versions have left before %d", name, err, p.HotFrom())
		}
		tellAll(t.Context(), p, subjects).same(t, "an archive "+name, want)
	}
	p.ReadPastFrom(filesOf(t, past.Options{}, good)) // the control
	if err := p.EndEpochs(t.Context(), commits[6].Sequence); err != nil || p.HotFrom() != commits[6].Sequence {
		t.Errorf("%v, and versions have left before %d", err, p.HotFrom())
	}
}

// TestPastFaults: what an archive answers otherwise than it was written is never read;
// another one is asked, or it is said that none can be read, and the present goes on.
func TestPastFaults(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 12))
	subjects := subjectsOf(t, commits)
	dir := t.TempDir()
	p := foldedIn(t, dir, commits)
	want := tellAll(t.Context(), p, subjects)
	first, second := storeIn(t, t.TempDir()), storeIn(t, t.TempDir())
	p.ReadPastFrom(filesOf(t, past.Options{}, first, second))
	for _, at := range []int{4, 8} {
		if err := p.EndEpochs(t.Context(), commits[at].Sequence); err != nil {
			t.Fatal(err)
		}
	}
	away := errors.New("nobody is there")
	for name, bad := range map[string]*faultyStore{
		"is away": {open: away}, "has a flipped bit": {flip: true}, "lost an end": {cut: true}, "lost it": {open: bucket.ErrNotFound},
	} {
		bad.Store = first
		p.ReadPastFrom(filesOf(t, past.Options{}, bad, second))
		tellAll(t.Context(), p, subjects).same(t, "one archive "+name, want)
		p.ReadPastFrom(filesOf(t, past.Options{}, bad))
		view, err := p.ViewAt(commits[5].Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collected(view.Providers); !errors.Is(err, ledger.ErrArchived) {
			t.Errorf("the only archive %s: %v", name, err)
		}
		if _, err := view.Digest(t.Context()); !errors.Is(err, ledger.ErrArchived) {
			t.Errorf("the only archive %s: %v", name, err)
		}
		if _, err := collected(p.View().Providers); err != nil || p.Ready() != nil {
			t.Errorf("the only archive %s, and the present: %v, %v", name, err, p.Ready())
		}
	}
	p.ReadPastFrom(nil)
	view, err := p.ViewAt(commits[5].Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collected(view.Providers); !errors.Is(err, projector.ErrPastUnknown) {
		t.Errorf("without an archive: %v", err)
	}
}

// TestFlippedInTheFolder: a file that the disk has changed is fetched again.
func TestFlippedInTheFolder(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 12))
	subjects := subjectsOf(t, commits)
	p := foldedIn(t, t.TempDir(), commits)
	want := tellAll(t.Context(), p, subjects)
	folder := filepath.Join(t.TempDir(), "past")
	p.ReadPastFrom(filesOf(t, past.Options{Folder: folder, Bytes: 1 << 30}, storeIn(t, t.TempDir())))
	if err := p.EndEpochs(t.Context(), commits[8].Sequence); err != nil {
		t.Fatal(err)
	}
	tellAll(t.Context(), p, subjects).same(t, "before", want)
	paths, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 3; at < len(text); at += 487 {
		wrong := append([]byte(nil), text...)
		wrong[at] ^= 0x10
		if err := os.WriteFile(paths[0], wrong, 0o600); err != nil {
			t.Fatal(err)
		}
		view, err := p.ViewAt(commits[5].Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := collected(view.Providers); err != nil && !errors.Is(err, ledger.ErrArchived) {
			t.Fatalf("byte %d: %v", at, err)
		} else if err != nil {
			found++
		}
		if p.Ready() != nil {
			t.Fatalf("byte %d: the read models are condemned: %v", at, p.Ready())
		}
		for range 2 { // the first may meet the flip
			_, _ = view.Digest(t.Context())
		}
		tellAll(t.Context(), p, subjects).same(t, "fetched again", want)
	}
	if found == 0 {
		t.Error("no flip was found")
	}
	if err := os.Remove(paths[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	tellAll(t.Context(), p, subjects).same(t, "removed by somebody", want)
}

// TestEpochIsWrittenOnce: read models of the same log write the same files, together or one
// after the other, and an archive that lacks some gets them from another one.
func TestEpochIsWrittenOnce(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 12))
	folders := []string{t.TempDir(), t.TempDir()}
	written := func(folder string) (list []string) {
		t.Helper()
		err := storeIn(t, folder).List(t.Context(), "past/", "", func(o bucket.Object) error {
			list = append(list, o.Name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	ends := []uint64{commits[4].Sequence, commits[6].Sequence, commits[8].Sequence}
	for _, together := range [][][]uint64{{ends[:1], ends[1:2], ends[2:]}, {ends}, {ends[:2], ends[2:]}} {
		p := foldedIn(t, t.TempDir(), commits)
		p.ReadPastFrom(filesOf(t, past.Options{}, storeIn(t, folders[0])))
		for _, some := range together {
			if err := p.EndEpochs(t.Context(), some...); err != nil {
				t.Fatal(err)
			}
		}
		if list := written(folders[0]); len(list) != len(ends) {
			t.Errorf("written: %v", list)
		}
		p.ReadPastFrom(filesOf(t, past.Options{}, storeIn(t, folders[0]), storeIn(t, folders[1])))
		worker, err := p.NewHistoryTrimmer(projector.HotHistory{
			Age: 1, Archives: []projector.ArchivedLog{partOf{}}, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = worker.FillArchives(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if one, other := written(folders[0]), written(folders[1]); strings.Join(one, " ") != strings.Join(other, " ") {
			t.Errorf("one archive has %v, the other %v", one, other)
		}
	}
}

// TestReadWhileEpochsEnd: readers find everything while it leaves, and after a drop that
// was interrupted.
func TestReadWhileEpochsEnd(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 10))
	subjects := subjectsOf(t, commits)
	dir := t.TempDir()
	p := foldedIn(t, dir, commits)
	want := tellAll(t.Context(), p, subjects)
	files := filesOf(t, past.Options{}, storeIn(t, t.TempDir())) // no room: each is fetched again and again
	p.ReadPastFrom(files)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				tellAll(t.Context(), p, subjects).check(t, "meanwhile", want)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for _, c := range commits[:len(commits)-1] {
		if err := p.EndEpochs(t.Context(), c.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	tellAll(t.Context(), p, subjects).same(t, "at the end", want)
}

// TestDropIsInterrupted: a drop that a crash has interrupted anywhere is done after the
// next start, and meanwhile everything is answered.
func TestDropIsInterrupted(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 10))
	subjects := subjectsOf(t, commits)
	want := tellAll(t.Context(), foldedIn(t, t.TempDir(), commits), subjects)
	dir, archive := t.TempDir(), t.TempDir()
	p := foldedIn(t, dir, commits)
	p.ReadPastFrom(filesOf(t, past.Options{}, storeIn(t, archive)))
	rows := p.Rows(t)
	if err := p.KeepEpoch(t.Context(), commits[7].Sequence); err != nil {
		t.Fatal(err)
	}
	tellAll(t.Context(), p, subjects).same(t, "before the drop", want)
	if got := p.Rows(t); got < rows {
		t.Errorf("%d rows were there, and %d are before the drop", rows, got)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = foldedIn(t, dir, commits)
	p.ReadPastFrom(filesOf(t, past.Options{}, storeIn(t, archive)))
	tellAll(t.Context(), p, subjects).same(t, "after a start", want)
	worker, err := p.NewHistoryTrimmer(projector.HotHistory{
		Age: 1, Archives: []projector.ArchivedLog{partOf{}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		err = worker.FinishDrop(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Rows(t); got >= rows {
		t.Errorf("%d rows were there, and %d are after the drop", rows, got)
	}
	tellAll(t.Context(), p, subjects).same(t, "after the drop", want)
}

// steppedStore tells of each step before it is made.
type steppedStore struct {
	bucket.Store

	step func(what string)
}

func (s *steppedStore) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	s.step("before it is written: " + name)
	return s.Store.Create(ctx, name, contents, size)
}

func (s *steppedStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	s.step("before it is read back: " + name)
	return s.Store.Open(ctx, name)
}

// TestEpochSteps: a power cut before any step, whatever it takes away of what was not
// synced, leaves read models that the log and the archive complete, and from which the same
// leaves.
func TestEpochSteps(t *testing.T) {
	t.Parallel()
	commits := timed(t, ledgertest.Commits(t, 8))
	subjects := subjectsOf(t, commits)
	whole := foldedIn(t, t.TempDir(), commits)
	want := tellAll(t.Context(), whole, subjects)
	random := rand.New(rand.NewPCG(5, 6))
	dir, disk, archive := t.TempDir(), vfs.NewCrashableMem(), t.TempDir()
	if err := disk.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	open := func(files vfs.FS) *projector.Projector {
		t.Helper()
		p, err := projector.OpenOn(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		foldInto(t, p, commits)
		return p
	}
	ends := []uint64{commits[2].Sequence, commits[3].Sequence, commits[6].Sequence}
	horizons := make(map[uint64]int)
	steps := 0
	check := func(what string) {
		t.Helper()
		if steps++; ledgertest.Raced && steps%2 == 0 {
			return
		}
		for _, percent := range []int{0, 50 + steps%2*50} {
			q := open(disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random}))
			q.ReadPastFrom(filesOf(t, past.Options{}, storeIn(t, archive)))
			horizon := q.HotFrom()
			horizons[horizon]++
			what := fmt.Sprintf("%s, %d %% of what was not synced is kept", what, percent)
			tellAll(t.Context(), q, subjects).same(t, what, want)
			left := slices.DeleteFunc(slices.Clone(ends), func(end uint64) bool { return end <= horizon })
			err := q.FinishDrop(t.Context())
			if err == nil && len(left) > 0 {
				err = q.EndEpochs(t.Context(), left...)
			}
			if err != nil {
				t.Fatal(what, err)
			}
			tellAll(t.Context(), q, subjects).same(t, what+", and all has left", want)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	p := open(disk)
	defer func() { _ = p.Close() }() // its disk is gone
	p.ReadPastFrom(filesOf(t, past.Options{}, &steppedStore{storeIn(t, archive), check}))
	if err := p.EndEpochs(t.Context(), ends...); err != nil {
		t.Fatal(err)
	}
	check("at the end")
	if len(horizons) != len(ends)+1 {
		t.Errorf("the horizons after the cuts, and how often: %v", horizons)
	}
	files := storeIn(t, archive)
	count := 0
	err := files.List(t.Context(), "past/", "", func(bucket.Object) error {
		count++
		return nil
	})
	if err != nil || count != len(ends) {
		t.Errorf("%d files were written: %v", count, err)
	}
}
