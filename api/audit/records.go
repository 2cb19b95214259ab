// Package audit serves what happened: the records of the log, checked against
// its digest chain, as lines of JSON.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Line is one record as it is printed.
type Line struct {
	ledger.Address
	Time      time.Time          `json:"time"`
	Actor     string             `json:"actor"`
	Command   string             `json:"command"`
	CommandID ledger.UUID        `json:"command_id"`
	RequestID string             `json:"request_id,omitempty"`
	Cause     *ledger.Address    `json:"cause,omitempty"`
	Events    []ledger.EventLine `json:"events"`
}

// LineOf describes a record.
func LineOf(at ledger.Address, r *ledger.Record) Line {
	return Line{
		Address: at, Time: time.Unix(0, r.Time).UTC(), Actor: r.Actor, Command: r.Command,
		CommandID: r.CommandID, RequestID: r.RequestID, Cause: r.Cause, Events: ledger.EventLines(r.Events),
	}
}

// Trouble is the last line of an answer that had to be cut short.
type Trouble struct {
	Error string `json:"error"`
}

// readChunk is how many commits are read from the log at a time.
const readChunk = 1000

// Records serves GET /audit/records?from=SEQ&follow=true, or with at=SEQUENCE
// or an RFC 3339 time only what had happened by then, and at most limit records.
// Who accepts text/event-stream gets server-sent events.
type Records struct {
	Log   ledger.Log
	Views *projector.Projector
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
	// Stop ends followers when the server stops.
	Stop <-chan struct{}
}

// ServeHTTP implements http.Handler.
func (h *Records) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !admitted(w, r, h.Authorize) {
		return
	}
	ask, err := recordsParameters(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask.until = math.MaxUint64
	if ask.at != "" {
		view, err := answers.ViewAt(h.Views, ask.at, time.Now())
		if errors.Is(err, answers.ErrMoment) {
			http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err != nil {
			h.Logger.Error("a moment was not found", "at", ask.at, "error", err)
			http.Error(w, "the read models cannot be read; the server's log says more", http.StatusInternalServerError)
			return
		}
		ask.until = view.Sequence()
	}
	// The server's read timeout would end a follower's request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		h.Logger.Warn("followers may be cut off", "error", err)
	}
	out := lines(w, r)
	if err := h.stream(r.Context(), w, out, ask); err != nil && r.Context().Err() == nil {
		h.Logger.Error("the log cannot be read", "error", err)
		_ = out(ledger.Address{}, Trouble{Error: err.Error()}) // the client is gone if this fails
	}
}

// lineWriter writes one line.
type lineWriter func(at ledger.Address, line any) error

// lines writes lines of JSON, or server-sent events for a client that accepts
// those. Their ids are addresses.
func lines(w http.ResponseWriter, r *http.Request) lineWriter {
	if !strings.Contains(r.Header.Get("Accept"), eventStream) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		out := ledger.PlainEncoder(w)
		return func(_ ledger.Address, line any) error { return out.Encode(line) }
	}
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("Cache-Control", "no-store")
	return func(at ledger.Address, line any) error {
		text, err := ledger.PlainJSON(line)
		if err == nil {
			_, err = fmt.Fprintf(w, "id: %s\ndata: %s\n\n", at, text)
		}
		return err
	}
}

const eventStream = "text/event-stream"

// admitted answers itself, and returns false, what is no GET and who may not
// read the log.
func admitted(w http.ResponseWriter, r *http.Request, authorize func(http.ResponseWriter, *http.Request) bool) bool {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return false
	}
	return authorize(w, r)
}

// recordsAsked is which records are asked for.
type recordsAsked struct {
	from   uint64
	until  uint64 // the last sequence
	limit  int    // 0: no limit
	follow bool
	at     string
}

func recordsParameters(r *http.Request) (ask *recordsAsked, err error) {
	ask = &recordsAsked{from: 1}
	for key, values := range r.URL.Query() {
		value := values[len(values)-1]
		switch key {
		case "from":
			if ask.from, err = strconv.ParseUint(value, 10, 64); err != nil || ask.from == 0 {
				return nil, fmt.Errorf("from: %q is not a sequence (1 or more)", value)
			}
		case "limit":
			if ask.limit, err = strconv.Atoi(value); err != nil || ask.limit < 1 {
				return nil, fmt.Errorf("limit: %q is not a number (1 or more)", value)
			}
		case "follow":
			if ask.follow, err = strconv.ParseBool(value); err != nil {
				return nil, fmt.Errorf("follow: %q is not true or false", value)
			}
		case "at":
			if ask.at = value; value == "" {
				return nil, errors.New("at: is empty")
			}
		default:
			return nil, fmt.Errorf("unknown parameter %q", key)
		}
	}
	if ask.follow && ask.at != "" {
		return nil, errors.New("follow: nothing is added to the past")
	}
	return ask, nil
}

func (h *Records) stream(ctx context.Context, w http.ResponseWriter, out lineWriter, ask *recordsAsked) error {
	left := ask.limit
	for from := ask.from; ; {
		changed := h.Views.Changed()
		end := min(h.Views.Checkpoint().Sequence, ask.until)
		for from <= end {
			to := min(end, from+readChunk-1)
			err := h.chunk(ctx, out, from, to, &left)
			if errors.Is(err, errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
			from = to + 1
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		if !ask.follow {
			return nil
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.Stop:
			return nil
		}
	}
}

// errEnough: as many records as were asked for have been written.
var errEnough = errors.New("audit: that is enough")

// chunk writes the records of the commits from..to, at most left of them
// unless that is 0. Each commit must be the one that the read models have
// folded.
func (h *Records) chunk(ctx context.Context, out lineWriter, from, to uint64, left *int) error {
	view := h.Views.View()
	return h.Log.Read(ctx, from, to, func(entry ledger.Entry) error {
		commit, err := ledger.DecodeCommit(entry.Data)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, err)
		}
		mark, _, found, err := view.CommitMark(entry.Sequence)
		if err != nil {
			return err
		}
		if !found || mark != commit.Head() {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, errNotSeen)
		}
		for i := range commit.Records {
			at := ledger.Address{Sequence: commit.Sequence, Index: i}
			if err := out(at, LineOf(at, &commit.Records[i])); err != nil {
				return err
			}
			if *left--; *left == 0 {
				return errEnough
			}
		}
		return nil
	})
}

var errNotSeen = errors.New("the log holds another commit than the one that the read models have folded")
