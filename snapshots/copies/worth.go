package copies

import (
	"time"

	"github.com/allot-project/allot/projector"
)

// When a copy is fetched. It costs what all of the history weighs, and a replay
// what is missing of it. So who lacks little replays. The figures are of the
// ten million records of docs/cluster.md, three replicas on a machine of two
// cores; only their ratio decides, and it is much the same elsewhere, since
// both are bound by the same processors and disks. They are rounded in favour
// of the replay, which asks nothing of another replica.
const (
	// replayRate is how many records a second a replay folds.
	replayRate = 60_000
	// copyRate is how many bytes of a copy a second are fetched and checked.
	copyRate = 60 << 20
	// copyFixed is what a copy takes however small it is: it has to be asked
	// for and made.
	copyFixed = 2 * time.Second
)

// copyBeatsReplay reports whether to fetch what is offered is faster than to replay the
// log from a sequence on.
func copyBeatsReplay(from uint64, o offer) bool {
	if o.Models.Head.Sequence <= from {
		return false
	}
	return missing(from, o.Models)/replayRate > copyFixed.Seconds()+float64(o.Bytes)/copyRate
}

// MayBeatReplay reports whether to ask for a copy can be of use: a replica that is
// at a position, and lacks some commits, may be about to catch up in no time.
func MayBeatReplay(at projector.Position, from, last uint64) bool {
	if last <= from {
		return false
	}
	if at.Head.Sequence == 0 {
		return true // it cannot tell
	}
	lacks := float64(at.Records) * float64(last-from) / float64(at.Head.Sequence)
	return lacks/replayRate > copyFixed.Seconds()
}
