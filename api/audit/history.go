package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// History serves GET /audit/history: what happened to one thing, newest
// first. Parameters:
//
//	consumer, provider, node, node_allocation, chassis, command   a uuid
//	project, user                                        an id
//	limit                         entries on a page, 1 to 1000; 50 if missing
//	before                        SEQUENCE.INDEX of the last entry of the page before
//	after                         SEQUENCE.INDEX of an entry: those after it, oldest first
//	since, until                  RFC 3339 times
//	kind                          only records of this command, such as Reshape
//	at                            the history as it was at a sequence or RFC 3339 time
type History struct {
	Views *projector.Projector
	Log   ledger.Log
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
}

// Page is the answer.
type Page struct {
	// Sequence is of the commit after which it is so.
	Sequence uint64 `json:"sequence"`
	*wire.History
}

// ServeHTTP implements http.Handler.
func (h *History) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !admitted(w, r, h.Authorize) {
		return
	}
	q, err := parseHistory(rest.ParseQuery(r))
	if err != nil {
		http.Error(w, rest.Message(err.Error()), http.StatusBadRequest)
		return
	}
	page, err := h.page(r.Context(), q)
	switch {
	case errors.Is(err, answers.ErrMoment):
		http.Error(w, rest.Message("at: "+err.Error()), http.StatusBadRequest)
		return
	case errors.Is(err, answers.ErrQuery):
		http.Error(w, rest.Message(strings.TrimPrefix(err.Error(), answers.ErrQuery.Error()+": ")), http.StatusBadRequest)
		return
	case err != nil && outOfReach(w, err):
		return
	case err != nil:
		unreadable(w, h.Logger, "history not answered", "the history cannot be read", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = ledger.PlainEncoder(w).Encode(page) // the client is gone if this fails
}

func (h *History) page(ctx context.Context, q *wire.HistoryQuery) (*Page, error) {
	view, err := answers.ViewAt(h.Views, string(q.At), time.Now())
	if err != nil {
		return nil, err
	}
	list, err := answers.History(ctx, h.Views, h.Log, view, q)
	return &Page{Sequence: view.Sequence(), History: list}, err
}

// historyParameters are those beside the subjects.
var historyParameters = []string{"limit", "before", "after", "since", "until", "kind", "at"}

func parseHistory(query *rest.Query) (*wire.HistoryQuery, error) {
	given, err := parse(query, slices.Concat(answers.HistorySubjects, historyParameters))
	if err != nil {
		return nil, err
	}
	q := &wire.HistoryQuery{}
	for key, value := range given {
		var err error
		switch {
		case slices.Contains(answers.HistorySubjects, key):
			if q.Of != "" {
				return nil, fmt.Errorf("one of %s is needed", strings.Join(answers.HistorySubjects, ", "))
			}
			q.Of, q.Name = key, value
		case key == "limit":
			if q.Limit, err = strconv.Atoi(value); err == nil && q.Limit == 0 {
				err = errors.New("is 1 or more")
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
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if q.Of == "" {
		return nil, fmt.Errorf("one of %s is needed", strings.Join(answers.HistorySubjects, ", "))
	}
	return q, nil
}
