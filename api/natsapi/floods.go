package natsapi

import (
	"sync"
	"time"
)

// mostRefused is how many requests of one connection may be refused in a second
// because too many of its client wait. Even a refusal costs time, at everybody's
// expense, so a connection that does not slow down is cut off.
const mostRefused = 10_000

// floods counts refused requests by connection.
type floods struct {
	cutOff func(connection uint64) // nil: no connection is cut off

	mu      sync.Mutex
	since   time.Time      // guarded by mu
	refusal map[uint64]int // guarded by mu
}

// refused counts a refused request. If there were too many it cuts the connection
// off and returns true.
func (f *floods) refused(connection uint64, now time.Time) bool {
	if f.cutOff == nil || connection == 0 {
		return false
	}
	f.mu.Lock()
	if now.Sub(f.since) >= time.Second {
		f.since, f.refusal = now, make(map[uint64]int)
	}
	f.refusal[connection]++
	over := f.refusal[connection] == mostRefused
	f.mu.Unlock()
	if over {
		f.cutOff(connection)
	}
	return over
}
