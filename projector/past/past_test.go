package past_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/projector/past"
)

// countedStore is an archive that counts what is fetched from it.
type countedStore struct {
	bucket.Store

	opened atomic.Int64
	fault  atomic.Pointer[error] // of Open
	slow   chan struct{}         // nil: Open does not wait
}

func (s *countedStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	s.opened.Add(1)
	if s.slow != nil {
		select {
		case <-s.slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := s.fault.Load(); err != nil {
		return nil, *err
	}
	return s.Store.Open(ctx, name)
}

func (s *countedStore) fails(err error) {
	if err == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&err)
}

func newStore(t *testing.T) *countedStore {
	t.Helper()
	store, err := bucket.Open("file://"+t.TempDir(), bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	return &countedStore{Store: store}
}

func open(t *testing.T, o past.Options, stores ...bucket.Store) *past.Files {
	t.Helper()
	o.Folder = filepath.Join(t.TempDir(), "past")
	files, err := past.Open(stores, o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// put writes a file of some contents into all archives.
func put(t *testing.T, files *past.Files, number int, contents string) past.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := past.Describe(past.File{Form: 1, First: 2, Last: 3, Number: number}, path)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range files.Stores() {
		if err := files.Put(t.Context(), store, file, path); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func read(files *past.Files, file past.File) (contents string, err error) {
	err = files.Read(context.Background(), file, func(path string) error {
		text, err := os.ReadFile(path)
		contents = string(text)
		return err
	})
	return contents, err
}

// TestKept: what was read last stays, up to a bound, and is not fetched again; the rest of
// the folder's room is given back.
func TestKept(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	files := open(t, past.Options{Bytes: 250}, store)
	var list []past.File
	for i := range 4 {
		list = append(list, put(t, files, i, strings.Repeat(fmt.Sprint(i), 100)))
	}
	store.opened.Store(0)
	for i, step := range []struct {
		read    int
		fetched int64 // in all, then
	}{{0, 1}, {1, 2}, {0, 2}, {2, 3}, {0, 3}, {1, 4}, {2, 5}, {1, 5}, {3, 6}, {0, 7}} {
		got, err := read(files, list[step.read])
		if err != nil || got != strings.Repeat(fmt.Sprint(step.read), 100) {
			t.Errorf("step %d: %q, %v", i, got, err)
		}
		if n := store.opened.Load(); n != step.fetched {
			t.Errorf("step %d: %d were fetched, want %d", i, n, step.fetched)
		}
		folder, err := files.Folder()
		if err != nil {
			t.Fatal(err)
		}
		there, err := os.ReadDir(folder)
		if err != nil || len(there) > 2 || files.Bytes() != int64(100*len(there)) {
			t.Errorf("step %d: %v are there, and %d bytes: %v", i, there, files.Bytes(), err)
		}
	}
}

// TestReadersAtOnce: each file is fetched once for all who ask, also if the first of them
// does not wait for it.
func TestReadersAtOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	files := open(t, past.Options{Bytes: 1000}, store)
	file := put(t, files, 0, "contents")
	store.opened.Store(0)
	store.slow = make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- files.Read(ctx, file, func(string) error { return nil }) }()
	for store.opened.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			if got, err := read(files, file); err != nil || got != "contents" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) || !errors.Is(err, ledger.ErrArchived) {
		t.Errorf("who has left is told %v", err)
	}
	close(store.slow)
	others.Wait()
	if n := store.opened.Load(); n > 2 {
		t.Errorf("it was fetched %d times", n)
	}
}

// TestSilence: archives that do not answer are left alone for a while; one that lacks a
// file, or has damaged it, is not silent.
func TestSilence(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	files := open(t, past.Options{Rest: 200 * time.Millisecond}, store)
	file := put(t, files, 0, "contents")
	store.opened.Store(0)
	store.fails(fmt.Errorf("%w: nobody is there", bucket.ErrUnavailable))
	for range 3 {
		if _, err := read(files, file); !errors.Is(err, ledger.ErrArchived) || !errors.Is(err, bucket.ErrUnavailable) {
			t.Error(err)
		}
	}
	if n := store.opened.Load(); n != 1 {
		t.Errorf("a silent archive was asked %d times", n)
	}
	store.fails(nil)
	time.Sleep(250 * time.Millisecond)
	if got, err := read(files, file); err != nil || got != "contents" {
		t.Errorf("%q, %v", got, err)
	}
	files.Forget(file)
	store.fails(bucket.ErrNotFound)
	if _, err := read(files, file); !errors.Is(err, past.ErrMissing) || !errors.Is(err, ledger.ErrArchived) {
		t.Error(err)
	}
	other := file
	other.Sum[0] ^= 1
	store.fails(nil)
	path := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(path, []byte("CONTENTS"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := files.Put(t.Context(), store, other, path); !errors.Is(err, past.ErrDamaged) {
		t.Errorf("bytes of another digest were written: %v", err)
	}
	if _, err := read(files, other); !errors.Is(err, past.ErrDamaged) || !errors.Is(err, ledger.ErrArchived) {
		t.Error(err)
	}
	if got, err := read(files, file); err != nil || got != "contents" {
		t.Errorf("after the faults: %q, %v", got, err)
	}
}

// TestGive: an archive gets what it lacks from another one, and what is there already is
// compared and stays.
func TestGive(t *testing.T) {
	t.Parallel()
	has, lacks := newStore(t), newStore(t)
	file := put(t, open(t, past.Options{}, has), 0, "contents")
	files := open(t, past.Options{}, lacks, has)
	lacking := func() []past.File {
		t.Helper()
		list, err := files.Lacking(t.Context(), lacks, 1, listed(file))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if list := lacking(); !slices.Equal(list, []past.File{file}) {
		t.Errorf("it lacks %v", list)
	}
	for range 2 {
		if err := files.Give(t.Context(), lacks, file); err != nil {
			t.Fatal(err)
		}
		if list := lacking(); len(list) > 0 {
			t.Errorf("it lacks %v still", list)
		}
	}
	has.fails(errors.New("gone"))
	if got, err := read(files, file); err != nil || got != "contents" {
		t.Errorf("%q, %v", got, err)
	}
}

// listed yields some files.
func listed(list ...past.File) iter.Seq2[past.File, error] {
	return func(yield func(past.File, error) bool) {
		for _, f := range list {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// TestLacking compares what an archive has with what it should have, in random worlds with
// files that nobody asks for.
func TestLacking(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		store := newStore(t)
		files := open(t, past.Options{}, store)
		var all, want []past.File
		for i := range random.IntN(12) {
			file := past.File{Form: 1, First: uint64(i), Last: uint64(i + 1), Number: random.IntN(2), Bytes: 1}
			there, wanted := random.IntN(2) == 0, random.IntN(4) > 0
			if there {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, []byte{byte(i)}, 0o600); err != nil {
					t.Fatal(err)
				}
				var err error
				if file, err = past.Describe(file, path); err == nil {
					err = files.Put(t.Context(), store, file, path)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if wanted {
				all = append(all, file)
			}
			if wanted && !there {
				want = append(want, file)
			}
		}
		got, err := files.Lacking(t.Context(), store, 1, listed(all...))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("of %v it lacks\n%v\nwant\n%v: %v", all, got, want, err)
		}
	}
	files := open(t, past.Options{}, newStore(t))
	many := make([]past.File, 1500)
	for i := range many {
		many[i] = past.File{Form: 1, First: uint64(i)}
	}
	got, err := files.Lacking(t.Context(), files.Stores()[0], 1, listed(many...))
	if err != nil || len(got) == 0 || len(got) >= len(many) || !slices.Equal(got, many[:len(got)]) {
		t.Errorf("of %d files %d are lacking: %v", len(many), len(got), err)
	}
	broken := errors.New("broken")
	fails := func(yield func(past.File, error) bool) { yield(past.File{}, broken) }
	_, err = files.Lacking(t.Context(), files.Stores()[0], 1, fails)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}
