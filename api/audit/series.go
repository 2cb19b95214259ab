package audit

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Series is the answer of GET /audit/series: usage over time.
type Series struct {
	Points []Point `json:"points"` // oldest first
}

// Point is one moment of a series.
type Point struct {
	Time     time.Time        `json:"time"`
	Sequence uint64           `json:"sequence"` // sequence of the last commit by then
	Used     map[string]int64 `json:"used"`     // usage by class
	Capacity map[string]int64 `json:"capacity,omitempty"`
}

const (
	defaultPoints = 120
	maxPoints     = 500
)

// series is GET /audit/series?provider=UUID, ?project=ID, ?user=ID or ?fleet=true:
// usage at a number of points from since to until.
func (q sums) series(ctx context.Context, p *parameters) (any, error) {
	read, err := q.seriesOf(ctx, p)
	if err != nil {
		return nil, err
	}
	points := number[int64](p, "points", 2, maxPoints, defaultPoints)
	since, until, err := q.span(p)
	if err != nil {
		return nil, err
	}
	if p.given["fleet"] != "" {
		points = q.fleetPoints(points)
	}
	s := &Series{Points: []Point{}}
	for i := range points {
		at := since.Add(until.Sub(since) / time.Duration(points-1) * time.Duration(i))
		if i == points-1 {
			at = until
		}
		view, err := q.Views.ViewAtTime(at, until)
		if errors.Is(err, projector.ErrBeforeFirst) {
			continue
		}
		if err != nil {
			return nil, err
		}
		point := Point{Time: at.UTC(), Sequence: view.Sequence()}
		if point.Used, point.Capacity, err = read(view); err != nil {
			return nil, err
		}
		s.Points = append(s.Points, point)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return s, nil
}

// span returns the time of a series: by default from the first commit until now.
func (q *Questions) span(p *parameters) (since, until time.Time, err error) {
	if since, until = p.span(); p.fault != nil {
		return since, until, p.fault
	}
	now := time.Now()
	if until.After(now) {
		return since, until, rest.BadRequest("until: %s is in the future", p.given["until"])
	}
	if until.IsZero() {
		until = now
	}
	if since.IsZero() {
		_, first, found, err := q.Views.View().CommitMark(1)
		if err != nil {
			return since, until, err
		}
		if since = until; found {
			since = time.Unix(0, first)
		}
	}
	if since.After(until) {
		return since, until, errBackwards
	}
	return since, until, nil
}

var errBackwards = rest.BadRequest("until: is before since")

// span reads the times from which and to which an answer goes; zero if they are missing.
func (p *parameters) span() (since, until time.Time) {
	since, until = p.moment("since"), p.moment("until")
	if p.fault == nil && !until.IsZero() && until.Before(since) {
		p.fault = errBackwards
	}
	return since, until
}

type reading func(projector.View) (used, capacity map[string]int64, err error)

func (q sums) seriesOf(ctx context.Context, p *parameters) (reading, error) {
	given := 0
	for _, name := range []string{"provider", "project", "user", "fleet"} {
		if p.given[name] != "" {
			given++
		}
	}
	if given != 1 {
		return nil, rest.BadRequest("give one of provider, project, user and fleet")
	}
	if p.given["fleet"] != "" {
		if p.given["fleet"] != "true" {
			return nil, rest.BadRequest("fleet: %q is not true", p.given["fleet"])
		}
		return func(v projector.View) (used, capacity map[string]int64, err error) { return q.totals.of(ctx, v) }, nil
	}
	if user := p.given["user"]; user != "" {
		return func(v projector.View) (used, _ map[string]int64, err error) {
			used, err = usedBy(ctx, v, user)
			return used, nil, err
		}, nil
	}
	if project := p.given["project"]; project != "" {
		return func(v projector.View) (used, _ map[string]int64, err error) {
			used = make(map[string]int64)
			list, err := present.Usages(v, project, "")
			for _, u := range list {
				for class, amount := range u.Amounts {
					used[class] += amount
				}
			}
			return used, nil, err
		}, nil
	}
	id := p.uuid("provider")
	return func(v projector.View) (used, capacity map[string]int64, err error) { return usedOf(v, id) }, p.fault
}

func usedBy(ctx context.Context, v projector.View, user string) (map[string]int64, error) {
	used := make(map[string]int64)
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	looked := 0
	err = v.AllUsages(func(u *ledger.Usage) bool {
		if u.Owner.User == user {
			for _, a := range u.Amounts {
				used[classes.Name(a.Class)] += a.Amount
			}
		}
		looked++
		return looked%1000 != 0 || ctx.Err() == nil
	})
	return used, cmp.Or(err, ctx.Err())
}

func usedOf(v projector.View, id ledger.UUID) (used, capacity map[string]int64, err error) {
	used, capacity = make(map[string]int64), make(map[string]int64)
	p, err := present.Provider(v, id, nil)
	if err != nil || p == nil {
		return used, capacity, err
	}
	for _, inv := range p.Inventories {
		used[inv.Class], capacity[inv.Class] = inv.Used, inv.Capacity
	}
	return used, capacity, nil
}

// fleetReads bounds how many providers a series of the fleet reads: it has fewer
// points when there are many providers.
const fleetReads = 2_000_000

const leastFleetPoints = 8

const keptTotals = 4096

func (q sums) fleetPoints(wanted int64) int64 {
	world, _ := q.Views.World()
	return max(min(wanted, leastFleetPoints), min(wanted, fleetReads/max(1, int64(world.Len()))))
}

// fleetTotals are the sums of all inventories at moments of the past. The past
// does not change, so they are kept. They are made one at a time, which bounds
// what they take.
type fleetTotals struct {
	mu   sync.Mutex
	kept map[uint64]fleetTotal // by sequence; guarded by mu
}

type fleetTotal struct{ used, capacity map[string]int64 }

// of returns the sums at a moment. They must not be changed.
func (f *fleetTotals) of(ctx context.Context, v projector.View) (used, capacity map[string]int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if found, kept := f.kept[v.Sequence()]; kept {
		return found.used, found.capacity, nil
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, nil, err
	}
	sums := make(map[ledger.ClassID]amounts)
	err = v.Inventories(func(list []ledger.Inventory) bool {
		for i := range list {
			sum := sums[list[i].Class]
			sum.used, sum.capacity = sum.used+list[i].Used, sum.capacity+list[i].Units()
			sums[list[i].Class] = sum
		}
		return true
	})
	if err != nil {
		return nil, nil, err
	}
	one := fleetTotal{make(map[string]int64), make(map[string]int64)}
	for class, sum := range sums {
		one.used[classes.Name(class)], one.capacity[classes.Name(class)] = sum.used, sum.capacity
	}
	if f.kept == nil || len(f.kept) >= keptTotals {
		f.kept = make(map[uint64]fleetTotal)
	}
	f.kept[v.Sequence()] = one
	return one.used, one.capacity, nil
}
