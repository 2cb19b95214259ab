package store

import (
	"runtime"
	"sync"
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
