// Package machine runs programs on simulated machines: one virtual time, a network
// and disks that a seed decides. It runs one machine at a time, from wake-up to
// idle, in the order of a queue of events.
package machine

import (
	"container/heap"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// World is all machines, and what is between them.
type World struct {
	Random *rand.Rand
	now    int64
	events queue
	order  uint64
	digest uint64
	hosts  map[uint32]*Host
	links  map[[2]uint32]*Link
	// Story is told what happens, for people.
	Story func(now time.Duration, who, what string)
}

// NewWorld returns a world without machines. The same seed gives the same world.
func NewWorld(seed uint64) *World {
	return &World{
		Random: rand.New(rand.NewPCG(seed, 0x616c6c6f74)), digest: 14695981039346656037,
		hosts: map[uint32]*Host{}, links: map[[2]uint32]*Link{}, Story: func(time.Duration, string, string) {},
	}
}

// Now is the time since the world began.
func (w *World) Now() time.Duration { return time.Duration(w.now) }

// Digest is a digest of all that happened.
func (w *World) Digest() string { return fmt.Sprintf("%016x", w.digest) }

// note adds to the digest.
func (w *World) note(values ...uint64) {
	for _, v := range values {
		w.digest = (w.digest ^ v) * 1099511628211
		w.digest ^= w.digest >> 29
	}
}

// noteBytes adds bytes to the digest.
func (w *World) noteBytes(data []byte) {
	h := w.digest
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	w.digest = h
}

// Tell tells the story.
func (w *World) Tell(who, format string, args ...any) {
	w.Story(w.Now(), who, fmt.Sprintf(format, args...))
}

// event is something that happens at a time.
type event struct {
	at    int64
	order uint64
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = event{}
	*q = (*q)[:len(*q)-1]
	return last
}

// at has something happen at a time.
func (w *World) at(when int64, do func()) {
	w.order++
	heap.Push(&w.events, event{max(when, w.now), w.order, do})
}

// After has something happen after a time.
func (w *World) After(wait time.Duration, do func()) { w.at(w.now+int64(wait), do) }

// next is when the next event happens.
func (w *World) next() int64 {
	if len(w.events) == 0 {
		return math.MaxInt64
	}
	return w.events[0].at
}

// Run lets things happen until a time, or until done says so.
func (w *World) Run(until time.Duration, done func() bool) {
	for len(w.events) > 0 && w.next() <= int64(until) && !done() {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		w.note(uint64(e.at), e.order)
		e.do()
	}
}

// process is something that runs from wake-up to idle: a guest, or a client of
// the host's.
type process struct {
	world *World
	now   int64 // its time; not before the world's while it runs
	woken int64 // when it wakes, by the queue; math.MaxInt64: never
	busy  bool  // it does something until it wakes, so nothing wakes it sooner
	held  bool  // it is stopped
	ended bool
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	turns uint64
	done  func() // called when it has ended by itself
}

// start begins a process, which runs what it is given.
func (p *process) start(w *World, run func()) {
	p.world, p.now, p.woken = w, w.now, math.MaxInt64
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		run()
	})
	p.wake(w.now)
}

// wake has a process run at a time, unless it runs sooner.
func (p *process) wake(at int64) {
	at = max(at, p.now)
	if p.ended || p.busy || p.woken <= at {
		return
	}
	p.wakeAt(at)
}

func (p *process) wakeAt(at int64) {
	p.woken = at
	p.turns++
	turn := p.turns
	p.world.at(at, func() {
		if p.turns == turn && !p.ended {
			p.resume()
		}
	})
}

func (p *process) resume() {
	if p.held {
		p.woken, p.busy = math.MaxInt64, false
		return
	}
	p.now, p.woken, p.busy = max(p.now, p.world.now), math.MaxInt64, false
	if _, more := p.next(); !more && !p.ended {
		p.ended = true
		p.done()
	}
}

// killed is what a process that is ended from outside is left with.
type killed struct{}

// rest gives way until the process is woken.
func (p *process) rest() {
	if !p.yield(struct{}{}) {
		panic(killed{})
	}
}

// pass gives way to what happens before the process's time.
func (p *process) pass() {
	if p.now > p.world.next() {
		p.wakeAt(p.now)
		p.busy = true
		p.rest()
	}
}

// kill ends a process at once.
func (p *process) kill() {
	if !p.ended {
		p.ended = true
		p.stop()
	}
}

// hold stops a process, or lets it go on.
func (p *process) hold(held bool) {
	p.held = held
	if !held && !p.ended {
		p.busy = false
		p.woken = math.MaxInt64
		p.wake(p.world.now)
	}
}
