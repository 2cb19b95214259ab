package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

// Snapshots finds a State to begin with.
type Snapshots interface {
	Heads() ([]ledger.Head, error) // newest first
	Load(atOrBefore uint64) (*ledger.State, bool, error)
}

// AuditorConfig configures an Auditor.
type AuditorConfig struct {
	Log       ledger.Log
	Snapshots Snapshots
	Views     *projector.Projector
	// World returns the index of providers, and the view of the same moment; nil:
	// the index of Views.
	World func() (*candidates.World, projector.View)
	// Fork returns a copy of the writer's State.
	Fork func(context.Context) (*ledger.State, error)
	// Every is the pause after an audit.
	Every  time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

// The Auditor works for at most workSlice and then rests, so that it uses at most
// a fifth of a core.
const (
	workSlice = 5 * time.Millisecond
	restSlice = 20 * time.Millisecond
)

// ErrDiffers means that the ledger differs from what its log gives.
var ErrDiffers = errors.New("check: this differs from what the log gives")

// AuditResult is the result of an audit.
type AuditResult struct {
	Sequence uint64        `json:"sequence"` // up to which the log was compared
	From     uint64        `json:"from"`     // sequence of the snapshot that it began with; 0: none
	Records  int           `json:"records"`  // that were replayed
	Begun    time.Time     `json:"begun"`
	Took     time.Duration `json:"took_ns"`
	// Fault is the difference; empty: there is none.
	Fault string `json:"fault,omitempty"`
}

// Good reports whether no difference was found.
func (r *AuditResult) Good() bool { return r.Fault == "" }

// Auditor compares a running ledger with its log, slowly and in the background:
// it replays the log from an old snapshot, and compares the result with the
// writer's State and with the read models.
type Auditor struct {
	cfg  AuditorConfig
	stop context.CancelFunc
	idle sync.WaitGroup

	mu   sync.Mutex
	last *AuditResult // guarded by mu
}

// StartAuditor starts with an audit.
func StartAuditor(cfg AuditorConfig) *Auditor {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Auditor{cfg: cfg, stop: cancel}
	a.idle.Go(func() { a.run(ctx) })
	return a
}

// Stop ends the audit that is under way.
func (a *Auditor) Stop() {
	a.stop()
	a.idle.Wait()
}

// Last returns the result of the last audit; nil before the first has ended.
func (a *Auditor) Last() *AuditResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (a *Auditor) run(ctx context.Context) {
	for {
		result, err := Audit(ctx, a.cfg)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			a.cfg.Logger.Warn("the ledger could not be audited", "error", err)
		default:
			a.mu.Lock()
			a.last = result
			a.mu.Unlock()
			if result.Good() {
				a.cfg.Logger.Info(
					"the ledger was audited", "sequence", result.Sequence, "from", result.From, "records", result.Records, "took",
					result.Took,
				)
			} else {
				a.cfg.Logger.Error("THE LEDGER DIFFERS FROM ITS LOG", "sequence", result.Sequence, "fault", result.Fault)
			}
		}
		select {
		case <-time.After(a.cfg.Every):
		case <-ctx.Done():
			return
		}
	}
}

// Audit audits once. The error is about the audit itself; the result has what it
// found.
func Audit(ctx context.Context, cfg AuditorConfig) (*AuditResult, error) {
	a := &audit{AuditorConfig: cfg, ctx: ctx, result: &AuditResult{Begun: cfg.Now()}}
	a.working = a.result.Begun
	err := a.all()
	if fault := a.fault(err); fault != "" {
		a.result.Fault, err = fault, nil
	}
	a.result.Took = cfg.Now().Sub(a.result.Begun)
	return a.result, err
}

// audit is one audit.
type audit struct {
	AuditorConfig
	ctx     context.Context
	result  *AuditResult
	working time.Time // when it last rested
}

// fault tells a fault of the ledger from an error that kept the auditor from
// comparing.
func (a *audit) fault(err error) string {
	for _, wrong := range []error{
		ErrDiffers, ledger.ErrChain, ledger.ErrCorrupt, ledger.ErrInvariant, ledger.ErrLogGap, ledger.ErrLogBehind,
		projector.ErrDamaged,
	} {
		if errors.Is(err, wrong) {
			return err.Error()
		}
	}
	return ""
}

// rest slows the auditor down. It ends when the auditor is to stop.
func (a *audit) rest() error {
	if time.Since(a.working) < workSlice {
		return a.ctx.Err()
	}
	select {
	case <-time.After(restSlice):
	case <-a.ctx.Done():
	}
	a.working = time.Now()
	return a.ctx.Err()
}

func (a *audit) all() error {
	live, err := a.Fork(a.ctx)
	if err != nil {
		return err
	}
	a.result.Sequence = live.Head().Sequence
	replayed, err := a.base()
	if err != nil {
		return err
	}
	if err := a.replay(replayed, live.Head()); err != nil {
		return err
	}
	if err := a.compareStates(replayed, live); err != nil {
		return err
	}
	if err := a.compareViews(replayed); err != nil {
		return err
	}
	return a.compareIndex()
}

