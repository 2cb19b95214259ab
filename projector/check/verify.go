package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// Evidence is what a log is compared with.
type Evidence struct {
	Snapshots  string // folder; empty: none
	ReadModels string // folder; empty: none
	// Checkpoints are compared with the log if there are Keys to check their
	// signatures with. One of them must then vouch for the log's last commit.
	Checkpoints []proof.Kept
	Keys        note.Verifiers
	// Witnesses are those of which a quorum must have cosigned the checkpoint that vouches for
	// the last commit, if any are named.
	Witnesses proof.Trust
	// Kept are checkpoints that an auditor has kept, not the log's operator. With
	// the key the operator can sign a rewritten log, but cannot make one that
	// agrees with these.
	Kept []proof.Kept
	// Temporary is a folder for read models that are made for the comparison.
	Temporary string
	Progress  Progress
}

// Finding is one fault.
type Finding struct {
	What     string // "log", or what was compared with it
	Sequence uint64 // the first bad sequence; 0: unknown
	Err      error
}

// Error implements error.
func (f *Finding) Error() string {
	if f.Sequence == 0 {
		return fmt.Sprintf("%s: not good: %v", f.What, f.Err)
	}
	return fmt.Sprintf("%s: not good at sequence %d: %v", f.What, f.Sequence, f.Err)
}

// Unwrap returns the fault.
func (f *Finding) Unwrap() error { return f.Err }

// Report lists what was good, and what was not.
type Report struct {
	ledger.Head     // of the last good commit
	Records     int // number of good snapshots
	Snapshots   int // good ones
	Checkpoints int // good ones
	Kept        int // good ones
	Roots       int // good roots of consumption
	ReadModels  ledger.Head
	Findings    []*Finding

	vouched uint64 // the last sequence of a good checkpoint
	lacks   error  // cosignatures: the last good checkpoint after that
}

// Err joins the findings; nil if there are none.
func (r *Report) Err() error {
	errs := make([]error, len(r.Findings))
	for i, f := range r.Findings {
		errs[i] = f
	}
	return errors.Join(errs...)
}

func (r *Report) add(what string, sequence uint64, err error) {
	r.Findings = append(r.Findings, &Finding{what, sequence, err})
}

// verification is one pass over a log.
type verification struct {
	Evidence
	report *Report
	last   uint64                       // of the log
	due    map[uint64][]func(*Replayed) // compared after each commit
}

// VerifyLog replays a log up to its last sequence, and compares on the way: once, unless roots of consumption came
// late. The error is about the pass itself; the report has what it found.
func VerifyLog(ctx context.Context, log ledger.Log, last uint64, e Evidence) (*Report, error) {
	v := &verification{Evidence: e, report: &Report{}, last: last, due: make(map[uint64][]func(*Replayed))}
	if err := v.prepareSnapshots(); err != nil {
		return nil, err
	}
	compareViews := v.prepareReadModels()
	v.prepareCheckpoints()
	dir := ""
	if compareViews {
		dir = filepath.Join(e.Temporary, "readmodel")
	}
	consumed := newConsumption(v.report)
	r, err := Replay(ctx, log, last, dir, e.Progress, func(r *Replayed) error {
		consumed.fold(r.Commit, r.State)
		for _, compare := range v.due[r.State.Head().Sequence] {
			compare(r)
		}
		return nil
	})
	if r == nil {
		return nil, err
	}
	v.report.Head, v.report.Records = r.State.Head(), r.Records
	var bad *chain.BadEntryError
	switch {
	case errors.As(err, &bad):
		v.report.add("log", bad.Sequence, bad.Err)
	case errors.Is(err, ledger.ErrLogGap):
		v.report.add("log", r.State.Head().Sequence+1, err)
	case err != nil:
		return nil, err
	}
	v.uncovered()
	return v.report, consumed.compareLate(ctx, log, e.Progress)
}

