package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
)

// assembly builds a log from the commits that are whole in damaged files, and
// from another log where they are not.
type assembly struct {
	own      blocks.Folder
	source   ledger.Log // nil: none
	cutAfter uint64     // 0: no cut
}

// measure reads the whole assembly once and returns its head.
func (a *assembly) measure(ctx context.Context) (last ledger.Head, err error) {
	j := a.joint(1, a.cutAfter, func(ledger.Entry) error { return nil })
	if err := j.run(ctx); err != nil {
		return last, err
	}
	if j.chain.Head().Sequence == 0 {
		return last, errors.New("there is not one commit")
	}
	return j.chain.Head(), nil
}

// Read yields the entries from..to.
func (a *assembly) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return a.joint(from, to, yield).run(ctx)
}

func (a *assembly) joint(from, to uint64, yield func(ledger.Entry) error) *joint {
	return &joint{a: a, from: from, to: to, yield: yield, chain: ledger.NewChain(ledger.Head{})}
}

// joint is the progress of an assembly.
type joint struct {
	a        *assembly
	from, to uint64 // last sequence; 0: to the end
	last     uint64 // sequence of the last entry
	chain    *ledger.Chain
	yield    func(ledger.Entry) error
}

func (j *joint) run(ctx context.Context) error {
	_, err := j.a.own.Salvage(ctx, func(e ledger.Entry) error {
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
func (j *joint) fits(e ledger.Entry) bool {
	sequence, prev, err := ledger.CommitLink(e.Data)
	return err == nil && sequence == e.Sequence && prev == j.chain.Head().Digest
}

func (j *joint) add(e ledger.Entry) error {
	if e.Sequence != j.last+1 {
		return &ledger.BadEntryError{Sequence: e.Sequence, Err: ledger.ErrLogGap}
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
func (j *joint) fill(ctx context.Context, to uint64) error {
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
func (j *joint) finish(ctx context.Context) error {
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
