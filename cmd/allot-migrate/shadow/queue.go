package shadow

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// entry is a request that the leader has answered.
type entry struct {
	method, path, query string
	prefix              string // "/placement" if the client has put it before the path
	pattern, parameter  string
	header              map[string][]string // what the follower gets
	body                []byte
	touched             []Resource // empty for a read
	write               bool
	lead                Side   // who has answered
	answer              Answer // of the leader
	commandID           string

	number     uint64 // its place among all entries
	translated []byte // the body with the follower's generations; nil: not yet
	again      bool   // the follower may have carried it out before
	asked      bool   // translated has the generations that the follower has told
}

// size is about the memory that an entry takes.
func (e *entry) size() int64 {
	size := 1024 + len(e.path) + len(e.query) + 2*len(e.body) + len(e.answer.Body)
	for _, of := range e.touched {
		size += 2*len(of) + 64
	}
	for name, values := range e.header {
		size += len(name) + len(strings.Join(values, ""))
	}
	return int64(size)
}

// Bounds of the queue that do not depend on its bytes.
const (
	// mostMissed is how many missed things are named. If there are more, everything is
	// compared once these are done.
	mostMissed = 200_000
	// mostReads is how many entries may wait when a read is added: comparisons must not keep
	// the follower from catching up.
	mostReads = 64
	// repairEvery is after how many entries a missed thing is brought in line, so that a
	// busy cloud does not put it off for ever.
	repairEvery = 8
)

// missed is a thing that the follower may have another state of.
type missed struct {
	of    Resource
	tries int
	ask   bool   // a comparison found it, so that a difference is news
	after uint64 // the last entry before it: that one must not come later than the repair
}

// ranks give the order in which missed things are brought in line: what others need first.
var ranks = map[string]int{
	kindClass: 0, kindTrait: 1, kindProvider: 2, kindConsumer: 3, kindUsage: 4, kindGeneration: 5,
}

func rank(of Resource) int {
	kind, _ := of.split()
	return ranks[kind]
}

// names are missed things, each once, by rank.
type names struct {
	known  map[Resource]*missed
	ranked [6][]*missed
	number int
}

func (n *names) add(m missed) {
	if known := n.known[m.of]; known != nil {
		known.after = m.after
		return
	}
	if n.known == nil {
		n.known = make(map[Resource]*missed)
	}
	n.known[m.of] = &m
	n.ranked[rank(m.of)] = append(n.ranked[rank(m.of)], &m)
	n.number++
}

// first returns the one to begin with; nil: there is none.
func (n *names) first() *missed {
	for _, list := range n.ranked {
		if len(list) > 0 {
			return list[0]
		}
	}
	return nil
}

func (n *names) drop(m *missed) {
	r := rank(m.of)
	n.ranked[r][0] = nil
	n.ranked[r] = n.ranked[r][1:]
	delete(n.known, m.of)
	n.number--
}

func (n *names) generations() int { return len(n.ranked[ranks[kindGeneration]]) }

// waiting are missed things that are looked at later, as a heap by time.
type waiting []waits

type waits struct {
	until time.Time
	missed
	perhaps bool // it is most likely in line
}

// Len implements heap.Interface.
func (w waiting) Len() int { return len(w) }

// Less implements heap.Interface.
func (w waiting) Less(i, j int) bool { return w[i].until.Before(w[j].until) }

// Swap implements heap.Interface.
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *waiting) Push(x any) {
	if one, is := x.(waits); is {
		*w = append(*w, one)
	}
}

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	one := (*w)[last]
	(*w)[last] = waits{}
	*w = (*w)[:last]
	return one
}

// queue is what the follower is still to do. To add to it never blocks: what does not fit
// is missed.
type queue struct {
	most int64 // bytes

	mu       sync.Mutex
	entries  []*entry
	touching map[Resource]int // how many entries change a thing
	bytes    int64
	upcoming names // the next round
	round    names // what is worked off
	later    waiting
	owed     int    // of later: all but those that are perhaps in line
	owedGens int    // of owed: generations
	current  int    // how many things are worked on
	number   uint64 // of the last entry
	finished uint64 // how much was done so far
	turns    int
	lost     uint64        // how often something was missed that could not be named
	found    uint64        // how much of lost a comparison of everything has made up for
	news     chan struct{} // has a value when there may be something to do
	changed  chan struct{} // closed when something was finished
}

