package store

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// open opens a store of a test.
func open(t *testing.T, files Files) *Store {
	t.Helper()
	s := ledgertest.Must(Open(files, "models", slog.New(slog.DiscardHandler), nil))
	return s
}

// put writes a key with itself as its value.
func put(s *Store, key string) error {
	return s.Write(func(b *Batch) error { return b.Set([]byte(key), []byte(key), nil) }, func() {}, nil)
}

// unreadable makes reads fail.
type unreadable struct{ failing atomic.Bool }

func (f *unreadable) MaybeError(op errorfs.Op) error {
	if f.failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsRead && op.Kind != errorfs.OpFileClose {
		return syscall.EIO
	}
	return nil
}

func (f *unreadable) String() string { return "reads fail" }

// TestReadErrorIsKept: a cursor that could not read where it went first says so at its end, although
// it could read where it went then.
func TestReadErrorIsKept(t *testing.T) {
	f := &unreadable{}
	files := errorfs.Wrap(vfs.NewMem(), f)
	s := open(t, files)
	ledgertest.OK(t, put(s, "a"), put(s, "b"), s.Flush(), s.Close())
	s = open(t, files)
	c := ledgertest.Must(s.Iterate([]byte("a"), []byte("c")))
	f.failing.Store(true)
	if c.SeekGE([]byte("a")) {
		t.Fatal("it was read although no read succeeds")
	}
	f.failing.Store(false)
	if !c.SeekGE([]byte("b")) {
		t.Fatal("it is not read although reads succeed")
	}
	if err := c.Finish(nil); !errors.Is(err, ErrCondemned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("the failed read is lost: %v", err)
	}
	_ = s.Close() // it is condemned
}

// TestPebbleGivesUp: Pebble ends one of its own goroutines, or a call, but not
// the process.
func TestPebbleGivesUp(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem())
	ended := make(chan struct{})
	go func() { // as one of Pebble's
		defer close(ended)
		pebbleLogger{s}.Fatalf("cannot go on: %v", syscall.EIO)
		t.Error("Fatalf returned")
	}()
	<-ended
	if err := put(s, "a"); !errors.Is(err, ErrCondemned) {
		t.Errorf("after a goroutine of Pebble's: %v", err)
	}
	_ = s.Close() // it is condemned
	s = open(t, vfs.NewMem())
	err := s.Use(func(*pebble.DB) error {
		pebbleLogger{s}.Fatalf("cannot go on: %v", syscall.EIO)
		return nil
	})
	if !errors.Is(err, ErrCondemned) {
		t.Errorf("a call of ours: %v", err)
	}
	_ = s.Close() // it is condemned
}

// TestFullBeforeServe: a write that finds no room after a store was opened, and before it is
// served, as one of Pebble's own goroutines may, is why it cannot be opened. A later one waits.
func TestFullBeforeServe(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpCreate {
			return syscall.ENOSPC
		}
		return nil
	}))
	for _, served := range []bool{false, true} {
		stopped := make(chan struct{})
		s := ledgertest.Must(Open(files, t.Name(), slog.New(slog.DiscardHandler), stopped))
		if served {
			ledgertest.OK(t, s.Serve())
		}
		full.Store(true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := s.disk.Create("one", vfs.WriteCategoryUnspecified); err != nil {
				t.Errorf("Pebble is told %v", err)
			}
		}()
		if served {
			ledgertest.WaitFor(t, "a write that waits for room", s.Full)
			full.Store(false)
		}
		<-ended
		full.Store(false)
		if err := s.Serve(); !served && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("it is served although the disk was full: %v", err)
		}
		if served && s.Fault() != nil {
			t.Errorf("a full disk has condemned it: %v", s.Fault())
		}
		_ = s.Close() // one of them is condemned
	}
}
