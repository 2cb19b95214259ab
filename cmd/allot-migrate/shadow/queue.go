package shadow

import (
	"cmp"
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
	ask   bool      // a comparison found it, so that a difference is news
	after uint64    // the last entry before it: that one must not come later than the repair
	until time.Time // it waits so long
}

// ranks give the order in which missed things are brought in line: what others need first.
var ranks = map[string]int{
	kindClass: 0, kindTrait: 1, kindProvider: 2, kindConsumer: 3, kindUsage: 4, kindGeneration: 5,
}

func byRank(a, b missed) int {
	first, _ := a.of.split()
	second, _ := b.of.split()
	return cmp.Or(ranks[first]-ranks[second], strings.Compare(string(a.of), string(b.of)))
}

// queue is what the follower is still to do. To add to it never blocks: what does not fit is missed.
type queue struct {
	most int64 // bytes

	mu       sync.Mutex
	entries  []*entry
	bytes    int64
	missing  map[Resource]missed
	round    []missed               // taken from missing, by rank, and worked off
	unsure   map[Resource]time.Time // most likely in line, and looked at then
	due      time.Time              // when the first of missing and unsure is to be looked at
	levels   int                    // how many of missing and round are generations
	current  int                    // how many things are worked on
	number   uint64                 // of the last entry
	finished uint64                 // how much was done so far
	turns    int
	lost     uint64        // how often something was missed that could not be named
	found    uint64        // how much of lost a comparison of everything has made up for
	news     chan struct{} // has a value when there may be something to do
	changed  chan struct{} // closed when something was finished
}

func newQueue(most int64) *queue {
	return &queue{
		most: most, missing: make(map[Resource]missed), unsure: make(map[Resource]time.Time),
		news: make(chan struct{}, 1), changed: make(chan struct{}),
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
	q.wake()
	return true
}

func (q *queue) miss(all ...Resource) {
	for _, of := range all {
		q.missLater(0, missed{of: of})
	}
}

// missLater notes a thing to bring in line after a while.
func (q *queue) missLater(after time.Duration, m missed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m.until = time.Now().Add(after)
	q.put(m)
}

// put adds to missing, if there is room. The lock is held.
func (q *queue) put(m missed) {
	m.after = q.number
	known, twice := q.missing[m.of]
	switch {
	case twice:
		m.tries, m.ask = known.tries, known.ask
		if known.until.Before(m.until) {
			m.until = known.until
		}
	case q.full():
		q.lost++
		return
	case m.isLevel():
		q.levels++
	}
	q.missing[m.of] = m
	q.due = earlier(q.due, m.until)
	q.wake()
}

func (m missed) isLevel() bool {
	kind, _ := m.of.split()
	return kind == kindGeneration
}

// lookAgain has things that are most likely in line looked at after a while.
func (q *queue) lookAgain(after time.Duration, all ...Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, of := range all {
		if q.full() {
			q.lost++
			return
		}
		until := time.Now().Add(after)
		q.unsure[of] = until
		q.due = earlier(q.due, until)
	}
	q.wake()
}

// full reports whether no more things can be named. The lock is held.
func (q *queue) full() bool { return q.named() >= mostMissed }

func (q *queue) named() int { return len(q.missing) + len(q.round) + len(q.unsure) }

// next waits for the next thing to do: an entry, or a missed thing. It ends with the
// context. done must be called after it.
func (q *queue) next(ctx context.Context) (*entry, *missed) {
	for {
		e, m, wait := q.take(time.Now())
		if e != nil || m != nil {
			return e, m
		}
		select {
		case <-q.news:
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, nil
		}
	}
}

// take returns what to do now, or how long there is nothing to do.
func (q *queue) take(now time.Time) (*entry, *missed, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.round) == 0 && !q.due.After(now) {
		q.begin(now)
	}
	q.turns++
	switch {
	case len(q.entries) > 0 &&
		(len(q.round) == 0 || q.turns%repairEvery != 0 || q.round[0].after >= q.entries[0].number):
		e := q.entries[0]
		q.entries[0] = nil
		q.entries = q.entries[1:]
		q.bytes -= e.size()
		q.current++
		return e, nil, 0
	case len(q.round) > 0:
		m := q.round[0]
		q.round = q.round[1:]
		if m.isLevel() {
			q.levels--
		}
		q.current++
		return nil, &m, 0
	}
	return nil, nil, q.due.Sub(now)
}

// begin begins a round with what is due. The lock is held.
func (q *queue) begin(now time.Time) {
	for of, until := range q.unsure {
		if !until.After(now) {
			delete(q.unsure, of)
			q.put(missed{of: of, until: until})
		}
	}
	for of, m := range q.missing {
		if !m.until.After(now) {
			delete(q.missing, of)
			q.round = append(q.round, m)
		}
	}
	slices.SortFunc(q.round, byRank)
	q.due = now.Add(time.Hour)
	for _, m := range q.missing {
		q.due = earlier(q.due, m.until)
	}
	for _, until := range q.unsure {
		q.due = earlier(q.due, until)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.current--
	q.finished++
	close(q.changed)
	q.changed = make(chan struct{})
}

type todo struct {
	entries, missing int // what is under way counts as an entry
	waiting          int // of entries: those that are not under way
	generations      int // of missing
	lost             bool
	lostSoFar        uint64 // what a comparison that begins now makes up for
	comparison       bool   // everything should be compared, and there is room for what that finds
	reads            bool   // there is room for the repetition of a read
	finished         uint64 // how much was done so far
	bytes            int64
	changed          <-chan struct{} // closed when something was finished
}

func (q *queue) length() todo {
	q.mu.Lock()
	defer q.mu.Unlock()
	lost := q.lost > q.found
	return todo{
		entries: len(q.entries) + q.current, missing: len(q.missing) + len(q.round), waiting: len(q.entries),
		generations: q.levels, lost: lost, lostSoFar: q.lost, comparison: lost && q.named() <= mostMissed/2,
		reads: q.bytes < q.most && len(q.entries) < mostReads, finished: q.finished, bytes: q.bytes, changed: q.changed,
	}
}

func (q *queue) has(of Resource) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.entries, func(e *entry) bool { return slices.Contains(e.touched, of) })
}

// doubt marks the entries that change a thing, which may have been brought in line with what they do.
func (q *queue) doubt(of Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if slices.Contains(e.touched, of) {
			e.again = true
		}
	}
}

// foundAgain notes a comparison of everything that began when so much was lost.
func (q *queue) foundAgain(lost uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.found = max(q.found, lost)
}
