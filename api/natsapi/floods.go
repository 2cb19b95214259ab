package natsapi

import (
	"sync"
	"time"
)

// mostRefused is how many requests of one connection may be refused in a second
// because too many of its client wait. Even a refusal costs time, at everybody's
// expense, so a connection that does not slow down is cut off.
const mostRefused = 10_000

// mostDiscoveries is how many requests for discovery a connection may send in a
// second. The library answers them all, one by one, and its answers are large.
const mostDiscoveries = 100

// floods counts what a connection should not send much of.
type floods struct {
	most   int                     // in a second
	cutOff func(connection uint64) // nil: nobody is

	mu      sync.Mutex
	since   time.Time      // guarded by mu
	counted map[uint64]int // guarded by mu
}

// count counts one request, and cuts a connection off if there were too many. It
// reports whether it did.
func (f *floods) count(connection uint64, now time.Time) bool {
	if f.cutOff == nil || connection == 0 {
		return false
	}
	f.mu.Lock()
	if now.Sub(f.since) >= time.Second {
		f.since, f.counted = now, make(map[uint64]int)
	}
	f.counted[connection]++
	over := f.counted[connection] == f.most
	f.mu.Unlock()
	if over {
		f.cutOff(connection)
	}
	return over
}
