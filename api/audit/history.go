package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// History serves GET /audit/history: what happened to one thing, newest
// first. Parameters:
//
//	consumer, provider, node, node_allocation, command   a uuid
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
	q, err := parseHistory(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	page, err := h.page(r.Context(), q)
	switch {
	case errors.Is(err, answers.ErrMoment):
		http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
		return
	case errors.Is(err, answers.ErrQuery):
		http.Error(w, strings.TrimPrefix(err.Error(), answers.ErrQuery.Error()+": "), http.StatusBadRequest)
		return
	case err != nil:
		h.Logger.Error("history not answered", "error", err)
		http.Error(w, "the history cannot be read; the server's log says more", http.StatusInternalServerError)
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

func parseHistory(values url.Values) (*wire.HistoryQuery, error) {
	q := &wire.HistoryQuery{}
	for key, list := range values {
		if len(list) > 1 {
			return nil, fmt.Errorf("%s: given more than once", key)
		}
		var err error
		value := list[0]
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
			if q.Before = value; value == "" {
				err = errors.New("is empty")
			}
		case key == "after":
			if q.After = value; value == "" {
				err = errors.New("is empty")
			}
		case key == "since":
			q.Since = value
		case key == "until":
			q.Until = value
		case key == "kind":
			q.Kind = value
		case key == "at":
			if q.At = wire.Instant(value); value == "" {
				err = errors.New("is empty")
			}
		default:
			return nil, fmt.Errorf("unknown parameter %q", key)
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