func newQueue(most int64) *queue {
	return &queue{
		most: most, touching: make(map[Resource]int), news: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

func (q *queue) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// add takes an entry, if there is room. A missed comparison costs less than a missed write,
// so a read is taken only while few entries wait.
func (q *queue) add(e *entry) bool {
	size := e.size()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+size > q.most || !e.write && len(q.entries) >= mostReads {
		return false
	}
	q.number++
	e.number = q.number
	q.entries = append(q.entries, e)
	q.bytes += size
	for _, of := range e.touched {
		q.touching[of]++
	}
	q.wake()
	return true
}

// takesReads reports whether a read would be taken now.
func (q *queue) takesReads() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes < q.most && len(q.entries) < mostReads
}

// miss notes things to bring in line.
func (q *queue) miss(tries int, ask bool, all ...Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, of := range all {
		if q.upcoming.known[of] == nil && q.full() {
			q.lost++
			break
		}
		q.upcoming.add(missed{of, tries, ask, q.number})
	}
	q.wake()
}

// missLater is miss after a while. perhaps means that the things are most likely in line.
func (q *queue) missLater(after time.Duration, perhaps bool, all ...missed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range all {
		if q.full() {
			q.lost++
			break
		}
		heap.Push(&q.later, waits{time.Now().Add(after), m, perhaps})
		q.owe(m.of, perhaps, 1)
	}
	q.wake()
}

// owe counts what is in later. The lock is held.
func (q *queue) owe(of Resource, perhaps bool, by int) {
	if perhaps {
		return
	}
	q.owed += by
	if rank(of) == ranks[kindGeneration] {
		q.owedGens += by
	}
}

// full reports whether no more things can be named. The lock is held.
func (q *queue) full() bool {
	return q.upcoming.number+q.round.number+len(q.later) >= mostMissed
}

// lose notes that something was missed that has no name.
func (q *queue) lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost++
}

// next waits for the next thing to do: an entry, or a missed thing. It ends with the
// context. done must be called after it.
func (q *queue) next(ctx context.Context) (*entry, *missed) {
	for {
		e, m, wait := q.take(time.Now())
		if e != nil || m != nil {
			return e, m
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.news:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, nil
		}
	}
}

// take returns what to do now, or how long there is nothing to do.
func (q *queue) take(now time.Time) (*entry, *missed, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.later) > 0 && !q.later[0].until.After(now) {
		if one, is := heap.Pop(&q.later).(waits); is {
			q.owe(one.of, one.perhaps, -1)
			one.after = q.number
			q.upcoming.add(one.missed)
		}
	}
	if q.round.number == 0 && q.upcoming.number > 0 {
		q.round, q.upcoming = q.upcoming, names{}
	}
	q.turns++
	m := q.round.first()
	switch {
	case len(q.entries) > 0 && (m == nil || q.turns%repairEvery != 0 || m.after >= q.entries[0].number):
		q.current++
		return q.pop(), nil, 0
	case m != nil:
		q.round.drop(m)
		q.current++
		return nil, m, 0
	case len(q.later) > 0:
		return nil, nil, q.later[0].until.Sub(now)
	}
	return nil, nil, time.Hour // news end it
}

// pop takes the first entry. The lock is held.
func (q *queue) pop() *entry {
	e := q.entries[0]
	q.entries[0] = nil
	q.entries = q.entries[1:]
	q.bytes -= e.size()
	for _, of := range e.touched {
		if q.touching[of]--; q.touching[of] == 0 {
			delete(q.touching, of)
		}
	}
	return e
}

func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.current--
	q.finished++
	close(q.changed)
	q.changed = make(chan struct{})
}

// todo is what there is to do.
type todo struct {
	entries, missing int // what is under way counts as an entry
	generations      int // of missing
	lost             bool
	finished         uint64 // how much was done so far
	bytes            int64
	changed          <-chan struct{} // closed when something was finished
}

// length returns what there is to do.
func (q *queue) length() todo {
	q.mu.Lock()
	defer q.mu.Unlock()
	return todo{
		entries: len(q.entries) + q.current, missing: q.upcoming.number + q.round.number + q.owed,
		generations: q.upcoming.generations() + q.round.generations() + q.owedGens,
		lost:        q.lost > q.found, finished: q.finished, bytes: q.bytes, changed: q.changed,
	}
}

// has reports whether an entry waits that changes a thing.
func (q *queue) has(of Resource) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.touching[of] > 0
}

// doubt marks the entries that change a thing, which may have been brought in line with
// what they do.
func (q *queue) doubt(of Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.touching[of] == 0 {
		return
	}
	for _, e := range q.entries {
		if slices.Contains(e.touched, of) {
			e.again = true
		}
	}
}

// behind reports whether an entry waits.
func (q *queue) behind() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.entries) > 0
}

// lostSoFar is what a comparison that begins now makes up for.
func (q *queue) lostSoFar() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// foundAgain notes a comparison of everything that began when so much was lost.
func (q *queue) foundAgain(lost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.found = max(q.found, lost)
}

// wantsComparison reports whether everything should be compared, because something has no
// name, and whether there is room for what a comparison finds.
func (q *queue) wantsComparison() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost > q.found && q.upcoming.number+q.round.number+len(q.later) <= mostMissed/2
}
