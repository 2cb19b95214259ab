// Package turns shares a few places for costly work among clients, so that a
// client that asks for much delays only itself. Work gives its place up now and
// then, and clients take turns.
package turns

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a pool.
const (
	// maxWaiting is how many pieces of work may wait for places, of one client as
	// of all: the schedulers of a cloud are one client, and ask all at once. A
	// client that finds so many waiting may still have as many as shareWaiting,
	// up to maxWaitingAll in all.
	maxWaiting    = 512
	shareWaiting  = 16
	maxWaitingAll = 4096
	// Free is how long a piece of work may run before it needs a place, so that
	// short pieces wait for nobody. Only a few of a client's pieces are free at a
	// time.
	Free    = time.Millisecond
	maxFree = 2
	// Limit is how long a piece of work may run in all.
	Limit = 5 * time.Second
)

// Errors of Pause.
var (
	// ErrBusy means that too many pieces of work wait for places already.
	ErrBusy = errors.New("too many costly requests are under way; try again")
	// ErrTooLong means that the work has taken all its time.
	ErrTooLong = errors.New("the request took too long to answer; try again, or ask for less")
)

// Pool has places for pieces of work.
type Pool struct {
	waiting atomic.Int64 // how many wait

	mu     sync.Mutex
	free   int                        // places; guarded by mu
	queues map[string][]chan struct{} // by client; guarded by mu
	begun  map[string]int             // how many have, by client; guarded by mu
	turns  []string                   // clients that wait, in turn; guarded by mu
}

// New returns a pool.
func New(places int) *Pool {
	return &Pool{free: max(places, 1), queues: make(map[string][]chan struct{}), begun: make(map[string]int)}
}

// Work is one piece of work of a client. It is for one goroutine.
type Work struct {
	pool   *Pool
	client string
	placed bool
	free   time.Duration // how long it needs no place
	since  time.Time     // when it last began to work
	took   time.Duration // of work, before
}

// Begin begins a piece of work. The caller ends it. Without a pool the work gets
// one of its own.
func (p *Pool) Begin(client string) *Work {
	if p == nil {
		p = New(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun[client]++
	w := &Work{pool: p, client: client, since: time.Now()}
	if p.begun[client] <= maxFree {
		w.free = Free
	}
	return w
}

// Place waits for a place for work that cannot pause, and so may take as long as it
// needs. The caller calls release at its end.
func (p *Pool) Place(ctx context.Context, client string) (release func(), err error) {
	w := p.Begin(client)
	if err := w.wait(ctx, false, false); err != nil {
		w.End()
		return nil, err
	}
	return w.End, nil
}

type workKey struct{}

// Within returns a context that carries the work.
func (w *Work) Within(ctx context.Context) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// Pause lets the work in a context pause, if the context carries any.
func Pause(ctx context.Context) error {
	if w, ok := ctx.Value(workKey{}).(*Work); ok {
		return w.Pause(ctx)
	}
	return ctx.Err()
}

// Pause is called by the work now and then. It lets waiting work run, and fails
// when this work has taken too long, or cannot get a place.
func (w *Work) Pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	took := w.took + time.Since(w.since)
	switch {
	case took > Limit:
		return ErrTooLong
	case !w.placed && took <= w.free:
		return nil
	case w.placed && w.pool.waiting.Load() == 0:
		runtime.Gosched() // other requests are not costly, and may go first
		return nil
	}
	w.took, w.since = took, time.Now()
	return w.wait(ctx, w.placed, w.placed)
}

// Aside calls a function that is no work, such as waiting for the client, while
// others have the place.
func (w *Work) Aside(ctx context.Context, do func()) error {
	w.took += time.Since(w.since)
	wasPlaced := w.placed
	w.giveUp()
	do()
	w.since = time.Now()
	if !wasPlaced {
		return ctx.Err()
	}
	return w.wait(ctx, true, false)
}

// wait waits for a place. It may give up a place first. Work that had a place
// before is never turned away.
func (w *Work) wait(ctx context.Context, letIn, givesUp bool) error {
	next, err := w.pool.queue(w.client, letIn, givesUp)
	if err != nil {
		return err
	}
	w.placed = false
	Leave(ctx) // the work has a place of another kind from now on
	select {
	case <-next:
		w.placed, w.since = true, time.Now()
	case <-ctx.Done():
		w.pool.leave(w.client, next)
	}
	return ctx.Err()
}

// End ends the work.
func (w *Work) End() {
	w.giveUp()
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	if w.pool.begun[w.client]--; w.pool.begun[w.client] == 0 {
		delete(w.pool.begun, w.client)
	}
}

// giveUp gives up the work's place, if it has one.
func (w *Work) giveUp() {
	if w.placed {
		w.placed = false
		w.pool.mu.Lock()
		defer w.pool.mu.Unlock()
		w.pool.free++
		w.pool.serve()
	}
}

// queue puts a client's work into the line for a place.
func (p *Pool) queue(client string, letIn, givesUp bool) (chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queues[client]
	if waiting := p.waiting.Load(); !letIn &&
		(waiting >= maxWaitingAll || waiting >= maxWaiting && len(queue) >= shareWaiting) {
		return nil, ErrBusy
	}
	next := make(chan struct{}, 1)
	if len(queue) == 0 {
		p.turns = append(p.turns, client)
	}
	p.queues[client] = append(queue, next)
	p.waiting.Add(1)
	if givesUp {
		p.free++
	}
	p.serve()
	return next, nil
}

// serve gives free places to the clients whose turn it is; mu is held.
func (p *Pool) serve() {
	for ; p.free > 0 && len(p.turns) > 0; p.free-- {
		client := p.turns[0]
		queue := p.queues[client]
		queue[0] <- struct{}{}
		p.waiting.Add(-1)
		p.turns = p.turns[1:]
		if queue = queue[1:]; len(queue) == 0 {
			delete(p.queues, client)
			continue
		}
		p.queues[client] = queue
		p.turns = append(p.turns, client)
	}
}

// leave takes work out of the line, or returns the place that it has just got.
func (p *Pool) leave(client string, next chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-next:
		p.free++
		p.serve()
		return
	default:
	}
	p.waiting.Add(-1)
	queue := p.queues[client]
	for i := range queue {
		if queue[i] == next {
			queue = append(queue[:i:i], queue[i+1:]...)
			break
		}
	}
	if p.queues[client] = queue; len(queue) > 0 {
		return
	}
	delete(p.queues, client)
	for i := range p.turns {
		if p.turns[i] == client {
			p.turns = append(p.turns[:i:i], p.turns[i+1:]...)
			break
		}
	}
}