// base returns the oldest good snapshot, so that a large part of the log is
// replayed.
func (a *audit) base() (*ledger.State, error) {
	heads, err := a.Snapshots.Heads()
	if err != nil {
		return nil, err
	}
	for _, head := range slices.Backward(heads) {
		if head.Sequence > a.result.Sequence {
			break
		}
		state, found, err := a.Snapshots.Load(head.Sequence)
		if err != nil {
			return nil, err
		}
		if found {
			a.result.From = state.Head().Sequence
			return state, nil
		}
	}
	return ledger.NewState(), nil
}

// replay folds the log's commits after the State. Each must be the commit that
// the read models have folded. It also compares the Merkle tree.
func (a *audit) replay(state *ledger.State, to ledger.Head) error {
	tree := &proof.Tree{}
	if from := state.Head().Sequence; from > 0 {
		view, err := a.Views.ViewAt(from)
		if err != nil {
			return err
		}
		if tree, err = view.Tree(); err != nil {
			return err
		}
	}
	view, err := a.Views.ViewAt(to.Sequence)
	if err != nil {
		return err
	}
	err = ledger.ReadCommits(a.ctx, a.Log, state.Head(), to.Sequence, func(c *ledger.Commit) error {
		if _, err := state.Fold(c); err != nil {
			return err
		}
		tree.Add(c.Leaves)
		a.result.Records += len(c.Records)
		folded, _, found, err := view.CommitMark(c.Sequence)
		if err != nil {
			return err
		}
		if !found || folded != c.Head() {
			return fmt.Errorf("%w: the read models have folded another commit %d", ErrDiffers, c.Sequence)
		}
		return a.rest()
	})
	if err != nil {
		return err
	}
	kept, err := view.Checkpoint()
	if err != nil {
		return err
	}
	if kept.Size != tree.Size() || kept.Root != tree.Root() {
		return fmt.Errorf("%w: the tree of all records", ErrDiffers)
	}
	return nil
}

func (a *audit) compareStates(replayed, live *ledger.State) error {
	want, err := replayed.Digest()
	if err != nil {
		return err
	}
	got, err := live.Digest()
	if err != nil {
		return err
	}
	if got != want || live.Head() != replayed.Head() {
		return fmt.Errorf("%w: the writer's State has digest %s, but should have %s", ErrDiffers, got, want)
	}
	return nil
}

// compareViews compares the holdings in the read models with the State.
func (a *audit) compareViews(state *ledger.State) error {
	view, err := a.Views.ViewAt(state.Head().Sequence)
	if err != nil {
		return err
	}
	compare := func(same bool, err error, what string, id ledger.UUID) error {
		if err == nil && !same {
			err = fmt.Errorf("%w: %s %s in the read models", ErrDiffers, what, id)
		}
		return errors.Join(err, a.rest())
	}
	providers, consumers := 0, 0
	var failure error
	state.Providers(func(p *ledger.Provider) bool {
		providers++
		got, found, err := view.Provider(p.UUID)
		failure = compare(found && got.Same(p), err, "provider", p.UUID)
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	state.Consumers(func(c *ledger.Consumer) bool {
		consumers++
		got, found, err := view.Consumer(c.UUID)
		failure = compare(found && sameConsumer(got, c), err, "consumer", c.UUID)
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	return a.countViews(view, providers, consumers)
}

// countViews checks that the read models hold nothing beyond the State.
func (a *audit) countViews(view projector.View, providers, consumers int) error {
	var resting error
	err := view.Consumers(ledger.NilUUID, func(*ledger.Consumer) bool {
		consumers--
		resting = a.rest()
		return resting == nil
	})
	if err == nil {
		err = resting
	}
	if err != nil {
		return err
	}
	if err := view.Providers(func(*ledger.Provider) bool { providers--; return true }); err != nil {
		return err
	}
	if providers != 0 || consumers != 0 {
		return fmt.Errorf(
			"%w: the read models hold %d providers and %d consumers too many", ErrDiffers, -providers, -consumers,
		)
	}
	return nil
}

// compareIndex compares the index, which has been updated since the start, with
// one that is built anew from the read models of its moment.
func (a *audit) compareIndex() error {
	newest := a.World
	if newest == nil {
		newest = a.Views.World
	}
	world, view := newest()
	var list []*ledger.Provider
	var resting error
	err := view.Providers(func(p *ledger.Provider) bool {
		list = append(list, p)
		resting = a.rest()
		return resting == nil
	})
	if err = cmp.Or(err, resting); err != nil {
		return err
	}
	if err := world.Compare(candidates.NewWorld(list)); err != nil {
		return fmt.Errorf("%w: the index of providers at sequence %d: %w", ErrDiffers, view.Sequence(), err)
	}
	return a.rest()
}

func sameConsumer(a, b *ledger.Consumer) bool {
	return a.Generation == b.Generation && *a.Owner == *b.Owner &&
		a.CreatedAt == b.CreatedAt && a.UpdatedAt == b.UpdatedAt &&
		a.ReservedUntil == b.ReservedUntil &&
		slices.Equal(a.Allocations, b.Allocations)
}
