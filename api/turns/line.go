package turns

import (
	"container/list"
	"context"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// longestTurn is how long a turn lasts at most. Work that takes longer goes on
// without its place, so that nobody waits for longer because somebody waits for
// something, or needs the processor for long.
const longestTurn = 5 * time.Millisecond

// Lines has a line for each client of a port: its share of the processors for all its
// requests, also for those that take only microseconds. The runtime runs what can run
// in the order in which it came, and looks at the network when nothing can run: who
// sends a thousand requests at once would keep all processors busy, and others waiting
// for all of them. So while there are other clients, nobody has work for all
// processors. A place is held by who works, not by who waits. No lock is shared by two
// clients: who finds one taken gets it after all that wait for it.
type Lines struct {
	alone, shared int // places of a client, without others and beside others

	mu     sync.Mutex
	of     map[netip.Prefix]*line // guarded by mu
	active []*line                // clients that had a turn within recent, as told; guarded by mu
}

const (
	// recent is how long a client counts as one that others must leave room for.
	recent = 250 * time.Millisecond
	// tellEvery is how often a client tells that it is there, and hears of others.
	tellEvery = 50 * time.Millisecond
)

// NewLines returns lines for so many processors.
func NewLines(processors int) *Lines {
	return &Lines{
		alone: max(2*processors, 1), shared: max(processors/2, 1), of: make(map[netip.Prefix]*line),
	}
}

// line is that of one client.
type line struct {
	all  *Lines
	from netip.Prefix
	uses int       // guarded by all.mu
	last time.Time // when it last told that it is there; guarded by all.mu

	crowded atomic.Int64 // how many turns wait

	mu      sync.Mutex
	places  int       // guarded by mu
	told    time.Time // guarded by mu
	holders []*Turn   // who has a place, the oldest first; guarded by mu
	// Who has begun goes before who begins, so that nobody begins much at a time.
	begun, begin list.List // turns that wait; guarded by mu
	looks        bool      // somebody will look for turns that are over; guarded by mu
}

// Turn is what a request, or a connection before it has one, works with. Methods of
// a Turn may be called by several goroutines; they do nothing for a nil Turn.
type Turn struct {
	line *line

	begins bool          // its work makes other turns; guarded by line.mu
	holds  bool          // guarded by line.mu
	since  time.Time     // when it got its place; guarded by line.mu
	place  *list.Element // in the queue; nil: it does not wait; guarded by line.mu
	called chan struct{} // closed when it gets its place; guarded by line.mu
}

// For returns a turn of a client, without a place; of nil Lines, nil. The caller ends
// it.
func (l *Lines) For(from netip.Prefix) *Turn {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[from]
	if one == nil {
		one = &line{all: l, from: from, places: l.shared}
		l.of[from] = one
	}
	one.uses++
	return &Turn{line: one}
}

// Begins says that what is done with the turn makes other turns, as who reads from a
// connection begins its requests. It must not wait.
func (t *Turn) Begins() {
	if t != nil {
		t.line.mu.Lock()
		defer t.line.mu.Unlock()
		t.begins = true
	}
}

// Beside returns another turn of the same client, which the caller does not end.
func (t *Turn) Beside() *Turn {
	if t == nil {
		return nil
	}
	return &Turn{line: t.line}
}

// End says that For is no longer needed, once. The turn, and those beside it, may go
// on. It does not wait for those of the client.
func (t *Turn) End() {
	if t == nil {
		return
	}
	l := t.line.all
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.line.uses--; t.line.uses == 0 {
		delete(l.of, t.line.from)
	}
}

// Take waits for a place, unless the turn has one. It fails only with the context.
func (t *Turn) Take(ctx context.Context) error {
	if t == nil {
		return ctx.Err()
	}
	called := t.line.take(t)
	if called == nil {
		return nil
	}
	select {
	case <-called:
		return nil
	case <-ctx.Done():
		t.line.leave(t)
		return ctx.Err()
	}
}

// GiveUp gives the place to others, and reports whether the turn had one.
func (t *Turn) GiveUp() bool { return t != nil && t.line.leave(t) }

// Yield lets others go first if work of the same client waits. The runtime lets who
// wakes another go on with it at once, for some milliseconds on end.
func (t *Turn) Yield() {
	if t != nil && t.line.crowded.Load() > 0 {
		runtime.Gosched()
	}
}

type turnKey struct{}

// Carry returns a context that carries a turn.
func (t *Turn) Carry(ctx context.Context) context.Context {
	return context.WithValue(ctx, turnKey{}, t)
}

// Aside calls a function that waits for something, while others have the place of
// the context's turn, if it carries one.
func Aside(ctx context.Context, waits func()) {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	t.GiveUp()
	waits()
	_ = t.Take(ctx) // who has gone needs no place
}

// Leave gives up the place of the context's turn for work that has a place of
// another kind, or waits for long.
func Leave(ctx context.Context) {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	t.GiveUp()
}

// take gives a turn a place, or lets it wait for one: then what it returns is closed
// when it has one.
func (l *line) take(t *Turn) <-chan struct{} {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.told) >= tellEvery {
		l.told, l.places = now, l.all.share(l, now)
		l.serve(now)
	}
	switch {
	case t.holds:
		return nil
	case t.place != nil: // another goroutine waits for it, too
		return t.called
	case l.isFree(): // nobody waits
		l.hold(t, now)
		return nil
	}
	t.called = make(chan struct{})
	t.place = l.queueOf(t).PushBack(t)
	l.crowded.Add(1)
	l.look(longestTurn)
	return t.called
}

