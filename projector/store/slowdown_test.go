package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// simulated is a store whose compactions take all tables of the first level that are
// there when they begin, and so many bytes a second. Each memtable is a sublevel.
type simulated struct {
	compacts float64 // bytes a second
	now      time.Time
	memtable int // bytes
	tables   int
	taken    int // by the compaction under way
	ends     time.Time
	deepest  int
}

// until lets time pass.
func (s *simulated) until(now time.Time) {
	s.now = now
	for s.taken > 0 && !s.ends.After(now) {
		s.tables, s.taken = s.tables-s.taken, 0
		s.begin(s.ends)
	}
	s.begin(now)
}

func (s *simulated) begin(now time.Time) {
	if s.taken == 0 && s.tables >= compactSublevels {
		s.taken = s.tables
		s.ends = now.Add(time.Duration(float64(s.taken) * memTableBytes / s.compacts * float64(time.Second)))
	}
}

func (s *simulated) write(bytes int) {
	for s.memtable += bytes; s.memtable >= memTableBytes; s.memtable -= memTableBytes {
		s.tables++
		s.deepest = max(s.deepest, s.tables)
	}
}

// TestSlowdown: where a store compacts a MiB a second or more, a writer without mercy does
// not fill its first level, and gets what is compacted, in short waits. Where it does not
// write more than that it is not held up.
func TestSlowdown(t *testing.T) {
	const (
		batch   = 512 << 10
		writes  = 24 << 20 // bytes a second, if nothing holds it up
		forLong = 4 * time.Hour
	)
	for _, compacts := range []float64{1 << 20, 4 << 20, 12 << 20, 20 << 20, 64 << 20} {
		for _, held := range []bool{true, false} {
			store := &simulated{compacts: compacts, now: time.Unix(0, 0)}
			s := &slowdown{depth: func() int { return store.tables }}
			var written float64
			var longest, waited time.Duration
			for store.now.Before(time.Unix(0, 0).Add(forLong)) && store.deepest < stopSublevels {
				store.write(batch)
				written += batch
				var hold time.Duration
				if held {
					hold = s.owe(batch, store.now)
				}
				longest, waited = max(longest, hold), waited+hold
				store.until(store.now.Add(hold + time.Second*batch/writes))
			}
			fills := store.deepest >= stopSublevels
			if want := !held && compacts < writes; fills != want {
				t.Errorf("compacting %.1f MB/s, held up %v: %d sublevels", compacts/1e6, held, store.deepest)
			}
			if longest > mostHold {
				t.Errorf("compacting %.1f MB/s: one waited for %v", compacts/1e6, longest)
			}
			if rate := written / forLong.Seconds(); held && rate < 0.9*min(compacts, writes) {
				t.Errorf("compacting %.1f MB/s, %.1f MB/s were written", compacts/1e6, rate/1e6)
			}
			if compacts > 2*writes && waited > 0 {
				t.Errorf("compacting %.1f MB/s, writes waited for %v", compacts/1e6, waited)
			}
		}
	}
}

// TestWritesAreHeldUp: writes wait while the first level of the store is deep, and all of them are
// there.
func TestWritesAreHeldUp(t *testing.T) {
	for _, c := range []struct {
		depth int
		waits bool
	}{{slowSublevels - 1, false}, {slowSublevels + 6*halving, true}} {
		s := open(t, vfs.NewMem())
		s.slow.depth, s.slow.written = func() int { return c.depth }, lookBytes
		for i := range 20 {
			ledgertest.OK(t, put(s, fmt.Sprint(i, strings.Repeat("k", 1000))))
		}
		if held := s.Stats().HeldUp; c.waits != (held >= leastHold) {
			t.Errorf("with %d sublevels, writes were held up for %v", c.depth, held)
		}
		there := 0
		it := ledgertest.Must(s.Iterate(nil, nil))
		for ok := it.First(); ok; ok = it.Next() {
			there++
		}
		if err := errors.Join(it.Finish(nil), s.Close()); err != nil || there != 20 {
			t.Errorf("with %d sublevels, %d of 20 writes are there: %v", c.depth, there, err)
		}
	}
}
