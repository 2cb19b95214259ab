package shadow

import (
	"context"
	"net/http"
	"slices"
	"sync"
)

// mostAtOnce is how many requests the follower gets at once.
const mostAtOnce = 8

// work does what the queue has, in its order. Allocations, of which there are most, may run
// side by side if they concern different consumers and providers; so may reads. All else is
// done while nothing else is.
func (s *Shadow) work(ctx context.Context) {
	s.crew.init()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		e, m := s.queue.next(ctx)
		switch {
		case m != nil:
			s.crew.enter(nil, 1)
			repairs{s}.repairMissed(ctx, *m)
			s.crew.leave(nil)
			s.queue.done()
		case e == nil:
			return
		case !e.besideOthers():
			s.crew.enter(nil, 1)
			s.do(ctx, e)
			s.crew.leave(nil)
			s.queue.done()
		default:
			concerned := e.concerned()
			s.crew.enter(concerned, mostAtOnce)
			all.Go(func() {
				s.do(ctx, e)
				s.crew.leave(concerned)
				s.queue.done()
			})
		}
	}
}

func (s *Shadow) do(ctx context.Context, e *entry) {
	if e.write {
		follower{s}.follow(ctx, e)
		return
	}
	follower{s}.repeat(ctx, e)
}

// besideOthers reports whether the follower may get an entry while it has others.
func (e *entry) besideOthers() bool {
	return reads(e.method) || e.write && (e.pattern == "/allocations" || e.pattern == "/allocations/*")
}

// concerned lists what an entry changes, or needs.
func (e *entry) concerned() []Resource {
	if !e.write {
		return nil
	}
	return slices.Concat(e.touched, raised(e.pattern, e.body))
}

// crew are those who bring entries to the follower.
type crew struct {
	mu      sync.Mutex
	changed sync.Cond
	busy    map[Resource]int // how many work on a thing
	inside  int
	waiting int  // of inside: how many want to be alone
	alone   bool // one of these is
}

func (c *crew) init() {
	c.changed.L = &c.mu
	c.busy = make(map[Resource]int)
}

// enter waits until no other holder works on any of these things, and fewer than most are inside.
// Only one goroutine may call it.
func (c *crew) enter(all []Resource, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.waiting > 0 || c.inside >= most || slices.ContainsFunc(all, func(of Resource) bool { return c.busy[of] > 0 }) {
		c.changed.Wait()
	}
	c.inside++
	for _, of := range all {
		c.busy[of]++
	}
}

func (c *crew) leave(all []Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	for _, of := range all {
		if c.busy[of]--; c.busy[of] == 0 {
			delete(c.busy, of)
		}
	}
	c.changed.Broadcast()
}

// byItself lets one of those inside do something while all others have left, or wait for
// the same.
func (c *crew) byItself(do func()) {
	c.mu.Lock()
	c.waiting++
	c.changed.Broadcast()
	for c.alone || c.inside > c.waiting {
		c.changed.Wait()
	}
	c.alone = true
	c.mu.Unlock()
	do()
	c.mu.Lock()
	c.alone = false
	c.waiting--
	c.changed.Broadcast()
	c.mu.Unlock()
}

// refuses reports whether a side has refused what the other one has accepted. A refusal
// changes nothing, so the same may be sent again.
func refuses(accepted, answer Answer) bool {
	return accepted.Status/100 == 2 && answer.Status/100 == 4 && answer.Status != http.StatusTooManyRequests
}