// share notes that a client is there, and returns how many places it has.
func (l *Lines) share(one *line, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.last = now
	// A client whose connection ended may have another line since.
	l.active = slices.DeleteFunc(l.active, func(other *line) bool {
		return other.from == one.from || now.Sub(other.last) >= recent
	})
	l.active = append(l.active, one)
	if len(l.active) == 1 {
		return l.alone
	}
	return l.shared
}

// Others reports whether another client had a turn recently.
func (l *Lines) Others(than netip.Prefix) bool {
	if l == nil {
		return false
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.active, func(one *line) bool { return one.from != than && now.Sub(one.last) < recent })
}

// isFree reports whether there is a place; mu is held.
func (l *line) isFree() bool { return len(l.holders) < l.places }

// hold gives a turn a free place; mu is held.
func (l *line) hold(t *Turn, now time.Time) {
	t.holds, t.since = true, now
	l.holders = append(l.holders, t)
}

// leave takes a turn's place from it, or takes it out of the queue.
func (l *line) leave(t *Turn) (held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.place != nil {
		l.queueOf(t).Remove(t.place)
		l.crowded.Add(-1)
		t.place = nil
		close(t.called) // another goroutine may wait for the place; it goes on without
	}
	if !t.holds {
		return false
	}
	l.release(t)
	if l.crowded.Load() > 0 {
		l.serve(time.Now())
	}
	return true
}

// release takes a turn's place from it; mu is held.
func (l *line) release(t *Turn) {
	for i := range l.holders {
		if l.holders[i] == t {
			l.holders = append(l.holders[:i], l.holders[i+1:]...)
			break
		}
	}
	t.holds = false
}

// queueOf returns where a turn waits; mu is held.
func (l *line) queueOf(t *Turn) *list.List {
	if t.begins {
		return &l.begin
	}
	return &l.begun
}

// serve gives free places to who has waited for longest; mu is held.
func (l *line) serve(now time.Time) {
	for _, queue := range []*list.List{&l.begun, &l.begin} {
		for l.isFree() && queue.Len() > 0 {
			t := queue.Remove(queue.Front()).(*Turn)
			l.crowded.Add(-1)
			t.place = nil
			close(t.called)
			l.hold(t, now)
		}
	}
}

// look has somebody look for turns that are over, while others wait; mu is held.
func (l *line) look(in time.Duration) {
	if l.looks {
		return
	}
	l.looks = true
	time.AfterFunc(in, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looks = false
		l.end(time.Now())
	})
}

// end ends the turns that have lasted for too long; mu is held.
func (l *line) end(now time.Time) {
	for len(l.holders) > 0 && now.Sub(l.holders[0].since) >= longestTurn {
		l.release(l.holders[0])
	}
	l.serve(now)
	if l.begun.Len()+l.begin.Len() > 0 {
		l.look(longestTurn - now.Sub(l.holders[0].since))
	}
}
