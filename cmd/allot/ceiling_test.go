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
