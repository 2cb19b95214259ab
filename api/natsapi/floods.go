package natsapi

import (
	"maps"
	"sync"
	"time"
)

// mostRefused is how many requests of one client may be refused in a second
// because too many of it wait. Even a refusal costs time, at everybody's expense,
// so a client that does not slow down is cut off. One that has no more requests
// without an answer than the NATS server lets it have, and waits for as long as it
// is told to before it tries again, stays below this.
const mostRefused = 25_000

// mostDescribed is how many descriptions of the service one client gets in a second: each
// takes as much as a hundred other answers.
const mostDescribed = 100

// mostExplored is how many requests for descriptions of one client come in a second. All
// but mostDescribed are refused, and told to wait, so a client that sends so many does not
// wait, and is cut off before much of it has come.
const mostExplored = 10 * mostDescribed

// tally counts by client within a second.
type tally struct {
	mu      sync.Mutex
	since   time.Time      // guarded by mu
	counted map[string]int // guarded by mu
}

// set makes another number of what a client has within this second. It returns both.
func (t *tally) set(client string, now time.Time, to func(was int) int) (was, is int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.since) >= time.Second {
		t.since, t.counted = now, make(map[string]int)
	}
	was = t.counted[client]
	is = to(was)
	t.counted[client] = is
	return was, is
}

// count counts one more of a client, and returns how many there are.
func (t *tally) count(client string, now time.Time) int {
	_, is := t.set(client, now, func(was int) int { return was + 1 })
	return is
}

// floods counts what a client should not send much of.
type floods struct {
	most   int                     // in a second
	cutOff func(connection uint64) // nil: nobody is
	tally  tally
}

// count counts one request, and cuts its client off if there were too many. It
// reports whether it did.
func (f *floods) count(from origin, now time.Time) bool {
	if f.cutOff == nil || from.Connection == 0 {
		return false
	}
	over := f.tally.count(from.client(), now) == f.most
	if over {
		f.cutOff(from.Connection)
	}
	return over
}

// cut cuts a client off, unless that was done within this second. It reports whether it
// did.
func (f *floods) cut(from origin, now time.Time) bool {
	if f.cutOff == nil || from.Connection == 0 {
		return false
	}
	was, _ := f.tally.set(from.client(), now, func(was int) int { return max(was, f.most) })
	if was >= f.most {
		return false
	}
	f.cutOff(from.Connection)
	return true
}

// senders counts by connection the requests that the door looks at.
type senders struct {
	mu   sync.Mutex
	seen map[uint64]int // guarded by mu
}

func (s *senders) count(connection uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil { // nobody has wanted to know yet
		s.seen[connection]++
	}
}

// CountSenders begins to count anew, by connection, the messages that are looked at.
func (s *Service) CountSenders() {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	s.senders.seen = make(map[uint64]int)
}

// SeenOf returns how many messages have been looked at since then, by connection.
func (s *Service) SeenOf() map[uint64]int {
	s.senders.mu.Lock()
	defer s.senders.mu.Unlock()
	return maps.Clone(s.senders.seen)
}
