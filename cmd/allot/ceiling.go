package main

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// ceiling bounds what the process takes in memory while clients make it hold
// much. What they make it hold is bounded by the doors; but garbage may grow to
// twice of all that is held, and the runtime keeps what it has had for the next
// peak. So while a door says that it is heavy, the runtime's memory limit is
// what the process took before, and some room. It ends with the load.
type ceiling struct {
	wake    chan struct{} // capacity 1
	quit    chan struct{}
	stopped chan struct{}

	mu    sync.Mutex
	heavy int // doors that are; guarded by mu
}

const (
	// ceilingRoom is what the process may grow by under a heavy load.
	ceilingRoom = 32 << 20
	// leastGarbage and garbageShare are what is left for garbage, in bytes and as
	// a share of what is in use, however much that is: a limit that is too low
	// would have the collector run all the time.
	leastGarbage = 8 << 20
	garbageShare = 8
	// quietEvery and heavyEvery are how often it is looked what the process takes.
	quietEvery = time.Second
	heavyEvery = 20 * time.Millisecond
	// calmAfter is how long a load must have ended until the limit does. There
	// must have been a collection, too: after one of the load's own, garbage may
	// grow to twice of what the load had held.
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

// door returns what one door tells of itself with, when it becomes heavy and
// when it is no longer. It never waits: to set the limit takes as long as a
// collection that is under way.
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

// run sets the limit, and takes it away.
func (c *ceiling) run() {
	defer close(c.stopped)
	given := debug.SetMemoryLimit(-1) // GOMEMLIMIT, or none
	defer debug.SetMemoryLimit(given)
	before, limit := memoryNow(), int64(math.MaxInt64)
	var calm taken // when the load had ended
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
			wanted = min(given, max(before.expected()+ceilingRoom, now.least()))
		} else {
			before = now
		}
		if wanted != limit {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
	}
}

// taken is what the process takes in memory, as the runtime counts it.
type taken struct {
	at                       time.Time
	total, live, goal, other int64
	collections              int64
}

func memoryNow() taken {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	n := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	total := n(0) - n(1)
	return taken{
		at: time.Now(), total: total, live: n(2), goal: n(3), other: total - n(4) - n(5) - n(6), collections: n(7),
	}
}

// expected is what the process would take by the next collection anyway.
func (t taken) expected() int64 { return max(t.total, t.goal+t.other) }

// least is what the process must have for what is in use now.
func (t taken) least() int64 { return t.live + max(t.live/garbageShare, leastGarbage) + t.other }
