package store

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// slowdown holds up writes into a store that takes more than it can compact. Pebble lets
// all of it in until the tables of its first level lie stopSublevels deep, and then
// nothing until a compaction has ended: commands would wait for ten seconds and more,
// again and again, and be refused. From slowSublevels on each sublevel lowers what may be
// written in a second, until as much comes as is compacted. A command then waits for some
// tenths of a second.
type slowdown struct {
	depth func() int // sublevels of the first level

	mu      sync.Mutex
	written int           // bytes since the last look; guarded by mu
	looked  time.Time     // guarded by mu
	each    time.Duration // of a MiB; 0: nothing is held up; guarded by mu
	owed    time.Duration // not waited for yet; guarded by mu

	held atomic.Int64 // nanoseconds
}

const (
	// compactSublevels is what a compaction of the first level begins with. The deeper the
	// level is, the less each of its bytes is written again, so it is let grow to
	// slowSublevels; at stopSublevels Pebble holds up everything.
	compactSublevels = 4
	slowSublevels    = 16
	stopSublevels    = 48
	// freely is how many bytes a second are written at slowSublevels: more than a writer
	// makes on few processors. halving is how many sublevels halve it.
	freely  = 64 << 20
	halving = 3
	// lookBytes and lookAgain are how many bytes, or how much later, while something is
	// held up, the store is asked again. A sublevel is a memtable or more.
	lookBytes = memTableBytes / 8
	lookAgain = 100 * time.Millisecond
	// leastHold is what is worth to wait, mostHold how long one may have to.
	leastHold, mostHold = time.Millisecond, time.Second
)

// sublevels returns how deep the tables of a store's first level lie.
func sublevels(db *pebble.DB) int { return int(db.Metrics().Levels[0].Sublevels) }

// mebibyteTakes returns how long one MiB is to take with a first level so deep.
func mebibyteTakes(sublevels int) time.Duration {
	if sublevels < slowSublevels {
		return 0
	}
	halvings := float64(sublevels-slowSublevels) / halving
	return time.Duration(float64(time.Second) * (1 << 20) / freely * math.Exp2(halvings))
}

// wrote notes that bytes were written, and returns once more may be.
func (s *slowdown) wrote(bytes int, stopped <-chan struct{}) {
	hold := s.owe(bytes, time.Now())
	if hold == 0 {
		return
	}
	s.held.Add(int64(hold))
	select {
	case <-time.After(hold):
	case <-stopped:
	}
}

// owe returns how long the writer of so many bytes is to wait.
func (s *slowdown) owe(bytes int, now time.Time) (hold time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += bytes
	if s.written >= lookBytes || s.each > 0 && now.Sub(s.looked) >= lookAgain {
		s.written, s.looked, s.each = 0, now, mebibyteTakes(s.depth())
	}
	if s.each == 0 {
		s.owed = 0
		return 0
	}
	if s.owed += time.Duration(float64(bytes) / (1 << 20) * float64(s.each)); s.owed < leastHold {
		return 0
	}
	hold = min(s.owed, mostHold)
	s.owed -= hold
	return hold
}
