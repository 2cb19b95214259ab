package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// ceiling bounds the memory of the process while clients make it hold much. The
// APIs bound what they hold. But garbage may grow to twice as much, and the
// runtime keeps the memory of one peak for the next. So while an API reports a
// heavy load, the runtime's memory limit is what the process took before, plus
// some room. The limit ends with the load.
type ceiling struct {
	wake    chan struct{} // capacity 1
	quit    chan struct{}
	stopped chan struct{}

	mu    sync.Mutex
	heavy int // number of APIs that are; guarded by mu
}

const (
	// ceilingRoom is how much the process may grow under a heavy load, in bytes.
	ceilingRoom = 16 << 20
	// usualSize is what a process has at least when nothing is heavy, in bytes. One that has
	// just started has less, and the limit would stay at what it had then.
	usualSize = 64 << 20
	// leastGarbage and garbageShare are the room that is always left for garbage:
	// in bytes, and as a share of the memory in use. With a limit that is too low
	// the collector runs all the time, and all requests wait for it; and what is in use
	// grows by some MiB until the limit is set again, which waits for a collection.
	leastGarbage = 24 << 20
	garbageShare = 3
	// quietEvery and heavyEvery are how often the memory of the process is
	// measured.
	quietEvery = time.Second
	heavyEvery = 20 * time.Millisecond
	// calmAfter is how long after the end of a load the limit is removed. A
	// collection must have run since, too, because after a collection during the
	// load garbage may grow to twice what the load held.
	calmAfter = 2 * time.Second
)

func (s *server) startCeiling(context.Context) error {
	s.ceiling = startCeiling()
	return nil
}

func (s *server) stopCeiling() error {
	s.ceiling.stop()
	return nil
}

func startCeiling() *ceiling {
	c := &ceiling{wake: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{})}
	go c.run()
	return c
}

func (c *ceiling) stop() {
	close(c.quit)
	<-c.stopped
}

// door returns the function with which one API reports that its load becomes
// heavy, and that it ends. The function never waits, because setting the limit
// takes as long as the collection that is under way.
func (c *ceiling) door() func(heavy bool) {
	return func(heavy bool) {
		c.mu.Lock()
		if heavy {
			c.heavy++
		} else {
			c.heavy--
		}
		c.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

func (c *ceiling) isHeavy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heavy > 0
}

// run sets the limit, and removes it.
func (c *ceiling) run() {
	defer close(c.stopped)
	given := debug.SetMemoryLimit(-1) // GOMEMLIMIT, or none
	defer debug.SetMemoryLimit(given)
	before, limit := memoryNow(), int64(math.MaxInt64)
	var calm taken // when the load ended
	for every := quietEvery; ; {
		select {
		case <-c.quit:
			return
		case <-c.wake:
		case <-time.After(every):
		}
		now := memoryNow()
		switch {
		case c.isHeavy():
			calm, every = taken{}, heavyEvery
		case every == heavyEvery && calm.at.IsZero():
			calm = now
		case every == heavyEvery && now.at.Sub(calm.at) > calmAfter && now.collections > calm.collections:
			every = quietEvery
		}
		wanted := given
		if every == heavyEvery {
			wanted = min(given, now.limit(before))
		} else {
			before = now
			followUse(now)
		}
		if wanted != limit {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
	}
}

// taken returns the memory of the process, in bytes, as the runtime counts it.
type taken struct {
	at                       time.Time
	total, live, goal, other int64
	scanned                  int64 // of what is in use, by a collection
	percent                  int   // by how much of what is in use garbage may grow
	collections              int64
}

func memoryNow() taken {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/scan/heap:bytes"},
		{Name: "/gc/gogc:percent"},
	}
	metrics.Read(samples)
	n := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	total := n(0) - n(1)
	return taken{
		at: time.Now(), total: total, live: n(2), goal: n(3), other: total - n(4) - n(5) - n(6),
		collections: n(7), scanned: n(8), percent: int(n(9)),
	}
}

// limit returns how much memory the process may take under a heavy load, if it took before
// what it did.
func (t taken) limit(before taken) int64 { return max(before.expected()+ceilingRoom, t.least()) }

// expected returns how much memory the process would take by the next collection
// without a limit.
func (t taken) expected() int64 { return max(t.total, t.goal+t.other, usualSize) }

// least returns how much memory the process must have for what is in use now.
func (t taken) least() int64 { return t.live + max(t.live/garbageShare, leastGarbage) + t.other }
