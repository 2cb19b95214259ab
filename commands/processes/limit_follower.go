package processes

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
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

// Failures is how often limits could not be followed, each of which the log has named by then.
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
			f.cfg.Logger.Warn("limits do not follow Keystone; they stay as they are until the next try",
				"error", err, "next_in", f.cfg.Every)
			f.cfg.Status.failures.Add(1)
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

// UnifiedLimits is what Keystone says about limits and projects.
type UnifiedLimits struct {
	Flat       bool // the model: projects are not held to the limits of those above
	Registered []UnifiedLimit
	Limits     []UnifiedLimit
	Projects   []UnifiedProject
}

// UnifiedLimit is a registered limit, or a limit of a project or a domain.
type UnifiedLimit struct {
	Project  string // a domain is one; empty: registered
	Domain   bool   // Project is a domain's id
	Resource string
	Limit    int64 // -1: none
}

// UnifiedProject is a project in Keystone's tree.
type UnifiedProject struct {
	ID, Parent, Domain string
}

// The names of resources in Keystone that are limits of the ledger, as nova has
// them: "class:VCPU", and "servers".
const (
	classPrefix     = "class:"
	serversResource = "servers"
	// ServersType is the consumer type that is counted as servers.
	ServersType = "INSTANCE"
	// deepest is how many projects may be above one, see commands.PlaceProject.
	deepest = 16
)

// limitName is what a limit of the ledger is of, by name.
type limitName struct{ Project, Class, Type string }

func (n limitName) compare(other limitName) int {
	return cmp.Or(
		cmp.Compare(n.Project, other.Project), cmp.Compare(n.Class, other.Class), cmp.Compare(n.Type, other.Type),
	)
}

// wanted are the limits and the tree that the ledger is to have.
type wanted struct {
	limits  map[limitName]int64
	parents map[string]string
	unknown []string // classes that the ledger does not have
}

// wants reads an answer of Keystone. An answer that contradicts itself is an
// error, and nothing is to follow from it.
func (u *UnifiedLimits) wants(classes *ledger.ClassTable) (*wanted, error) {
	if len(u.Projects) == 0 {
		return nil, fmt.Errorf("it lists no projects: may the account list them?")
	}
	w := &wanted{limits: make(map[limitName]int64), parents: make(map[string]string)}
	registered := make(map[string]bool)
	for _, l := range u.Registered {
		if registered[l.Resource] {
			return nil, fmt.Errorf("it has two registered limits of %q: choose a service and a region", l.Resource)
		}
		registered[l.Resource] = true
		if err := w.add(l, classes); err != nil {
			return nil, err
		}
	}
	for _, l := range u.Limits {
		if l.Project == "" {
			return nil, fmt.Errorf("a limit of %q is of no project and no domain", l.Resource)
		}
		if !registered[l.Resource] {
			return nil, fmt.Errorf("the limit of %q for %s has no registered limit", l.Resource, l.Project)
		}
		if err := w.add(l, classes); err != nil {
			return nil, err
		}
	}
	if u.Flat {
		return w, nil
	}
	return w, w.tree(u)
}

// add adds a limit. One of a resource that the ledger does not count is left out.
func (w *wanted) add(l UnifiedLimit, classes *ledger.ClassTable) error {
	if l.Resource == "" || l.Limit < -1 {
		return fmt.Errorf("a limit of %d of %q is none", l.Limit, l.Resource)
	}
	name := limitName{Project: l.Project}
	if class, is := strings.CutPrefix(l.Resource, classPrefix); is {
		if _, known := classes.ID(class); !known {
			w.unknown = append(w.unknown, class)
			return nil
		}
		name.Class = class
	} else if l.Resource == serversResource {
		name.Type = ServersType
	} else {
		return nil
	}
	if _, twice := w.limits[name]; twice {
		return fmt.Errorf("it has two limits of %q for %q: choose a service and a region", l.Resource, l.Project)
	}
	switch {
	case l.Limit >= 0:
		w.limits[name] = l.Limit
	case l.Project != "":
		w.limits[name] = math.MaxInt64 // the default must not hold for it
	}
	return nil
}

// tree places projects. One stands below its domain only if that has limits: what
// is not limited there is then without a limit, since the defaults are those of
// projects.
func (w *wanted) tree(u *UnifiedLimits) error {
	listed := make(map[string]UnifiedProject, len(u.Projects))
	for _, p := range u.Projects {
		if _, twice := listed[p.ID]; twice || p.ID == "" {
			return fmt.Errorf("it lists project %q twice, or without an id", p.ID)
		}
		listed[p.ID] = p
	}
	limited := make(map[string]bool)
	for _, l := range u.Limits {
		limited[l.Project] = limited[l.Project] || l.Domain
	}
	for _, p := range u.Projects {
		_, isProject := listed[p.Parent]
		switch {
		case p.Parent == "" || p.Parent == p.Domain && !limited[p.Domain]:
		case isProject || p.Parent == p.Domain:
			w.parents[p.ID] = p.Parent
		default:
			return fmt.Errorf("project %s is below %s, which it does not list", p.ID, p.Parent)
		}
	}
	for domain, is := range limited {
		if is {
			w.free(domain)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.parents)) {
		if depth := w.depth(id); depth > deepest {
			return fmt.Errorf("project %s is below itself, or more than %d projects are above it", id, deepest)
		}
	}
	return nil
}

// free takes a domain out of the defaults.
func (w *wanted) free(domain string) {
	for name := range maps.Clone(w.limits) {
		if name.Project != "" {
			continue
		}
		if name.Project = domain; !w.has(name) {
			w.limits[name] = math.MaxInt64
		}
	}
}

func (w *wanted) has(name limitName) bool {
	_, has := w.limits[name]
	return has
}

// depth is how many projects are above one; more than deepest if that does not end.
func (w *wanted) depth(id string) (depth int) {
	for above, below := w.parents[id]; below && depth <= deepest; above, below = w.parents[above] {
		depth++
	}
	return depth
}

// steps are the commands that make the ledger's limits and tree those that are
// wanted. Limits of other types of consumers stay as they are.
func (w *wanted) steps(limits map[limitName]int64, parents map[string]string) (steps []commands.Command) {
	for _, id := range slices.Sorted(maps.Keys(parents)) {
		// A project that moves is taken out first: by the old tree it may be above
		// the one that it comes to stand below.
		if w.parents[id] != parents[id] {
			steps = append(steps, &commands.PlaceProject{Project: id})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(w.parents), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.depth(a), w.depth(b)), cmp.Compare(a, b))
	}) {
		if parents[id] != w.parents[id] {
			steps = append(steps, &commands.PlaceProject{Project: id, Parent: w.parents[id]})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(limits), limitName.compare) {
		if !w.has(name) && (name.Class != "" || name.Type == ServersType) {
			steps = append(steps, &commands.SetLimit{Project: name.Project, Class: name.Class, Type: name.Type})
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(w.limits), limitName.compare) {
		most := w.limits[name]
		if before, has := limits[name]; !has || before != most {
			steps = append(steps, &commands.SetLimit{Project: name.Project, Class: name.Class, Type: name.Type, Most: &most})
		}
	}
	return steps
}
