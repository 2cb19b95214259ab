package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/snapshots"
)

// SnapshotSource finds snapshots for Restore.
type SnapshotSource interface {
	// Heads lists the heads of all snapshots, newest first. It includes damaged
	// snapshots whose head can still be read.
	Heads() ([]ledger.Head, error)
	// Load returns the newest undamaged snapshot at or before a sequence,
	// or false if there is none.
	Load(atOrBefore uint64) (*ledger.State, bool, error)
}

// ErrRefused is in every error with which Restore refuses a log. Nothing was
// written then.
var ErrRefused = errors.New("the log does not match what this server has seen of it")

// recovery is printed with every refusal.
const recovery = `nothing was changed. To recover, put back the log (the NATS store directory or stream) that belongs to ` +
	`this data directory, from a backup or a replica. If the log as it is now is the truth you want, move the folders ` +
	`"readmodel" and "snapshots" of the data directory away; they are rebuilt from the log`

// Progress is called with the progress of a replay.
type Progress func(done, total uint64)

// Restore brings State and read models to the end of the log. It begins with the
// newest good snapshot that the read models have reached, or with nothing. On the
// way it checks the log against its digest chain, and against every head that
// read models, snapshots and others have seen. The Schedule, which may be nil, is
// told what no snapshot holds.
func Restore(
	ctx context.Context, log ledger.Log, snaps SnapshotSource, models ReadModels, seen []ledger.Head, progress Progress,
	due *snapshots.Schedule,
) (*ledger.State, error) {
	last, err := Verify(ctx, log, snaps, models, seen)
	if err != nil {
		return nil, err
	}
	state, found, err := snaps.Load(models.Checkpoint().Sequence)
	if err != nil {
		return nil, err
	}
	if !found {
		state = ledger.NewState()
	}
	if err := replay(ctx, log, state, models, last, progress, due); err != nil {
		return nil, refuse(err)
	}
	state.PassOver(last)
	return state, nil
}

// Verify checks a log against every position that read models, snapshots and
// others have seen of it. It returns the log's last sequence, and changes
// nothing.
func Verify(
	ctx context.Context, log ledger.Log, snaps SnapshotSource, models ReadModels, seen []ledger.Head,
) (last uint64, err error) {
	ofSnapshots, err := snaps.Heads()
	if err != nil {
		return 0, err
	}
	if last, err = log.Last(ctx); err != nil {
		return 0, refuse(err)
	}
	seen = slices.Concat(ofSnapshots, []ledger.Head{models.Checkpoint()}, seen)
	return last, refuse(checkSeen(ctx, log, last, seen))
}

// checkSeen compares the log with positions that were seen of it.
func checkSeen(ctx context.Context, log ledger.Log, last uint64, seen []ledger.Head) error {
	for _, head := range seen {
		if head.Sequence == 0 {
			continue // nothing was seen yet
		}
		if head.Sequence > last {
			return fmt.Errorf("%w: it ends at sequence %d, but sequence %d was seen", ledger.ErrLogBehind, last, head.Sequence)
		}
		err := log.Read(ctx, head.Sequence, head.Sequence, func(e ledger.Entry) error {
			if got := ledger.DigestOf(e.Data); got != head.Digest {
				return fmt.Errorf("%w: sequence %d has digest %s, but %s was seen: the log was cut and written again, or swapped",
					ledger.ErrChain, head.Sequence, got, head.Digest)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func refuse(err error) error {
	if isLogBroken(err) {
		return fmt.Errorf("%w: %w; %s", ErrRefused, err, recovery)
	}
	return err
}

// StateAt makes the State that the command at an address was decided against: the
// State after all records before the address. The address need not have a record,
// because the command may have been rejected. StateAt begins with the newest good
// snapshot before the address.
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
	return state, chain.Read(ctx, log, state.Head(), last, fold)
}

// replay folds every commit after the State's head.
func replay(
	ctx context.Context, log ledger.Log, state *ledger.State, models ReadModels, last uint64, progress Progress,
	due *snapshots.Schedule,
) error {
	first := state.Head().Sequence
	return chain.Read(ctx, log, state.Head(), last, func(c *ledger.Commit) error {
		changes, err := state.Fold(c)
		if err != nil {
			return err
		}
		due.Folded(c)
		if c.Sequence > models.Checkpoint().Sequence {
			if err := models.Fold(c, changes); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(c.Sequence-first, last-first)
		}
		return nil
	})
}
