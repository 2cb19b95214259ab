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
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
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

// readChunk and chunkBytes bound what is read from the log at a time. It is
// read before it is written, so that a slow client keeps no reader busy.
const (
	readChunk  = 1000
	chunkBytes = 1 << 20
)

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
		http.Error(w, rest.Message(err.Error()), http.StatusBadRequest)
		return
	}
	ask.until = math.MaxUint64
	if ask.at != "" {
		view, err := answers.ViewAt(h.Views, ask.at, time.Now())
		if errors.Is(err, answers.ErrMoment) {
			http.Error(w, rest.Message("at: "+err.Error()), http.StatusBadRequest)
			return
		}
		if err != nil {
			unreadable(w, h.Logger, "a moment was not found", "the read models cannot be read", err)
			return
		}
		ask.until = view.Sequence()
	}
	// The server's read timeout would end a follower's request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil {
		h.Logger.Warn("followers may be cut off", "error", err)
	}
	to := &recordsAnswer{w: w, line: lines(w, r)}
	err = h.stream(r.Context(), to, ask)
	switch {
	case err == nil || r.Context().Err() != nil: // nobody is there
	case !to.begun && outOfReach(w, err):
	default:
		h.Logger.Error("the log cannot be read", "error", err)
		_ = to.line(ledger.Address{}, Trouble{Error: err.Error()}) // the client is gone if this fails
	}
}

// recordsAnswer is an answer on its way.
type recordsAnswer struct {
	w     http.ResponseWriter
	line  lineWriter
	begun bool // it is too late for another status
}

func (a *recordsAnswer) flush() error {
	a.begun = true
	return http.NewResponseController(a.w).Flush()
}

// outOfReach answers, and returns true, when what a request needs is not to be
// had for a reason that passes.
func outOfReach(w http.ResponseWriter, err error) bool {
	if !commands.Passing(err) {
		return false
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
	return true
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
	given, err := parse(rest.ParseQuery(r), []string{"from", "limit", "follow", "at"})
	if err != nil {
		return nil, err
	}
	for key, value := range given {
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
			ask.at = value
		}
	}
	if ask.follow && ask.at != "" {
		return nil, errors.New("follow: nothing is added to the past")
	}
	return ask, nil
}

func (h *Records) stream(ctx context.Context, to *recordsAnswer, ask *recordsAsked) error {
	left := ask.limit
	for from := ask.from; ; {
		changed := h.Views.Changed()
		end := min(h.Views.Checkpoint().Sequence, ask.until)
		for from <= end {
			last := min(end, from+readChunk-1)
			if left > 0 {
				last = min(last, from+uint64(left)-1) // each commit has a record or more
			}
			commits, next, err := h.commits(ctx, from, last)
			if err != nil {
				return err
			}
			if err := h.write(to, commits, &left); err != nil {
				return err
			}
			if ask.limit > 0 && left == 0 {
				return nil
			}
			from = next
		}
		if !ask.follow {
			return nil
		}
		if err := to.flush(); err != nil {
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

// errEnough: a chunk is full.
var errEnough = errors.New("audit: that is enough")

// commits reads commits from..to, or the first of them if they are large, and
// says where to go on. Each must be the one that the read models have folded.
func (h *Records) commits(ctx context.Context, from, to uint64) (list []*ledger.Commit, next uint64, err error) {
	view := h.Views.View()
	size := 0
	err = h.Log.Read(ctx, from, to, func(entry ledger.Entry) error {
		next = entry.Sequence + 1
		mark, _, found, err := view.CommitMark(entry.Sequence)
		if err != nil {
			return err
		}
		if !found && entry.Sequence <= view.Sequence() {
			return nil // the read models were told that it is no commit, see ledger.Chain
		}
		commit, err := ledger.DecodeCommit(entry.Data)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, err)
		}
		if !found || mark != commit.Head() {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, errNotSeen)
		}
		list = append(list, commit)
		if size += len(entry.Data); size >= chunkBytes {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, next, err
}

// write writes the records of commits, at most left of them unless that is 0.
func (h *Records) write(to *recordsAnswer, commits []*ledger.Commit, left *int) error {
	for _, commit := range commits {
		for i := range commit.Records {
			to.begun = true
			at := ledger.Address{Sequence: commit.Sequence, Index: i}
			if err := to.line(at, LineOf(at, &commit.Records[i])); err != nil {
				return err
			}
			if *left--; *left == 0 {
				return nil
			}
		}
	}
	return to.flush()
}

var errNotSeen = errors.New("the log holds another commit than the one that the read models have folded")
