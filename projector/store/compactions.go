package store

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactions is the scheduler of a store's compactions. As many run as the store
// allows, as with Pebble's own, but they give way: a compaction computes for half a
// second and more, and on few processors a command would wait behind its slices of
// 10 ms at each step from the client to the log and back. So after every 128 keys,
// some 50 microseconds, a compaction lets all goroutines run that are ready.
type compactions struct {
	store pebble.DBForCompaction
	// more wakes the granter when more compactions may be allowed than before.
	more    chan struct{}
	quit    chan struct{}
	granter sync.WaitGroup

	mu       sync.Mutex // never held while a method of the store is called that locks
	running  int        // compactions; guarded by mu
	granting bool       // guarded by mu
}

// askEvery is how often the store is asked whether more compactions may run, while some
// are under way or wait; what it allows depends on what is waiting to be compacted.
// askIdle is how often otherwise, because the store says by itself that it wants some.
const (
	askEvery = 100 * time.Millisecond
	askIdle  = 10 * time.Second
)

func newCompactions() *compactions {
	return &compactions{more: make(chan struct{}, 1), quit: make(chan struct{})}
}

// Register is called while the store is opened.
func (c *compactions) Register(_ int, store pebble.DBForCompaction) { c.store = store }

// start grants from now on. The store is open: where opening fails, Pebble releases what a
// compaction still uses, and that would end the process.
func (c *compactions) start() {
	c.mu.Lock()
	c.granting = true
	c.mu.Unlock()
	c.UpdateGetAllowedWithoutPermission()
	c.granter.Go(c.grantMore)
}

// Unregister is called when the store is closed.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.granting = false
	c.mu.Unlock()
	close(c.quit)
	c.granter.Wait()
}

// TrySchedule is called by the store when it wants to compact.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !c.take() {
		c.UpdateGetAllowedWithoutPermission() // the granter asks again
		return false, nil
	}
	return true, &compaction{of: c}
}

// UpdateGetAllowedWithoutPermission is called when more may be allowed.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// take counts one more compaction, if that is allowed.
func (c *compactions) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.granting || c.running >= c.store.GetAllowedWithoutPermission() {
		return false
	}
	c.running++
	return true
}

func (c *compactions) giveBack() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}

// grantMore has compactions begin for which there was no room when the store
// wanted them.
func (c *compactions) grantMore() {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	for {
		select {
		case <-c.quit:
			return
		case <-c.more:
		case <-timer.C:
		}
		timer.Reset(c.grant())
	}
}

// grant has compactions begin that wait, as many as may run. It returns when to ask again.
func (c *compactions) grant() time.Duration {
	for c.take() {
		if waiting, _ := c.store.GetWaitingCompaction(); !waiting {
			c.giveBack()
			return askIdle
		}
		if !c.store.Schedule(&compaction{of: c}) {
			c.giveBack()
			break
		}
	}
	return askEvery
}

// compaction is one that may run.
type compaction struct {
	of *compactions
	background
}

// Started is called before the compaction works.
func (c *compaction) Started() { c.begin() }

// MeasureCPU is called by the compaction's goroutines; nothing is counted here.
func (c *compaction) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats is called by the goroutine of the compaction, again and again.
func (c *compaction) CumulativeStats(pebble.CompactionGrantHandleStats) { c.giveWay() }

// Done is called when the compaction has ended.
func (c *compaction) Done() {
	c.of.giveBack()
	c.of.UpdateGetAllowedWithoutPermission()
}

// background is work that gives way, and what it has taken of the processors and
// waited for them.
type background struct {
	worked, waited time.Duration
	since          time.Time // when it began to work
}

// mostWaiting is how many times as long as it works a compaction waits at most, and
// so does a flush. If they waited without end while the processors are busy, the
// store would hold up writes for them one day.
const mostWaiting = 3

func (b *background) begin() { b.since = time.Now() }

// giveWay lets all goroutines run that are ready.
func (b *background) giveWay() {
	now := time.Now()
	b.worked += now.Sub(b.since)
	b.since = now
	if b.waited <= mostWaiting*b.worked {
		runtime.Gosched()
		b.since = time.Now()
		b.waited += b.since.Sub(now)
	}
}

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
