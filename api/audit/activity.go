package audit

import (
	"context"
	"errors"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Activity is the answer of GET /audit/activity: how many commands there were in
// each of some spans of equal length.
type Activity struct {
	Spans []Span `json:"spans"` // oldest first
	// Kept means that this server keeps rejected commands: without it there are
	// no numbers of them.
	Kept bool `json:"kept"`
	// Incomplete means that there may be more rejected commands than are counted:
	// there are too many, or they cannot be read now.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Span is a span of time, up to its end.
type Span struct {
	End      time.Time `json:"end"`
	Records  int64     `json:"records"` // accepted commands
	Rejected int64     `json:"rejected"`
}

const (
	defaultSpans = 60
	maxSpans     = 500
	// maxCounted is how many rejected commands are counted.
	maxCounted = 10_000
	// countWithin is how long their store may take. Without it the records are
	// answered alone.
	countWithin = time.Second
)

// activity is GET /audit/activity. Without since it is the last hour.
func (q sums) activity(ctx context.Context, p *parameters) (any, error) {
	spans := number(p, "points", 1, maxSpans, defaultSpans)
	since, until, err := q.span(p)
	if err != nil {
		return nil, err
	}
	if p.given["since"] == "" {
		since = until.Add(-time.Hour)
	}
	length := until.Sub(since) / time.Duration(spans)
	if length <= 0 {
		return nil, rest.BadRequest("points: %d spans from since to until would have no length", spans)
	}
	a := &Activity{Spans: make([]Span, spans), Kept: q.Rejected != nil}
	before, err := recordsBy(q.Views, since, until)
	if err != nil {
		return nil, err
	}
	for i := range a.Spans {
		end := since.Add(length * time.Duration(i+1))
		if i == spans-1 {
			end = until
		}
		by, err := recordsBy(q.Views, end, until)
		if err != nil {
			return nil, err
		}
		a.Spans[i] = Span{End: end.UTC(), Records: by - before}
		before = by
	}
	if !a.Kept {
		return a, nil
	}
	counting, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	list, err := rejected.List(counting, q.Rejected, rejected.Filter{Since: since, Until: until}, maxCounted)
	for i := range list {
		at := min(int(list[i].Time.Sub(since)/length), spans-1)
		a.Spans[at].Rejected++
	}
	a.Incomplete = len(list) == maxCounted
	if errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil {
		q.Logger.WarnContext(ctx, "rejected commands cannot be counted now", "error", err)
		a.Incomplete, err = true, nil
	}
	return a, err
}

func recordsBy(views *projector.Projector, at, now time.Time) (int64, error) {
	view, err := views.ViewAtTime(at, now)
	if errors.Is(err, projector.ErrBeforeFirst) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return view.Records()
}
