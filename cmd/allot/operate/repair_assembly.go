package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
)

// repairSource builds a log from the commits that are whole in damaged files, and
// from another log where they are not.
type repairSource struct {
	own      blocks.Folder
	source   ledger.Log // nil: none
	cutAfter uint64     // 0: no cut
}

// measure reads the whole log once and returns its head.
func (a *repairSource) measure(ctx context.Context) (last ledger.Head, err error) {
	j := a.merger(1, a.cutAfter, func(ledger.Entry) error { return nil })
	if err := j.run(ctx); err != nil {
		return last, err
	}
	if j.chain.Head().Sequence == 0 {
		return last, errors.New("there is not one commit")
	}
	return j.chain.Head(), nil
}

// Read yields the entries from..to.
func (a *repairSource) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return a.merger(from, to, yield).run(ctx)
}

func (a *repairSource) merger(from, to uint64, yield func(ledger.Entry) error) *merger {
	return &merger{a: a, from: from, to: to, yield: yield, chain: chain.New(ledger.Head{})}
}

// merger is the progress of a read of a repairSource.
type merger struct {
	a        *repairSource
	from, to uint64 // last sequence; 0: to the end
	last     uint64 // sequence of the last entry
	chain    *chain.Chain
	yield    func(ledger.Entry) error
}

func (j *merger) run(ctx context.Context) error {
	_, err := j.a.own.ScanIntact(ctx, func(e ledger.Entry) error {
		if e.Sequence <= j.last {
			return nil
		}
		if e.Sequence > j.last+1 {
			if err := j.fill(ctx, e.Sequence-1); err != nil {
				return err
			}
		}
		if j.a.source != nil && !j.fits(e) {
			return nil // The source decides what belongs here.
		}
		return j.add(e)
	})
	if err != nil && !errors.Is(err, blocks.ErrNoLog) && !errors.Is(err, errEnough) {
		return err
	}
	if !errors.Is(err, errEnough) {
		if err := j.finish(ctx); err != nil {
			return err
		}
	}
	return j.chain.End()
}

// fits reports whether an entry is the next commit.
func (j *merger) fits(e ledger.Entry) bool {
	sequence, prev, err := ledger.CommitLink(e.Data)
	return err == nil && sequence == e.Sequence && prev == j.chain.Head().Digest
}

func (j *merger) add(e ledger.Entry) error {
	if e.Sequence != j.last+1 {
		return &chain.BadEntryError{Sequence: e.Sequence, Err: ledger.ErrLogGap}
	}
	if _, err := j.chain.NextLink(e); err != nil {
		return err
	}
	j.last = e.Sequence
	if e.Sequence >= j.from {
		if err := j.yield(e); err != nil {
			return err
		}
	}
	if e.Sequence == j.to {
		return errEnough
	}
	return nil
}

// fill takes entries up to a sequence from the source.
func (j *merger) fill(ctx context.Context, to uint64) error {
	if j.a.source == nil {
		return fmt.Errorf(
			"the commits %d to %d are damaged or missing: take them from an export or another server, or cut before them",
			j.last+1, to,
		)
	}
	last, err := j.a.source.Last(ctx)
	if err != nil {
		return err
	}
	if last < to {
		return fmt.Errorf("the commits %d to %d are damaged or missing, and the source ends at %d: use a newer source", j.last+1, to, last)
	}
	return j.a.source.Read(ctx, j.last+1, to, j.add)
}

// finish takes the source's commits after the end of the files, and checks that
// nothing is missing.
func (j *merger) finish(ctx context.Context) error {
	end := j.to
	if end == 0 && j.a.source != nil {
		last, err := j.a.source.Last(ctx)
		if err != nil {
			return err
		}
		end = last
	}
	if end <= j.last {
		return nil
	}
	err := j.fill(ctx, end)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
