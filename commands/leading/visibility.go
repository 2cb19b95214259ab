package leading

import "sync"

// visibility decides which commits a follower may fold, and so show (rule 7).
type visibility struct {
	mu   sync.Mutex
	free bool // the lease is free, as far as is known; guarded by mu
}

// set notes whether the lease is free.
func (e *visibility) set(free bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free = free
}

// foldIfVisible folds a commit if it may be shown. A leader's answer that comes meanwhile
// waits, so it is not followed by a commit that the leader does not know.
func (r *Replica) foldIfVisible(sequence uint64, fold func() error) (shown bool, err error) {
	r.visibility.mu.Lock()
	defer r.visibility.mu.Unlock()
	if sequence > r.view.sequence.Load() && !r.visibility.free {
		return false, nil
	}
	return true, fold()
}
