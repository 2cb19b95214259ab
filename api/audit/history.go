package audit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
)

// Page is the answer of GET /audit/history.
type Page struct {
	// Sequence is that of the commit that the answer holds for.
	Sequence uint64 `json:"sequence"`
	*wire.History
}

// history is GET /audit/history: what happened to one thing, newest first.
// Parameters:
//
//	consumer, provider, node, node_allocation, chassis, command   a uuid
//	project, user                                        an id
//	limit                         entries on a page, 1 to 1000; 50 if missing
//	before                        SEQUENCE.INDEX of the last entry of the page before
//	after                         SEQUENCE.INDEX of an entry: those after it, oldest first
//	since, until                  RFC 3339 times
//	kind                          only records of this command, such as Reshape
//	whole_ids                     true: ids in sentences are not shortened
//	at                            the history as it was at a sequence or RFC 3339 time
func (q *Questions) history(ctx context.Context, p parameters) (any, error) {
	asked, err := historyOf(p)
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	telling, err := q.telling(p)
	if err != nil {
		return nil, err
	}
	list, err := present.History(ctx, telling, q.Log, view, asked)
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("%s", strings.TrimPrefix(err.Error(), present.ErrQuery.Error()+": "))
	}
	return &Page{Sequence: view.Sequence(), History: list}, err
}

// historyParameters are the parameters besides the subjects.
var historyParameters = []string{"limit", "before", "after", "since", "until", "kind", "whole_ids", "at"}

// historyOf reads the parameters of a history.
func historyOf(given parameters) (*wire.HistoryQuery, error) {
	q := &wire.HistoryQuery{}
	for key, value := range given {
		var err error
		switch {
		case slices.Contains(present.HistorySubjects, key):
			if q.Of != "" {
				return nil, rest.BadRequest("give one of %s", strings.Join(present.HistorySubjects, ", "))
			}
			q.Of, q.Name = key, value
		case key == "limit":
			if q.Limit, err = strconv.Atoi(value); err == nil && q.Limit == 0 {
				err = errors.New("must be 1 or more")
			}
		case key == "before":
			q.Before = value
		case key == "after":
			q.After = value
		case key == "since":
			q.Since = value
		case key == "until":
			q.Until = value
		case key == "kind":
			q.Kind = value
		case key == "at":
			q.At = wire.Instant(value)
		}
		if err != nil {
			return nil, rest.BadRequest("%s: %v", key, err)
		}
	}
	if q.Of == "" {
		return nil, rest.BadRequest("give one of %s", strings.Join(present.HistorySubjects, ", "))
	}
	return q, nil
}
