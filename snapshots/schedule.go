package snapshots

import (
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Schedule says when the next snapshot is due: when replaying what has been folded since
// the last one would take long. It is for the goroutines that fold the log, one after the
// other. The nil Schedule wants none.
type Schedule struct {
	opts ScheduleOptions

	mu     sync.Mutex
	cost   int       // of a replay; guarded by mu, as are the other fields
	last   time.Time // when the last snapshot was due
	saving bool
	saves  sync.WaitGroup
}

// ScheduleOptions configure a Schedule.
type ScheduleOptions struct {
	// Save saves a State. It is called on a goroutine of its own, once at a time.
	Save func(*ledger.State)
	// Records is the number of records after which a snapshot is due, unless the State holds more than twice as many
	// providers and consumers: then it is half of these, so that saving a large State takes less than what changes
	// it, and a replay as long as reading the snapshot. A record of several events counts as so many, because its
	// replay takes as long. 0: no number.
	Records int
	// Age is how long after the last snapshot one is due, if there are new
	// records. 0: however long.
	Age time.Duration
	// Now is the clock; nil: the system's.
	Now func() time.Time
}

// NewSchedule returns a Schedule for a State that has just been saved.
func NewSchedule(opts ScheduleOptions) *Schedule {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Schedule{opts: opts, last: opts.Now()}
}

// Cost is what replaying a commit costs, in records of one event.
func Cost(c *ledger.Commit) (cost int) {
	for i := range c.Records {
		cost += max(1, len(c.Records[i].Events))
	}
	return cost
}

// Folded counts a commit that the last snapshot does not hold.
func (s *Schedule) Folded(c *ledger.Commit) {
	if s == nil {
		return
	}
	cost := Cost(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cost += cost
}

// Due reports whether a snapshot of a State is to be made now. The caller then calls Save or Forget.
func (s *Schedule) Due(state *ledger.State) bool {
	if s == nil || s.opts.Save == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	held := state.ProviderCount() + state.ConsumerCount()
	costly := s.opts.Records > 0 && s.cost >= max(s.opts.Records, held/2)
	old := s.opts.Age > 0 && s.cost > 0 && now.Sub(s.last) >= s.opts.Age
	if s.saving || !costly && !old {
		return false
	}
	s.saving, s.cost, s.last = true, 0, now
	return true
}

// Save saves a State that was due, whose commits are durable.
func (s *Schedule) Save(state *ledger.State) {
	s.saves.Go(func() {
		defer s.Forget()
		s.opts.Save(state)
	})
}

// Forget gives up a snapshot that was due.
func (s *Schedule) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saving = false
}

// Wait waits for the snapshot that is being saved.
func (s *Schedule) Wait() {
	if s != nil {
		s.saves.Wait()
	}
}
