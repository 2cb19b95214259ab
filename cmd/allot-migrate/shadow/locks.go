package shadow

import (
	"context"
	"sync"
	"sync/atomic"
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

// busy reports whether a write to a thing is under way.
func (l *locks) busy(of Resource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[of] != nil
}

// gate is where writes wait while the lead changes.
type gate struct {
	mu     sync.Mutex
	inside int
	passed uint64        // how many have entered
	shut   chan struct{} // nil: the gate is open; closed when it opens
	empty  chan struct{} // nil: close does not wait; closed when no write is inside
}

// enter waits until the gate is open.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		if shut == nil {
			g.inside++
			g.passed++
		}
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// quiet reports whether no write is inside, and how many have entered so far.
func (g *gate) quiet() (so bool, passed uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside == 0, g.passed
}

// busy reports whether a write is under way.
func (g *gate) busy() bool {
	quiet, _ := g.quiet()
	return !quiet
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close shuts the gate. The channel is closed when no write is inside.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
	empty := make(chan struct{})
	if g.inside == 0 {
		close(empty)
		return empty
	}
	g.empty = empty
	return empty
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut, g.empty = nil, nil
}

// memory bounds what answers under way take together, because they are kept until they are
// compared.
type memory struct {
	most  int64
	taken atomic.Int64
}

func (m *memory) take(bytes int64) bool {
	if m.taken.Add(bytes) > m.most {
		m.taken.Add(-bytes)
		return false
	}
	return true
}

func (m *memory) give(bytes int64) { m.taken.Add(-bytes) }

// keeper keeps what is written, as long as there is memory and it is not too long.
type keeper struct {
	memory *memory
	text   []byte
	failed bool
}

// Write implements io.Writer.
func (k *keeper) Write(p []byte) (int, error) {
	if !k.failed && (len(k.text)+len(p) > maxCompared || !k.memory.take(int64(len(p)))) {
		k.free()
		k.failed = true
	}
	if !k.failed {
		k.text = append(k.text, p...)
	}
	return len(p), nil
}

func (k *keeper) free() {
	k.memory.give(int64(len(k.text)))
	k.text = nil
}