// at compares after a commit, which the log must reach.
func (v *verification) at(what string, sequence uint64, compare func(*Replayed) error) {
	if sequence > v.last || sequence == 0 {
		v.report.add(what, sequence, fmt.Errorf("%w: it ends at %d", ledger.ErrLogBehind, v.last))
		return
	}
	v.due[sequence] = append(v.due[sequence], func(r *Replayed) {
		if err := compare(r); err != nil {
			v.report.add(what, sequence, err)
		}
	})
}

func (v *verification) prepareSnapshots() error {
	if v.Snapshots == "" {
		return nil
	}
	paths, err := snapshots.Files(v.Snapshots)
	if err != nil {
		return err
	}
	for _, path := range paths {
		what := "snapshot " + path
		head, err := snapshots.Position(path)
		if err != nil {
			v.report.add(what, 0, err)
			continue
		}
		v.at(what, head.Sequence, func(r *Replayed) error {
			stored, err := snapshots.Read(path)
			if err != nil {
				return err
			}
			want, err := r.State.Digest()
			if err != nil {
				return err
			}
			if got, err := stored.Digest(); err != nil || got != want || head != r.State.Head() {
				return errors.Join(err, fmt.Errorf("it has digest %s, but the log gives %s", got, want))
			}
			v.report.Snapshots++
			return nil
		})
	}
	return nil
}

// prepareReadModels reports whether there are read models to compare, at the
// sequence that they have. A killed server has not synced its last commits.
func (v *verification) prepareReadModels() bool {
	if v.ReadModels == "" {
		return false
	}
	if _, err := os.Stat(v.ReadModels); errors.Is(err, os.ErrNotExist) {
		return false
	}
	head, got, err := projector.Inspect(v.ReadModels)
	if err != nil {
		v.report.add("read models", 0, err)
		return false
	}
	if head.Sequence == 0 {
		return false
	}
	v.at("read models", head.Sequence, func(r *Replayed) error {
		want, err := r.Views.Digest()
		if err != nil {
			return err
		}
		if head != r.State.Head() || got != want {
			return fmt.Errorf("their digest is %s, but the log gives %s", got, want)
		}
		v.report.ReadModels = head
		return nil
	})
	return head.Sequence <= v.last
}

func (v *verification) prepareCheckpoints() {
	if v.Keys == nil {
		return
	}
	v.prepareEach("checkpoint ", v.Checkpoints, &v.report.Checkpoints)
	v.prepareEach("kept checkpoint ", v.Kept, &v.report.Kept)
}

func (v *verification) prepareEach(kind string, list []proof.Kept, good *int) {
	for _, kept := range list {
		what := kind + kept.Path
		c, err := proof.Open(kept.Signed, v.Keys)
		if err != nil {
			v.report.add(what, 0, err)
			continue
		}
		v.at(what, c.Sequence, func(r *Replayed) error {
			if got := r.Checkpoint(); *got != *c {
				return fmt.Errorf("it vouches for\n%sand the log gives\n%s", c, got)
			}
			*good++
			if lacks := v.Witnesses.Cosigned(kept.Signed); lacks != nil {
				v.report.lacks = fmt.Errorf("%s: %w", kept.Path, lacks)
			} else {
				v.report.vouched = max(v.report.vouched, c.Sequence)
			}
			return nil
		})
	}
}

// uncovered makes the finding about commits after the last checkpoint: every
// holder of the log could have added them.
func (v *verification) uncovered() {
	if v.Keys == nil || v.report.vouched >= v.report.Sequence {
		return
	}
	err := fmt.Errorf("%w vouches for the commits from here to %d", ErrUnsigned, v.report.Sequence)
	if v.report.lacks != nil {
		err = fmt.Errorf("%w: %w", err, v.report.lacks)
	}
	v.report.add("log", v.report.vouched+1, err)
}

// ErrUnsigned means that there are commits after the last good signed checkpoint.
var ErrUnsigned = errors.New("check: no signed checkpoint")
