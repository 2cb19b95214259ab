package main

import (
	"os"
	"runtime/debug"
)

const (
	// gcPercent lets garbage grow to twice the memory in use before a collection,
	// unless GOGC says otherwise. That costs memory, but makes requests over NATS a
	// tenth faster.
	gcPercent = 200
	// enoughGarbage is with how much garbage, in bytes, collections are as rare as is good
	// for requests, if there is not more for them to go through: what has pointers.
	enoughGarbage = 160 << 20
	// worthSetting is by how much another percentage must differ to be set: it stops all
	// goroutines.
	worthSetting = 10
	// leastPercent is what garbage may always be, however little collections go through.
	leastPercent = 25
)

// followUse sets how much garbage there may be beside what is in use before a collection,
// unless GOGC does. The less there may be, the less memory the process takes, and the more
// often it collects.
func followUse(now taken) {
	percent := percentOfGarbage(now.live, now.scanned)
	if os.Getenv("GOGC") == "" && max(percent-now.percent, now.percent-percent) >= worthSetting {
		debug.SetGCPercent(percent)
	}
}

// percentOfGarbage returns by how much of what is in use garbage may grow. Both are in
// bytes: what is in use, and what of it collections go through. The rest, such as the caches
// and tables of Pebble and of the NATS server, costs them nothing.
func percentOfGarbage(live, scanned int64) int {
	percentOf := func(garbage int64) int64 { return 100 * garbage / max(live, 1) }
	return int(min(gcPercent, max(percentOf(enoughGarbage), percentOf(scanned), leastPercent)))
}
