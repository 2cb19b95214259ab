// Package audit serves what happened: the records of the log, checked against
// its digest chain, as lines of JSON.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
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
// or an RFC 3339 time only what had happened by then.
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
	from, follow, at, err := recordsParameters(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	until := uint64(math.MaxUint64)
	if at != "" {
		view, err := answers.ViewAt(h.Views, at, time.Now())
		if errors.Is(err, answers.ErrMoment) {
			http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err != nil {
			h.Logger.Error("a moment was not found", "at", at, "error", err)
			http.Error(w, "the read models cannot be read; the server's log says more", http.StatusInternalServerError)
			return
		}
		until = view.Sequence()
	}
	// The server's read timeout would end a follower's request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		h.Logger.Warn("followers may be cut off", "error", err)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	if err := h.stream(r.Context(), w, out, from, until, follow); err != nil && r.Context().Err() == nil {
		h.Logger.Error("the log cannot be read", "error", err)
		_ = out.Encode(Trouble{Error: err.Error()}) // the client is gone if this fails
	}
}

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

func recordsParameters(r *http.Request) (from uint64, follow bool, at string, err error) {
	from = 1
	for key, values := range r.URL.Query() {
		value := values[len(values)-1]
		switch key {
		case "from":
			if from, err = strconv.ParseUint(value, 10, 64); err != nil || from == 0 {
				return 0, false, "", fmt.Errorf("from: %q is not a sequence (1 or more)", value)
			}
		case "follow":
			if follow, err = strconv.ParseBool(value); err != nil {
				return 0, false, "", fmt.Errorf("follow: %q is not true or false", value)
			}
		case "at":
			if at = value; at == "" {
				return 0, false, "", errors.New("at: is empty")
			}
		default:
			return 0, false, "", fmt.Errorf("unknown parameter %q", key)
		}
	}
	if follow && at != "" {
		return 0, false, "", errors.New("follow: nothing is added to the past")
	}
	return from, follow, at, nil
}

func (h *Records) stream(ctx context.Context, w http.ResponseWriter, out *json.Encoder, from, until uint64, follow bool) error {
	for {
		changed := h.Views.Changed()
		end := min(h.Views.Checkpoint().Sequence, until)
		for from <= end {
			to := min(end, from+readChunk-1)
			if err := h.chunk(ctx, out, from, to); err != nil {
				return err
			}
			from = to + 1
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		if !follow {
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

// chunk writes the records of the commits from..to. Each commit must be the
// one that the read models have folded.
func (h *Records) chunk(ctx context.Context, out *json.Encoder, from, to uint64) error {
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
			if err := out.Encode(LineOf(ledger.Address{Sequence: commit.Sequence, Index: i}, &commit.Records[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

var errNotSeen = errors.New("the log holds another commit than the one that the read models have folded")
