package leading

import (
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// leaseHolder holds the lease while this replica leads, or tries to begin a term. It
// implements writer.Leadership.
//
// It holds a lease that is renewed by a write through a quorum. The lease is
// valid for a time from before that write began. Another replica takes it over
// only after it has waited that long since it saw the renewal, which was later.
type leaseHolder struct {
	instance ledger.UUID
	length   time.Duration
	clock    func() time.Duration

	mu    sync.Mutex
	until time.Duration // the lease is valid until then; guarded by mu
	later chan struct{} // closed when until changes; guarded by mu
	lost  chan struct{} // closed when another replica leads, or may lead
	ended sync.Once
}

func newLeaseHolder(instance ledger.UUID, length time.Duration, clock func() time.Duration) *leaseHolder {
	return &leaseHolder{
		instance: instance, length: length, clock: clock, later: make(chan struct{}), lost: make(chan struct{}),
	}
}

// extend makes the lease valid from a moment at which it had not been renewed
// yet.
func (t *leaseHolder) extend(from time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from+t.length > t.until {
		t.until = from + t.length
		close(t.later)
		t.later = make(chan struct{})
	}
}

// left returns how much longer the lease is valid, and a channel that is closed
// when that changes.
func (t *leaseHolder) left() (time.Duration, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until - t.clock(), t.later
}

// lose ends the leadership: nothing is certain from now on.
func (t *leaseHolder) lose() { t.ended.Do(func() { close(t.lost) }) }

func (t *leaseHolder) Await(quit <-chan struct{}) error {
	for {
		left, later := t.left()
		select {
		case <-t.lost:
			return commands.ErrNotLeading
		default:
		}
		if left > 0 {
			return nil
		}
		select {
		case <-later:
		case <-t.lost:
		case <-quit:
			return commands.ErrNotLeading
		}
	}
}

func (t *leaseHolder) Lost() <-chan struct{} { return t.lost }

func (t *leaseHolder) Instance() ledger.UUID { return t.instance }
