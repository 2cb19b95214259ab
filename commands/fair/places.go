package fair

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of work.
const (
	// maxWaiting is how many pieces of work may wait for places, and shareWaiting how
	// many of a client always may until then. The schedulers of a cloud are one client,
	// and ask all at once.
	maxWaiting   = 4096
	shareWaiting = 16
	// Free is how long a piece of work may run before it needs a place, so that
	// short pieces wait for no other. Only a few of a client's pieces are free at a
	// time.
	Free    = time.Millisecond
	maxFree = 2
	// Limit is how long a piece of work may run in all.
	Limit = 5 * time.Second
)

// ErrTooLong means that the work has taken all its time.
var ErrTooLong = errors.New("the request took too long to answer; try again, or ask for less")

// places are for pieces of work, in turn among clients.
type places struct {
	waits atomic.Int64 // how many wait

	mu      sync.Mutex
	free    int                  // guarded by mu
	waiting Queue[chan struct{}] // closed when it has its place; guarded by mu
	begun   map[string]int       // how many have, by client; guarded by mu
}

func newPlaces(n int) *places {
	return &places{
		free: max(n, 1), begun: make(map[string]int), waiting: Queue[chan struct{}]{Most: maxWaiting, Share: shareWaiting},
	}
}

// Work is one piece of work of a client. It is for one goroutine.
type Work struct {
	places *places
	client string
	placed bool
	free   time.Duration // how long it needs no place
	since  time.Time     // when it last began to work
	took   time.Duration // of work, before
}

func (p *places) begin(client string) *Work {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(client)
}

// add counts a client's work; mu is held.
func (p *places) add(client string) *Work {
	p.begun[client]++
	w := &Work{places: p, client: client, since: time.Now()}
	if p.begun[client] <= maxFree {
		w.free = Free
	}
	return w
}

// place waits for a place for work that may not pause, and so take as long as it needs.
func (p *places) place(ctx context.Context, client string) (*Work, error) {
	w := p.begunAtOnce(client)
	if w.placed {
		return w, nil
	}
	if err := w.wait(ctx, false); err != nil {
		w.End()
		return nil, err
	}
	return w, nil
}

// begunAtOnce begins a piece of work. It has a place if one is free and no work waits.
func (p *places) begunAtOnce(client string) *Work {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.add(client)
	if p.free > 0 && p.waiting.Len() == 0 {
		p.free--
		w.placed = true
	}
	return w
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
	case w.placed && w.places.waits.Load() == 0:
		runtime.Gosched() // other requests are not costly, and may go first
		return nil
	}
	w.took, w.since = took, time.Now()
	return w.wait(ctx, w.placed)
}

// Aside calls a function that is no work, such as waiting for the client, while
// others have the place.
func (w *Work) Aside(ctx context.Context, do func()) error {
	w.took += time.Since(w.since)
	wasPlaced := w.placed
	w.places.mu.Lock()
	w.giveUp()
	w.places.mu.Unlock()
	do()
	w.since = time.Now()
	if !wasPlaced {
		return ctx.Err()
	}
	return w.wait(ctx, true)
}

// wait waits for a place, and gives up the one that the work has. Work that had a
// place before is never turned away.
func (w *Work) wait(ctx context.Context, hadOne bool) error {
	next := w.queue(hadOne)
	if next == nil {
		return ErrBusy
	}
	select {
	case <-next:
		w.placed, w.since = true, time.Now()
	case <-ctx.Done():
		w.leave(next)
	}
	return ctx.Err()
}

// queue has the work wait behind that of others; nil: too much waits.
func (w *Work) queue(hadOne bool) chan struct{} {
	p, next := w.places, make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if hadOne {
		p.waiting.put(w.client, next)
	} else if !p.waiting.Add(w.client, next) {
		return nil
	}
	if w.placed {
		w.placed = false
		p.free++
	}
	p.serve()
	return next
}

// End ends the work. Nil is none.
func (w *Work) End() {
	if w == nil {
		return
	}
	p := w.places
	p.mu.Lock()
	defer p.mu.Unlock()
	w.giveUp()
	if p.begun[w.client]--; p.begun[w.client] == 0 {
		delete(p.begun, w.client)
	}
}

// giveUp gives up the work's place, if it has one; mu of the places is held.
func (w *Work) giveUp() {
	if w.placed {
		w.placed = false
		w.places.free++
		w.places.serve()
	}
}

// serve gives free places to the clients whose turn it is; mu is held.
func (p *places) serve() {
	for ; p.free > 0; p.free-- {
		_, next, ok := p.waiting.Next(nil)
		if !ok {
			break
		}
		close(next)
	}
	p.waits.Store(int64(p.waiting.Len()))
}

// leave takes work out of the line, or returns the place that it has just got.
func (w *Work) leave(next chan struct{}) {
	p := w.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waiting.Remove(w.client, func(c chan struct{}) bool { return c == next }) {
		p.free++
	}
	p.serve()
}
