// Package check compares the ledger with its log and with the disk. Replay
// rebuilds everything from a log. VerifyLog compares that with what was made of
// the log earlier (snapshots, read models, signed checkpoints). An Auditor
// compares beside a running ledger. A Scrubber reads the files again, to find
// damage early.
package check

import (
	"context"
	"errors"
	"log/slog"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
)

// Progress is called with the progress of a replay.
type Progress func(done, total uint64)

// Replayed is the outcome of a log so far.
type Replayed struct {
	State   *ledger.State
	Commit  *ledger.Commit // the last one
	Tree    proof.Tree
	Views   *projector.Projector // nil: no read models are made
	Records int
}

// Replay folds a log's commits up to a sequence. If dir is not empty, it makes
// read models there. It calls at, which may be nil, after every commit. A fault
// of the log is a *chain.BadEntryError.
func Replay(
	ctx context.Context, log ledger.Log, to uint64, dir string, progress Progress, at func(*Replayed) error,
) (r *Replayed, err error) {
	r = &Replayed{State: ledger.NewState()}
	if dir != "" {
		if r.Views, err = projector.Open(dir, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.Views.Close()) }()
	}
	return r, chain.Read(ctx, log, ledger.Head{}, to, func(commit *ledger.Commit) error {
		changes, err := r.State.Fold(commit)
		if err != nil {
			return &chain.BadEntryError{Sequence: commit.Sequence, Err: err}
		}
		r.Commit = commit
		r.Tree.Add(commit.Leaves)
		r.Records += len(commit.Records)
		if r.Views != nil {
			if err := r.Views.Fold(commit, changes); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(commit.Sequence, to)
		}
		if at == nil {
			return nil
		}
		return at(r)
	})
}

// Checkpoint returns the checkpoint to sign for the log so far.
func (r *Replayed) Checkpoint() *proof.Checkpoint {
	return &proof.Checkpoint{Ledger: r.State.LedgerID(), Size: r.Tree.Size(), Root: r.Tree.Root(), Head: r.State.Head()}
}
