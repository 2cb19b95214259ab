package shadow

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// locks keep writes to the same things apart, from the request to the leader until they
// are in the queue: so the queue has them in the order in which the leader took them.
type locks struct {
	mu   sync.Mutex
	held map[Resource]chan struct{} // closed when it is free
}

// lock takes all, which must be sorted, so that two writes cannot wait for each other.
func (l *locks) lock(ctx context.Context, all []Resource) (unlock func(), err error) {
	taken := 0
	unlock = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, of := range all[:taken] {
			close(l.held[of])
			delete(l.held, of)
		}
	}
	for ; taken < len(all); taken++ {
		if err := l.take(ctx, all[taken]); err != nil {
			unlock()
			return nil, err
		}
	}
	return unlock, nil
}

func (l *locks) take(ctx context.Context, of Resource) error {
	for {
		l.mu.Lock()
		busy, taken := l.held[of]
		if !taken {
			if l.held == nil {
				l.held = make(map[Resource]chan struct{})
			}
			l.held[of] = make(chan struct{})
		}
		l.mu.Unlock()
		if !taken {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *locks) busy(of Resource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[of] != nil
}

// gate is where writes wait while the lead changes.
type gate struct {
	inside *semaphore.Weighted
	shut   atomic.Bool   // and no write is inside
	passed atomic.Uint64 // how many have entered
}

// mostInside is how many writes may be inside at a time: more than can be under way.
const mostInside = 1 << 40

func newGate() *gate { return &gate{inside: semaphore.NewWeighted(mostInside)} }

func (g *gate) enter(ctx context.Context) error {
	err := g.inside.Acquire(ctx, 1)
	if err == nil {
		g.passed.Add(1)
	}
	return err
}

func (g *gate) leave() { g.inside.Release(1) }

func (g *gate) quiet() bool {
	if g.shut.Load() {
		return true
	}
	free := g.inside.TryAcquire(mostInside)
	if free {
		g.inside.Release(mostInside)
	}
	return free
}

// close shuts the gate, and waits until no write is inside. If the context ends before, the gate is open again.
func (g *gate) close(ctx context.Context) error {
	err := g.inside.Acquire(ctx, mostInside)
	g.shut.Store(err == nil)
	return err
}

func (g *gate) open() {
	g.shut.Store(false)
	g.inside.Release(mostInside)
}

// keeper keeps what is written, as long as there is memory and it is not too long. All keepers together
// bound what answers under way take, because they are kept until they are compared.
type keeper struct {
	memory *semaphore.Weighted
	text   []byte
	failed bool
}

func (k *keeper) Write(p []byte) (int, error) {
	if !k.failed && (len(k.text)+len(p) > maxCompared || !k.memory.TryAcquire(int64(len(p)))) {
		k.free()
		k.failed = true
	}
	if !k.failed {
		k.text = append(k.text, p...)
	}
	return len(p), nil
}

func (k *keeper) free() {
	k.memory.Release(int64(len(k.text)))
	k.text = nil
}
