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

// floods counts what a client should not send much of.
type floods struct {
	most   int                     // in a second
	cutOff func(connection uint64) // nil: nobody is

	mu      sync.Mutex
	since   time.Time      // guarded by mu
	counted map[string]int // by client; guarded by mu
}

// count counts one request, and cuts its client off if there were too many. It
// reports whether it did.
func (f *floods) count(from origin, now time.Time) bool {
	if f.cutOff == nil || from.Connection == 0 {
		return false
	}
	client := from.client()
	f.mu.Lock()
	if now.Sub(f.since) >= time.Second {
		f.since, f.counted = now, make(map[string]int)
	}
	f.counted[client]++
	over := f.counted[client] == f.most
	f.mu.Unlock()
	if over {
		f.cutOff(from.Connection)
	}
	return over
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
