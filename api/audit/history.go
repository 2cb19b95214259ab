package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Limits of one page of a history.
const (
	defaultPage = 50
	maxPage     = 1000
	// maxLooked bounds how many entries a filter may look at for one page;
	// the page then ends early, and the next one goes on from there.
	maxLooked = 20_000
)

// History serves GET /audit/history: what happened to one consumer, provider,
// project, user or command, newest first. Parameters:
//
//	consumer, provider, command   a uuid
//	project, user                 a name
//	limit                         entries on a page, 1 to 1000; 50 if missing
//	before                        SEQUENCE.INDEX of the last entry of the page before
//	since, until                  RFC 3339 times
//	kind                          only records of this command, such as Reshape
//	at                            the history as it was at a sequence or RFC 3339 time
type History struct {
	Views *projector.Projector
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
}

// Page is the answer.
type Page struct {
	// Sequence is of the commit after which it is so.
	Sequence uint64  `json:"sequence"`
	Entries  []Entry `json:"entries"`
	// Next is what before must be for the page after this one; empty: there
	// is none.
	Next string `json:"next,omitempty"`
}

// Entry is one record as it concerned the subject of a history.
type Entry struct {
	Address   string          `json:"address"` // SEQUENCE.INDEX
	Time      time.Time       `json:"time"`
	Actor     string          `json:"actor"`
	Command   string          `json:"command"`
	CommandID ledger.UUID     `json:"command_id"`
	RequestID string          `json:"request_id,omitempty"`
	Cause     *ledger.Address `json:"cause,omitempty"`
	// Before and After are the subject as it was before and after the
	// record's commit; null where it did not exist. Commands have neither.
	Before any `json:"before"`
	After  any `json:"after"`
}

// subject is what a history is about.
type subject struct {
	kind projector.Kind
	id   ledger.UUID
	name string
}

