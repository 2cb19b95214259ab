package cluster

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// sinceBoot is a clock that no one sets, and that goes on while the process, or
// the machine, sleeps.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(now.Nano())
}

// tenure is the time in which this replica leads, or tries to begin a term. It
// implements writer.Leadership.
//
// It holds a lease, which is renewed by writing through a quorum, and is valid
// for a time from before that was begun: nobody else takes it over who has not
// waited that long since it saw the renewal, which was later.
type tenure struct {
	instance ledger.UUID
	length   time.Duration
	clock    func() time.Duration

	mu    sync.Mutex
	until time.Duration // the lease is valid before; guarded by mu
	later chan struct{} // closed when until moves; guarded by mu
	lost  chan struct{} // closed when somebody else leads, or may
	ended sync.Once
}

func newTenure(instance ledger.UUID, length time.Duration, clock func() time.Duration) *tenure {
	return &tenure{
		instance: instance, length: length, clock: clock, later: make(chan struct{}), lost: make(chan struct{}),
	}
}

// extend makes the lease valid from a moment on, at which it had not been
// renewed yet.
func (t *tenure) extend(from time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from+t.length > t.until {
		t.until = from + t.length
		close(t.later)
		t.later = make(chan struct{})
	}
}

// left is how long the lease is valid yet, and a channel that is closed when
// that changes.
func (t *tenure) left() (time.Duration, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until - t.clock(), t.later
}

// lose ends it: nothing is certain from now on.
func (t *tenure) lose() {
	t.ended.Do(func() { close(t.lost) })
}

// Await implements writer.Leadership.
func (t *tenure) Await(quit <-chan struct{}) error {
	for {
		left, later := t.left()
		select {
		case <-t.lost:
			return commands.ErrNotLeading
		default:
		}
		if left > 0 || leaseIgnored {
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

// Lost implements writer.Leadership.
func (t *tenure) Lost() <-chan struct{} { return t.lost }

// Instance implements writer.Leadership.
func (t *tenure) Instance() ledger.UUID { return t.instance }
