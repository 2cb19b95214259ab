package processes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// LimitFollowerActor is the actor in the LimitFollower's records.
const LimitFollowerActor = "allot:limit-follower"

// limitsAtATime is how many changes are made at once.
const limitsAtATime = 2000

// LimitSource is where limits come from: Keystone.
type LimitSource interface {
	UnifiedLimits(context.Context) (*UnifiedLimits, error)
}

// LimitFollowerConfig are a LimitFollower's choices.
type LimitFollowerConfig struct {
	Source LimitSource
	Submit commands.Submitter
	Views  interface{ View() projector.View }
	Every  time.Duration
	Logger *slog.Logger
	Status *LimitStatus
}

// LimitStatus is how following limits goes. It outlives a LimitFollower.
type LimitStatus struct {
	failures atomic.Int64
	followed atomic.Int64
}

// Failures is how often limits could not be followed.
func (s *LimitStatus) Failures() int64 { return s.failures.Load() }

// Followed is when the ledger last had the limits of its source, as Unix time in
// nanoseconds; 0: not yet.
func (s *LimitStatus) Followed() int64 { return s.followed.Load() }

// LimitFollower keeps the ledger's limits, and the tree of projects, in step with
// those of Keystone. Where Keystone does not answer, or its answer contradicts
// itself, nothing is changed.
type LimitFollower struct {
	cfg LimitFollowerConfig
	process
}

// StartLimitFollower starts with a first round at once.
func StartLimitFollower(cfg LimitFollowerConfig) *LimitFollower {
	f := &LimitFollower{cfg: cfg}
	f.begin(f.run)
	return f
}

func (f *LimitFollower) run(ctx context.Context) {
	ticks := time.NewTicker(f.cfg.Every)
	defer ticks.Stop()
	for {
		if err := f.round(ctx); err == nil {
			f.cfg.Status.followed.Store(time.Now().UnixNano())
		} else if ctx.Err() == nil {
			f.cfg.Status.failures.Add(1)
			f.cfg.Logger.Warn("limits do not follow Keystone; they stay as they are until the next try",
				"error", err, "next_in", f.cfg.Every)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

// round reads Keystone's limits, and submits what differs, all at once if it is
// not very much.
func (f *LimitFollower) round(ctx context.Context) error {
	told, err := f.cfg.Source.UnifiedLimits(ctx)
	if err != nil {
		return err
	}
	view := f.cfg.Views.View()
	classes, err := view.Classes()
	if err != nil {
		return err
	}
	want, err := told.wants(classes)
	if err != nil {
		return fmt.Errorf("the answer of Keystone cannot be followed: %w", err)
	}
	if len(want.unknown) > 0 {
		f.cfg.Logger.Warn("Keystone limits resource classes that the ledger does not have: those limits are left out",
			"classes", want.unknown)
	}
	limits, parents, err := present(view, classes)
	if err != nil {
		return err
	}
	for steps := range slices.Chunk(want.steps(limits, parents), limitsAtATime) {
		outcome, err := f.cfg.Submit.Submit(ctx, commands.Submission{
			ID: commands.NewID(), Actor: LimitFollowerActor, Command: &commands.Batch{Commands: steps},
		})
		if err != nil {
			return err
		}
		if outcome.Rejection != nil {
			return fmt.Errorf("the ledger rejects Keystone's limits: %s", outcome.Rejection)
		}
		f.cfg.Logger.Info("limits follow Keystone", "changes", len(steps), "sequence", outcome.Address.Sequence)
	}
	return nil
}

// present is what the ledger has.
func present(view projector.View, classes *ledger.ClassTable) (map[limitName]int64, map[string]string, error) {
	limits, parents := make(map[limitName]int64), make(map[string]string)
	err := view.Limits(func(l ledger.Limit) bool {
		name := limitName{Project: l.Project, Type: l.Type}
		if l.Type == "" {
			if _, known := classes.Get(l.Class); !known {
				return true // the class is gone, and the limit means nothing
			}
			name.Class = classes.Name(l.Class)
		}
		limits[name] = l.Most
		return true
	})
	if err == nil {
		err = view.ProjectParents(func(p ledger.ProjectParent) bool { parents[p.Project] = p.Parent; return true })
	}
	return limits, parents, err
}