type historyRequest struct {
	subject
	command      bool
	limit        int
	before       ledger.Address // zero: from the newest
	since, until time.Time
	only         string // records of this command
	at           string // empty: now
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
	page, err := h.Page(q)
	switch {
	case errors.Is(err, answers.ErrMoment):
		http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		h.Logger.Error("history not answered", "error", err)
		http.Error(w, "the history cannot be read; the server's log says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page) // the client is gone if this fails
}

var subjects = map[string]projector.Kind{
	"consumer": projector.ConsumerHistory, "provider": projector.ProviderHistory,
	"project": projector.ProjectHistory, "user": projector.UserHistory,
}

func parseHistory(values url.Values) (*historyRequest, error) {
	q := &historyRequest{limit: defaultPage}
	given := 0
	for key, list := range values {
		if len(list) > 1 {
			return nil, fmt.Errorf("%s: given more than once", key)
		}
		var err error
		value := list[0]
		switch key {
		case "consumer", "provider", "command":
			given++
			q.about(key)
			if q.id, err = ledger.ParseUUID(value); err == nil && q.id.IsNil() {
				err = errors.New("is nil")
			}
		case "project", "user":
			given++
			q.about(key)
			if q.name = value; value == "" {
				err = errors.New("is empty")
			}
		case "limit":
			if q.limit, err = strconv.Atoi(value); err == nil && (q.limit < 1 || q.limit > maxPage) {
				err = fmt.Errorf("%d is not between 1 and %d", q.limit, maxPage)
			}
		case "before":
			q.before, err = ledger.ParseAddress(value)
		case "since":
			q.since, err = time.Parse(time.RFC3339Nano, value)
		case "until":
			q.until, err = time.Parse(time.RFC3339Nano, value)
		case "kind":
			q.only = value
		case "at":
			if q.at = value; value == "" {
				err = errors.New("is empty")
			}
		default:
			return nil, fmt.Errorf("unknown parameter %q", key)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if given != 1 {
		return nil, errors.New("one of consumer, provider, project, user and command is needed")
	}
	if !q.since.IsZero() && !q.until.IsZero() && q.until.Before(q.since) {
		return nil, errors.New("until: is before since")
	}
	return q, nil
}

func (q *historyRequest) about(key string) {
	q.kind = subjects[key]
	q.command = key == "command"
}

// Page reads one page.
func (h *History) Page(q *historyRequest) (*Page, error) {
	view, err := answers.ViewAt(h.Views, q.at, time.Now())
	if err != nil {
		return nil, err
	}
	page := &Page{Sequence: view.Sequence(), Entries: []Entry{}}
	if q.command {
		return page, h.command(view, q, page)
	}
	last := q.before // the record that was looked at last
	for looked := 0; ; {
		list, err := h.addresses(view, q, last)
		if err != nil || len(list) == 0 {
			return page, err
		}
		for _, address := range list {
			if len(page.Entries) == q.limit || looked == maxLooked {
				page.Next = last.String()
				return page, nil
			}
			last = address
			looked++
			more, err := h.add(view, q, address, page)
			if err != nil || !more {
				return page, err
			}
		}
	}
}

// addresses lists the next records of a history, strictly before one of them.
func (h *History) addresses(view projector.View, q *historyRequest, before ledger.Address) ([]ledger.Address, error) {
	upTo := uint64(0)
	if before.Sequence > 0 {
		upTo = before.Sequence + 1 // its commit may have earlier records
	}
	read := func(limit int) ([]ledger.Address, error) {
		if q.name != "" {
			return view.OwnerHistory(q.kind, q.name, upTo, limit)
		}
		return view.History(q.kind, q.id, upTo, limit)
	}
	// A commit has at most a few thousand records: then some are older.
	for limit := q.limit + 2; ; limit *= 4 {
		list, err := read(limit)
		if err != nil {
			return nil, err
		}
		whole := len(list) < limit
		list = slices.DeleteFunc(list, func(a ledger.Address) bool {
			return before.Sequence > 0 && (a.Sequence > before.Sequence || a.Sequence == before.Sequence && a.Index >= before.Index)
		})
		if len(list) > 0 || whole {
			return list, nil
		}
	}
}

// add adds one record to a page unless a filter leaves it out. It returns
// false when all that follow are too old.
func (h *History) add(view projector.View, q *historyRequest, at ledger.Address, page *Page) (more bool, err error) {
	record, found, err := view.Record(at)
	if err == nil && !found {
		err = fmt.Errorf("record %s is not remembered", at)
	}
	if err != nil {
		return false, err
	}
	decided := time.Unix(0, record.Time).UTC()
	if !q.since.IsZero() && decided.Before(q.since) {
		return false, nil
	}
	if !q.until.IsZero() && decided.After(q.until) || q.only != "" && q.only != record.Command {
		return true, nil
	}
	entry := entryOf(at, record)
	if entry.After, err = h.state(at.Sequence, q.subject); err != nil {
		return false, err
	}
	if at.Sequence > 1 {
		if entry.Before, err = h.state(at.Sequence-1, q.subject); err != nil {
			return false, err
		}
	}
	page.Entries = append(page.Entries, entry)
	return true, nil
}

func entryOf(at ledger.Address, r *ledger.Record) Entry {
	return Entry{
		Address: at.String(), Time: time.Unix(0, r.Time).UTC(), Actor: r.Actor, Command: r.Command,
		CommandID: r.CommandID, RequestID: r.RequestID, Cause: r.Cause,
	}
}

// command finds the record of a command id.
func (h *History) command(view projector.View, q *historyRequest, page *Page) error {
	result, found, err := h.Views.Command(q.id)
	if err != nil || !found {
		return err
	}
	record, found, err := view.Record(result.Address)
	if err != nil || !found {
		return err // after the view
	}
	page.Entries = append(page.Entries, entryOf(result.Address, record))
	return nil
}

// state is the subject as it was after a commit.
func (h *History) state(sequence uint64, s subject) (any, error) {
	view, err := h.Views.ViewAt(sequence)
	if err != nil {
		return nil, err
	}
	switch s.kind {
	case projector.ConsumerHistory:
		held, err := answers.Allocations(view, s.id)
		if held == nil {
			return nil, err
		}
		return held, err
	case projector.ProviderHistory:
		p, err := answers.Provider(view, s.id)
		if p == nil {
			return nil, err
		}
		return p, err
	case projector.ProjectHistory:
		return answers.Usages(view, s.name, "")
	}
	return nil, nil // users have usages per project
}
