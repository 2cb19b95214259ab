package audit

import (
	"context"
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
func (q *Questions) history(ctx context.Context, p *parameters) (any, error) {
	asked, err := historyOf(p)
	if err != nil {
		return nil, err
	}
	telling := q.telling(p)
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	list, err := present.History(ctx, telling, q.Log, view, asked)
	return &Page{Sequence: view.Sequence(), History: list}, asBad(err)
}

var historyParameters = []string{"limit", "before", "after", "since", "until", "kind", "whole_ids", "at"}

func historyOf(p *parameters) (*wire.HistoryQuery, error) {
	q := &wire.HistoryQuery{}
	for _, of := range wire.Subjects {
		if p.given[of] == "" {
			continue
		}
		if q.Of != "" {
			return nil, errOneSubject
		}
		q.Of, q.Name = of, p.given[of]
	}
	if q.Of == "" {
		return nil, errOneSubject
	}
	return q, p.into(q)
}

var errOneSubject = rest.BadRequest("give one of %s", strings.Join(wire.Subjects, ", "))
