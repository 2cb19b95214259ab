package vitals

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// mostAhead is how far the time of day may be set ahead at once, and how long it is not believed if it was set
// further. Times of records never go back: all records after one with a wrong time would have that time, too.
const mostAhead = 5 * time.Minute

// askEvery is how long the time since boot is told without asking for it.
const askEvery = 100 * time.Millisecond

// Clock is the time of day, compared with a clock that nothing can set. If it was set far ahead
// since the start it is not believed until it has stayed so for a while: a machine that was
// paused is right then. A new start believes it.
type Clock struct {
	wall      func() time.Time
	sinceBoot func() time.Duration
	// awake is another time that nothing can set, which needs no call of the kernel but stands
	// still while the machine sleeps.
	awake func() time.Duration

	mu sync.Mutex
	// bootThen is what sinceBoot said when it was asked last, and awakeThen what awake said; guarded by mu
	bootThen, awakeThen time.Duration
	seen                time.Time     // the newest time that was confirmed; guarded by mu
	seenAt              time.Duration // when that was, since boot; guarded by mu
	// ahead is by how much the time of day is too far ahead, and aheadAt since when; guarded by mu
	ahead, aheadAt time.Duration
}

// NewClock begins with the time of day of now.
func NewClock(wall func() time.Time, sinceBoot func() time.Duration) *Clock {
	begun := time.Now()
	c := &Clock{wall: wall, sinceBoot: sinceBoot, awake: func() time.Duration { return time.Since(begun) }}
	c.Confirm(wall())
	return c
}

// Confirm notes that it is no earlier than a commit says, perhaps one of another server.
func (c *Clock) Confirm(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.askBoot()
	if at = at.Round(0); at.After(c.expected(now)) {
		c.seen, c.seenAt = at, now
	}
}

// expected is the time of day by the clock that nothing can set, at a time since boot. The caller holds mu.
func (c *Clock) expected(now time.Duration) time.Time { return c.seen.Add(now - c.seenAt) }

// boot is the time since boot, mostly without asking for it, since each command wants to know
// the time. It is too little if the machine slept meanwhile. The caller holds mu.
func (c *Clock) boot() time.Duration {
	if passed := c.awake() - c.awakeThen; passed <= askEvery {
		return c.bootThen + passed
	}
	return c.askBoot()
}

// askBoot asks for the time since boot. The caller holds mu.
func (c *Clock) askBoot() time.Duration {
	c.bootThen, c.awakeThen = c.sinceBoot(), c.awake()
	return c.bootThen
}

// look returns the time of day without its reading of another clock, and the time that is expected.
func (c *Clock) look() (wall, expected time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.boot()
	wall, expected = c.wall().Round(0), c.expected(now)
	if wall.Sub(expected) > mostAhead { // or the machine slept
		now = c.askBoot()
		expected = c.expected(now)
	}
	switch ahead := wall.Sub(expected); {
	case ahead <= mostAhead:
		c.ahead = 0
	case c.ahead == 0 || (ahead-c.ahead).Abs() > time.Minute: // it was set, perhaps again
		c.ahead, c.aheadAt = ahead, now
	case now-c.aheadAt >= mostAhead:
		c.seen, c.seenAt, c.ahead = wall, now, 0
		return wall, wall
	}
	return wall, expected
}

// Now returns the time of day or, when that is not believed, the time that is expected.
func (c *Clock) Now() time.Time {
	wall, expected := c.look()
	if wall.Sub(expected) > mostAhead {
		return expected
	}
	return wall
}

var errClock = errors.New("the clock was set ahead")

// Fault returns why the time of day is not believed, or nil.
func (c *Clock) Fault() error {
	wall, expected := c.look()
	if wall.Sub(expected) <= mostAhead {
		return nil
	}
	return fmt.Errorf("%w since this server started: it says %s, and %s is expected. If it is wrong, set it right; if it stays so for %v, "+
		"it is believed", errClock, wall.UTC().Format(time.RFC3339), expected.UTC().Format(time.RFC3339), mostAhead)
}

// Behind returns an error if the clock is far behind the time of the log's last record.
func (c *Clock) Behind(last time.Time) error {
	wall, _ := c.look()
	if last.Sub(wall) <= mostAhead {
		return nil
	}
	return fmt.Errorf("the clock says %s, but the log's last record is of %s: set the clock if it is wrong. If the record was made by a "+
		"clock that was set ahead, new records have its time until then, and reservations end late by up to %v",
		wall.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339), last.Sub(wall).Round(time.Second))
}
