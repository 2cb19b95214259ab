package audit

import (
	"context"
	"errors"
	"time"

	"github.com/allot-project/allot/api/answers"
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

// series is GET /audit/series?provider=UUID or ?project=ID: usage at a number of
// points from since to until.
func (q *Questions) series(ctx context.Context, p parameters) (any, error) {
	read, err := seriesOf(p)
	if err != nil {
		return nil, err
	}
	points, err := p.number("points", 2, maxPoints, defaultPoints)
	if err != nil {
		return nil, err
	}
	since, until, err := q.span(p)
	if err != nil {
		return nil, err
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
func (q *Questions) span(p parameters) (since, until time.Time, err error) {
	if since, err = p.moment("since"); err != nil {
		return
	}
	if until, err = p.moment("until"); err != nil {
		return
	}
	now := time.Now()
	if until.After(now) {
		return since, until, rest.BadRequest("until: %s is in the future", p["until"])
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
		return since, until, rest.BadRequest("until: is before since")
	}
	return since, until, nil
}

type reading func(projector.View) (used, capacity map[string]int64, err error)

func seriesOf(p parameters) (reading, error) {
	if (p["provider"] == "") == (p["project"] == "") {
		return nil, rest.BadRequest("give one of provider and project")
	}
	if project := p["project"]; project != "" {
		return func(v projector.View) (used, _ map[string]int64, err error) {
			used = make(map[string]int64)
			list, err := answers.Usages(v, project, "")
			for _, u := range list {
				for class, amount := range u.Amounts {
					used[class] += amount
				}
			}
			return used, nil, err
		}, nil
	}
	id, err := p.uuid("provider")
	return func(v projector.View) (used, capacity map[string]int64, err error) {
		return usedOf(v, id)
	}, err
}

func usedOf(v projector.View, id ledger.UUID) (used, capacity map[string]int64, err error) {
	used, capacity = make(map[string]int64), make(map[string]int64)
	p, err := answers.Provider(v, id)
	if err != nil || p == nil {
		return used, capacity, err
	}
	for _, inv := range p.Inventories {
		used[inv.Class], capacity[inv.Class] = inv.Used, inv.Capacity
	}
	return used, capacity, nil
}
