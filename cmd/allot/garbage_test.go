package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// TestPercentOfGarbage: with little in use garbage may be twice as much, with much as much
// as a collection goes through.
func TestPercentOfGarbage(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		live, scanned int64
		want          int
	}{
		{0, 0, 200}, {1, 1, 200}, {20 * mib, 20 * mib, 200}, {80 * mib, 10 * mib, 200}, {160 * mib, 10 * mib, 100},
		{320 * mib, 40 * mib, 50}, {320 * mib, 240 * mib, 75}, {4096 * mib, 0, 25}, {4096 * mib, 4096 * mib, 100},
	} {
		if got := percentOfGarbage(c.live, c.scanned); got != c.want {
			t.Errorf("%d MiB in use, %d of them scanned: %d percent, and not %d", c.live/mib, c.scanned/mib, got, c.want)
		}
	}
}

// TestGarbageFollows: less garbage may come when much is in use, and more when no longer.
func TestGarbageFollows(t *testing.T) {
	t.Setenv("GOGC", "")
	c := startCeiling()
	defer c.stop()
	eventually := func(what string, most, least uint64) {
		t.Helper()
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			runtime.GC()
			metrics.Read(sample)
			percent := sample[0].Value.Uint64()
			if percent >= least && percent <= most {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: garbage may be %d percent", what, percent)
			}
		}
	}
	eventually("little in use", gcPercent, gcPercent)
	held := make([]byte, 2*enoughGarbage)
	eventually("much in use", 60, leastPercent)
	runtime.KeepAlive(held)
	eventually("little again", gcPercent, gcPercent)
}

// TestGarbageFollowsNobodyElse: where GOGC says how much garbage there may be, nothing
// changes that.
func TestGarbageFollowsNobodyElse(t *testing.T) {
	t.Setenv("GOGC", "70")
	before := memoryNow().percent
	followUse(taken{live: 8 * enoughGarbage, percent: before})
	if now := memoryNow().percent; now != before {
		t.Errorf("garbage may be %d percent, and not %d", now, before)
	}
}
