package vitals

import (
	"errors"
	"testing"
	"time"
)

// TestClockSetAhead: a time of day that was set far ahead since the start is neither believed
// nor recorded, until it is set back. One that is set back, or a little ahead, is believed, and
// so is one that the time of another server's commits confirms.
func TestClockSetAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	right, boot, off := time.Now(), time.Duration(0), time.Duration(0)
	wall := func() time.Time { return right.Add(boot + off) }
	c := NewClock(wall, func() time.Duration { return boot })
	check := func(what string, recorded time.Duration) {
		t.Helper()
		if err := c.Fault(); (err == nil) != (recorded == off) || err != nil && !errors.Is(err, errClock) {
			t.Errorf("%s: %v", what, err)
		}
		if got := c.Now().Sub(right.Round(0)) - boot; got != recorded {
			t.Errorf("%s: %v from the right time is recorded, and not %v", what, got, recorded)
		}
	}
	check("at the start", 0)
	boot += year
	check("a year later", 0)
	for _, off = range []time.Duration{mostAhead, -year, 0} {
		check("set by "+off.String(), off)
	}
	off = year
	check("a year ahead", 0)
	boot += mostAhead - time.Second
	check("a year ahead for some minutes", 0)
	var d Disks
	d.Clock = c
	if err := d.Refuse(); err != nil {
		t.Errorf("commands of the start are refused: %v", err)
	}
	d.armed.Store(true)
	if err := d.Refuse(); !errors.Is(err, errClock) {
		t.Errorf("commands are refused because of %v", err)
	}
	off = 0
	check("set right", 0)
	off = year
	check("a year ahead again", 0)
	boot += mostAhead / 2
	off += year
	check("and another one", 0)
	boot += mostAhead - time.Second
	check("that for some minutes", 0)
	boot += time.Second
	check("that for so long that it is believed", off)
	off = -year
	c = NewClock(wall, func() time.Duration { return boot })
	off = 0
	check("set right after a start with a wrong clock", -year)
	c.Confirm(wall())
	check("confirmed by a commit", 0)
	c.Confirm(wall().Add(-year))
	check("after an old commit", 0)
}

// TestClockAsksSeldom: the time since boot is asked for when a while has passed, and whenever the time
// of day is not as expected: also just after the machine has slept it is believed, and nothing is refused.
func TestClockAsksSeldom(t *testing.T) {
	begun, boot, awake, asked := time.Now().Round(0), time.Hour, time.Duration(0), 0
	c := NewClock(func() time.Time { return begun.Add(boot - time.Hour) }, func() time.Duration { asked++; return boot })
	c.awake = func() time.Duration { return awake }
	c.Confirm(begun)
	look := func(what string, most int) {
		t.Helper()
		asked = 0
		for range 10 {
			if err := c.Fault(); err != nil || !c.Now().Equal(begun.Add(boot-time.Hour)) {
				t.Errorf("%s: %v is recorded, and %v refuses", what, c.Now(), err)
			}
		}
		if asked != most {
			t.Errorf("%s: the time since boot was asked for %d times, not %d", what, asked, most)
		}
	}
	look("at once", 0)
	boot, awake = boot+askEvery, awake+askEvery
	look("within the while", 0)
	boot, awake = boot+1, awake+1
	look("after it", 1)
	boot += time.Hour
	look("after an hour of sleep", 1)
}

// TestClockBehindTheLog: a start with a clock that is far behind the log's last record is told of.
func TestClockBehindTheLog(t *testing.T) {
	now := time.Now()
	c := NewClock(func() time.Time { return now }, func() time.Duration { return 0 })
	for ahead, want := range map[time.Duration]bool{-time.Hour: false, 0: false, mostAhead: false, time.Hour: true} {
		if err := c.Behind(now.Round(0).Add(ahead)); (err != nil) != want {
			t.Errorf("a record of %v later: %v", ahead, err)
		}
	}
}
