package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestCeiling: the memory limit is set while an API reports a heavy load, is
// above the memory in use, and is removed when the load has ended.
func TestCeiling(t *testing.T) {
	given := debug.SetMemoryLimit(-1)
	c := startCeiling()
	defer c.stop()
	eventually := func(what string, is func(limit int64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(debug.SetMemoryLimit(-1)); time.Sleep(time.Millisecond) {
			if runtime.GC(); time.Now().After(end) {
				t.Fatalf("%s: the limit is %d", what, debug.SetMemoryLimit(-1))
			}
		}
	}
	one, other := c.door(), c.door()
	one(true)
	eventually("heavy", func(limit int64) bool { return limit < math.MaxInt64 })
	other(true)
	one(false)
	held := make([]byte, 4*ceilingRoom)
	eventually(
		"more in use than there was room",
		func(limit int64) bool { return limit > int64(len(held)) && limit < math.MaxInt64 },
	)
	runtime.KeepAlive(held)
	other(false)
	eventually("calm", func(limit int64) bool { return limit == given })
}

// TestCeilingLeavesRoomForGarbage: whatever is in use, and however little the process had
// before, the collector need not run all the time.
func TestCeilingLeavesRoomForGarbage(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	justStarted := taken{total: 18 * mib, live: 5 * mib, goal: 12 * mib, other: 6 * mib}
	for live := int64(5 * mib); live < 1<<40; live += live / 2 {
		now := taken{total: 2 * live, live: live, goal: live, other: live / 2}
		room := now.limit(justStarted) - now.live - now.other
		if least := max(live/3, 24*mib); room < least {
			t.Errorf("%d MiB in use: room for %d MiB of garbage, and not for %d", live/mib, room/mib, least/mib)
		}
	}
	for _, before := range []taken{{}, justStarted} {
		if limit := justStarted.limit(before); limit < 80*mib {
			t.Errorf("a process that has just started may have %d MiB", limit/mib)
		}
	}
}
