//go:build allot_paces

package server

import "time"

// paceFlags let tests have happen in a second what takes an hour otherwise.
type paceFlags struct {
	ScrubEvery      *time.Duration `hidden:""`
	AnswerWithin    *time.Duration `hidden:""`
	SnapshotRecords *int           `hidden:""`
	SnapshotAge     *time.Duration `hidden:""`
	PartRecords     *int64         `hidden:""`
	PartAge         *time.Duration `hidden:""`
	CopyRecords     *int64         `hidden:""`
	CopyNeeded      *bool          `hidden:""`
	ClockBehind     *time.Duration `hidden:""`

	CommitConsumption bool `hidden:""`
}

func (f paceFlags) paces() paces {
	p := usual
	set(&p.ScrubEvery, f.ScrubEvery)
	set(&p.AnswerWithin, f.AnswerWithin)
	set(&p.SnapshotRecords, f.SnapshotRecords)
	set(&p.SnapshotAge, f.SnapshotAge)
	set(&p.PartRecords, f.PartRecords)
	set(&p.PartAge, f.PartAge)
	set(&p.CopyRecords, f.CopyRecords)
	set(&p.CopyNeeded, f.CopyNeeded)
	set(&p.ClockBehind, f.ClockBehind)
	p.CommitConsumption = f.CommitConsumption
	return p
}

func set[T any](pace, given *T) {
	if given != nil {
		*pace = *given
	}
}
