package store

import (
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestCompactionsGoOn lets a compaction work that has waited for long enough: it
// does not wait any more.
func TestCompactionsGoOn(t *testing.T) {
	for _, waited := range []time.Duration{0, time.Hour} {
		c := &compaction{of: newCompactions(), background: background{waited: waited}}
		c.Started()
		c.CumulativeStats(pebble.CompactionGrantHandleStats{})
		if waits := c.waited > waited; waits != (waited == 0) {
			t.Errorf("a compaction that has waited for %v waits: %v", waited, waits)
		}
	}
}

// store is a store for which some compactions wait.
type store struct {
	allowed, waiting atomic.Int64

	mu      sync.Mutex
	running []pebble.CompactionGrantHandle
	most    int
	refuses bool
	refused int
}

func (s *store) GetAllowedWithoutPermission() int { return int(s.allowed.Load()) }

func (s *store) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return s.waiting.Load() > 0, pebble.WaitingCompaction{}
}

func (s *store) Schedule(handle pebble.CompactionGrantHandle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses {
		s.refused++
		return false
	}
	s.waiting.Add(-1)
	s.running = append(s.running, handle)
	s.most = max(s.most, len(s.running))
	return true
}

// end ends a compaction, and reports whether one was running.
func (s *store) end() bool {
	s.mu.Lock()
	if len(s.running) == 0 {
		s.mu.Unlock()
		return false
	}
	handle := s.running[0]
	s.running = s.running[1:]
	s.mu.Unlock()
	handle.Done()
	return true
}

// TestCompactionsAreBounded has many compactions wait: all run, never more at a time
// than the store allows, also while it changes its mind and refuses what it is
// granted.
func TestCompactionsAreBounded(t *testing.T) {
	c, s := newCompactions(), &store{}
	s.allowed.Store(2)
	c.Register(2, s)
	if granted, _ := c.TrySchedule(); granted {
		t.Error("a compaction runs while the store is opened")
	}
	c.start()
	if granted, _ := c.TrySchedule(); !granted {
		t.Fatal("the first compaction is not granted")
	}
	c.giveBack()
	s.refuses = true
	s.waiting.Store(100)
	c.UpdateGetAllowedWithoutPermission()
	ledgertest.WaitFor(t, "the store to be asked again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuses = s.refused < 2
		return !s.refuses
	})
	ended := 0
	ledgertest.WaitFor(t, "100 compactions", func() bool {
		for s.end() {
			ended++
			s.allowed.Store(int64(1 + ended%2))
		}
		return ended == 100
	}, func() any { return ended })
	c.Unregister()
	if granted, _ := c.TrySchedule(); granted || c.running != 0 {
		t.Errorf("a closed store is granted compactions: %v, with %d running", granted, c.running)
	}
	if s.most > 2 {
		t.Errorf("%d compactions ran at a time, where 2 are allowed", s.most)
	}
}

// created is a file system that knows for what files were made.
type created struct {
	vfs.FS
	mu         sync.Mutex
	categories map[vfs.DiskWriteCategory]bool
}

func (c *created) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.categories[category] = true
	return c.FS.Create(name, category)
}

// TestFlushesGiveWay asks Pebble what it calls the files of a flush, and whether
// those give way at each block, and no others.
func TestFlushesGiveWay(t *testing.T) {
	files := &created{FS: vfs.NewMem(), categories: map[vfs.DiskWriteCategory]bool{}}
	s := open(t, files)
	ledgertest.OK(t, put(s, "key"), s.Flush(), s.Close())
	categories := slices.Collect(maps.Keys(files.categories)) // all of Pebble has ended
	if !slices.Contains(categories, flushes) || len(categories) < 2 {
		t.Errorf("Pebble made files for %q, not for %q and others", categories, flushes)
	}
	for _, category := range categories {
		f, err := s.disk.Create("file", category)
		ledgertest.OK(t, err)
		_, err = f.Write([]byte("block"))
		flush := f.(*diskFile).flush
		gaveWay := flush != nil && flush.waited > 0
		if err = errors.Join(err, f.Close()); err != nil || gaveWay != (category == flushes) {
			t.Errorf("a write to a file for %q gave way: %v, %v", category, gaveWay, err)
		}
	}
}

// outgrown are the files of a store that was cut off: opening it flushes, and then it wants to compact.
func outgrown(t *testing.T) *vfs.MemFS {
	t.Helper()
	files, kept := vfs.NewMem(), vfs.NewMem()
	s := open(t, files)
	for range compactSublevels - 1 {
		ledgertest.OK(t, put(s, "a"), put(s, "b"), s.Flush())
	}
	ledgertest.OK(t, put(s, "a"), put(s, "b"), s.Sync())
	_, err := vfs.Clone(files, kept, "models", "models")
	ledgertest.OK(t, err, s.Close())
	return kept
}

// TestCompactionsEnd fails each operation on the disk in turn while a store is
// opened and closed: nothing works on a store that could not be opened. No goroutine of it is left,
// but for a few of Pebble's own, where it waits for what has ended.
func TestCompactionsEnd(t *testing.T) {
	worlds := map[string]*vfs.MemFS{"none": vfs.NewMem(), "cut off": outgrown(t)}
	ledgertest.OK(t, worlds["none"].MkdirAll("models", 0o700))
	for name, world := range worlds {
		begun := runtime.NumGoroutine()
		failed := 0
		for n := int32(0); ; n++ {
			fault := errorfs.OnIndex(n)
			files := vfs.NewMem()
			_, err := vfs.Clone(world, files, "models", "models")
			ledgertest.OK(t, err)
			s, err := Open(errorfs.Wrap(files, errorfs.ErrInjected.If(fault)), "models", slog.New(slog.DiscardHandler), nil)
			if err != nil {
				failed++
			} else {
				_ = s.Close() // the fault may come here
			}
			if fault.Load() >= 0 { // no such operation any more
				break
			}
		}
		if failed < 10 {
			t.Fatalf("%s: opening failed %d times", name, failed)
		}
		ledgertest.WaitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= begun+8 }, func() any {
			var stacks [1 << 16]byte
			return string(stacks[:runtime.Stack(stacks[:], true)])
		})
	}
}
