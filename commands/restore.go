package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// SnapshotSource finds snapshots for Restore.
type SnapshotSource interface {
	// Marks lists the heads that snapshots were taken at, newest first,
	// also those of damaged snapshots whose head can still be read.
	Marks() ([]ledger.Head, error)
	// Load returns the newest undamaged snapshot at or before a sequence,
	// or false if there is none.
	Load(atOrBefore uint64) (*ledger.State, bool, error)
}

// ErrRefused wraps whatever makes Restore refuse a log. Nothing was written.
var ErrRefused = errors.New("the log does not match what this server has seen of it")

// recovery is printed with every refusal.
const recovery = `nothing was changed. To recover, put back the log (the NATS store directory or stream) that belongs to ` +
	`this data directory, from a backup or a replica. If the log as it is now is the truth you want, move the folders ` +
	`"readmodel" and "snapshots" of the data directory away; they are rebuilt from the log`

// Progress is told how far a replay has come.
type Progress func(done, total uint64)

// Restore brings State and read models to the end of the log: from the newest
// good snapshot that the read models have reached, or from nothing. On the
// way it checks the log against its digest chain and against every position
// that read models, snapshots and others have seen of it.
func Restore(
	ctx context.Context, log ledger.Log, snaps SnapshotSource, proj Projection, seen []ledger.Head, progress Progress,
) (*ledger.State, error) {
	marks, err := snaps.Marks()
	if err != nil {
		return nil, err
	}
	for _, mark := range append([]ledger.Head{proj.Checkpoint(), proj.Mark()}, seen...) {
		if mark.Sequence > 0 {
			marks = append(marks, mark)
		}
	}
	last, err := log.Last(ctx)
	if err != nil {
		return nil, refuse(err)
	}
	for _, mark := range marks {
		if mark.Sequence > last {
			return nil, refuse(fmt.Errorf("%w: it ends at sequence %d, but sequence %d was seen", ledger.ErrLogBehind, last, mark.Sequence))
		}
		if err := checkMark(ctx, log, mark); err != nil {
			return nil, refuse(err)
		}
	}
	state, found, err := snaps.Load(proj.Checkpoint().Sequence)
	if err != nil {
		return nil, err
	}
	if !found {
		state = ledger.NewState()
	}
	if err := replay(ctx, log, state, proj, last, progress); err != nil {
		return nil, refuse(err)
	}
	state.PassOver(last)
	return state, nil
}

func refuse(err error) error {
	if isLogBroken(err) {
		return fmt.Errorf("%w: %w; %s", ErrRefused, err, recovery)
	}
	return err
}

// checkMark compares the commit at a mark with what was there when the mark
// was made. By the digest chain that vouches for everything before it.
func checkMark(ctx context.Context, log ledger.Log, mark ledger.Head) error {
	return log.Read(ctx, mark.Sequence, mark.Sequence, func(e ledger.Entry) error {
		if got := ledger.DigestOf(e.Data); got != mark.Digest {
			return fmt.Errorf("%w: sequence %d has digest %s, but %s was seen: the log was cut off and written again, or swapped",
				ledger.ErrChain, mark.Sequence, got, mark.Digest)
		}
		return nil
	})
}

// StateAt makes the State that a command was decided against whose record has,
// or would have had, an address: after all records before it. It takes the
// newest good snapshot before it and the log from there.
func StateAt(ctx context.Context, log ledger.Log, snaps SnapshotSource, at ledger.Address) (*ledger.State, error) {
	if at.Sequence == 0 {
		return nil, errors.New("commands: there is no sequence 0")
	}
	state, found, err := snaps.Load(at.Sequence - 1)
	if err != nil {
		return nil, err
	}
	if !found {
		state = ledger.NewState()
	}
	fold := func(c *ledger.Commit) error {
		if c.Sequence < at.Sequence {
			_, err := state.Fold(c)
			return err
		}
		state.Begin()
		for i := range c.Records[:min(at.Index, len(c.Records))] {
			if err := state.Apply(c.Sequence, &c.Records[i]); err != nil {
				return err
			}
		}
		return nil
	}
	last := at.Sequence
	if at.Index == 0 {
		last--
	}
	return state, ledger.ReadCommits(ctx, log, state.Head(), last, fold)
}

// replay folds everything after the State's head.
func replay(ctx context.Context, log ledger.Log, state *ledger.State, proj Projection, last uint64, progress Progress) error {
	first := state.Head().Sequence
	return ledger.ReadCommits(ctx, log, state.Head(), last, func(c *ledger.Commit) error {
		changes, err := state.Fold(c)
		if err != nil {
			return err
		}
		if c.Sequence > proj.Checkpoint().Sequence {
			if err := proj.Fold(c, changes); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(c.Sequence-first, last-first)
		}
		return nil
	})
}
