package server

import (
	"time"

	"github.com/allot-project/allot/ledger/archive"
)

// paces are how often a server does its own upkeep, and how much at once.
type paces struct {
	// ScrubEvery is how often all files are read again, so that damage is found before
	// anything needs them. What there is is read within half of that, whatever its size.
	ScrubEvery time.Duration
	// AnswerWithin is how long the log may be silent before a command is answered 503, and
	// further ones at once, until the log answers: several times as long as a slow disk syncs.
	AnswerWithin time.Duration
	// A snapshot is written after SnapshotRecords, of which one with several events counts as so many, or after
	// SnapshotAge, if there are new records: a start replays no more than that, which takes a second. Of a State with
	// more than twice as many providers and consumers it is half of these, not SnapshotRecords.
	SnapshotRecords int
	SnapshotAge     time.Duration
	// A part of an archive ends with PartRecords, with archive.Usual.Bytes, or when its first record has PartAge:
	// what is younger is in the log only, and lost with all servers.
	PartRecords int64
	PartAge     time.Duration
	// CopyRecords lie between copies of State and read models in an archive; 0: there are none. A
	// server that lacks them replays no more, which takes some minutes.
	CopyRecords int64
	// CopyNeeded makes a server that lacks State and read models take a copy even where a replay takes less.
	CopyNeeded bool
	// CommitConsumption has a server with a signing key commit the ledger to consumption at each whole hour. Servers
	// of tests do not unless they are asked to: an hour may be over while a test counts records.
	CommitConsumption bool
	// ClockBehind is how far the server's clock is behind the time of day.
	ClockBehind time.Duration
}

// clock tells the time of day by the server's clock.
func (p paces) clock() time.Time { return time.Now().Add(-p.ClockBehind) }

// usual are the paces of every server but those of tests.
var usual = paces{
	ScrubEvery: 7 * 24 * time.Hour, AnswerWithin: 5 * time.Second, SnapshotRecords: 100_000, SnapshotAge: time.Hour,
	PartRecords: archive.Usual.Records, PartAge: 15 * time.Minute, CopyRecords: 10_000_000,
	CommitConsumption: true,
}

const (
	// scrubRate is how fast files are read again, in bytes a second, if that is fast enough: a
	// disk hardly notices it.
	scrubRate = 1 << 20
	// rejectedBytes is how much is kept of rejected commands.
	rejectedBytes = 64 << 20
	// archiveRate is how fast archives read the log, in bytes a second: a disk has more.
	archiveRate = 64 << 20
)
