package natsapi

import (
	"sync"
	"time"
)

// mostRefused is how many requests of one connection are refused in a second
// because too many of its client wait. Even to refuse takes time, and that is
// everybody's: whoever does not slow down is cut off.
const mostRefused = 10_000

// floods counts refused requests by connection.
type floods struct {
	cutOff func(connection uint64) // nil: nobody is

	mu      sync.Mutex
	since   time.Time      // guarded by mu
	refusal map[uint64]int // guarded by mu
}

// refused counts a refused request, and cuts a connection off if there were
// too many. It reports whether it did.
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
