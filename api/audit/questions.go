package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/turns"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
)

// Questions answers the questions of auditors that have one answer each, as
// JSON, below /audit/.
type Questions struct {
	Views  *projector.Projector
	Log    ledger.Log
	Notary *answers.Notary
	// Writer and Snapshots give the State of now and of the past.
	Writer    *writer.Writer
	Snapshots writer.SnapshotSource
	// Rejected is where rejected commands are kept; nil: nowhere.
	Rejected rejected.Store
	Version  string // of the server
	// LastAudit is what the server's audit of itself found last; nil: it does not audit.
	LastAudit func() *check.AuditResult
	// Scrub is how far the search for damage on the disk has come; nil: there is none.
	Scrub func() check.ScrubStatus
	// Intake bounds what bodies take in memory; nil: each by itself.
	Intake *intake.Pool
	// Searches are the places for searches for candidates; nil: each has one.
	Searches *turns.Pool
	// MaxSteps bounds one search for candidates; 0: no bound.
	MaxSteps int
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
}

// question finds the answer to a request's parameters. Its errors are a
// *badQuestion, or the server's fault.
type question struct {
	parameters []string
	answer     func(ctx context.Context, p parameters) (any, error)
}

// badQuestion is the client's fault.
type badQuestion struct {
	status  int
	message string
}

// Error implements error.
func (b *badQuestion) Error() string { return b.message }

func bad(format string, args ...any) error {
	return &badQuestion{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &badQuestion{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// plain is an answer that is no JSON.
type plain []byte

// Paths are all that the package serves, each with its method.
var Paths = []string{
	"GET /audit/checkpoint", "GET /audit/consumers", "GET /audit/diff", "GET /audit/digest", "GET /audit/find", "GET /audit/history",
	"GET /audit/holders",
	"GET /audit/proof/growth", "GET /audit/proof/record", "GET /audit/providers", "GET /audit/records", "GET /audit/redecide",
	"GET /audit/rejections", "GET /audit/series", "GET /audit/status", "POST /audit/what-if", "GET /audit/why",
}

// Routes are the handlers of Paths, by path.
func Routes(q *Questions, records *Records, digest *Digest, history *History) map[string]http.Handler {
	handlers := q.Handlers()
	handlers["/audit/records"], handlers["/audit/digest"], handlers["/audit/history"] = records, digest, history
	for _, route := range Paths {
		_, path, _ := strings.Cut(route, " ")
		if handlers[path] == nil || len(handlers) != len(Paths) {
			panic("audit: Paths are not what is served: " + route) // a mistake in the program
		}
	}
	return handlers
}

var rejectionParameters = []string{
	"command_id", "actor", "command", "code", "project", "consumer", "provider", "since", "until", "before", "limit",
}

// Handlers are the questions by their paths.
func (q *Questions) Handlers() map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for path, one := range map[string]question{
		"/audit/checkpoint":   {[]string{"at"}, q.checkpoint},
		"/audit/proof/record": {[]string{"record", "at"}, q.inclusion},
		"/audit/proof/growth": {[]string{"from", "at"}, q.growth},
		"/audit/status":       {[]string{"at"}, q.status},
		"/audit/providers":    {[]string{"at"}, q.providers},
		"/audit/series":       {[]string{"provider", "project", "since", "until", "points"}, q.series},
		"/audit/diff":         {[]string{"from", "to"}, q.diff},
		"/audit/find":         {[]string{"q", "at"}, q.find},
		"/audit/why":          {[]string{"consumer", "provider", "at"}, q.why},
		"/audit/consumers":    {[]string{"after", "limit", "at"}, q.consumers},
		"/audit/rejections":   {rejectionParameters, q.rejections},
		"/audit/holders":      {[]string{"provider", "after", "limit", "at"}, q.holders},
		"/audit/redecide":     {[]string{"command_id", "at"}, q.redecide},
	} {
		handlers[path] = q.handler(one)
	}
	handlers["/audit/what-if"] = http.HandlerFunc(q.serveWhatIf)
	return handlers
}

func (q *Questions) handler(one question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admitted(w, r, q.Authorize) {
			return
		}
		p, err := parse(rest.ParseQuery(r), one.parameters)
		var answer any
		if err == nil {
			answer, err = one.answer(r.Context(), p)
		}
		q.reply(w, r, answer, err)
	})
}

func (q *Questions) reply(w http.ResponseWriter, r *http.Request, answer any, err error) {
	var fault *badQuestion
	switch {
	case errors.As(err, &fault):
		if fault.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, rest.Message(fault.message), fault.status)
	case err != nil && r.Context().Err() != nil: // nobody is there
	case errors.Is(err, turns.ErrBusy), errors.Is(err, turns.ErrTooLong):
		w.Header().Set("Retry-After", rest.RetryAfterSeconds)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil && outOfReach(w, err):
	case err != nil:
		unreadable(w, q.Logger, "a question was not answered", "that cannot be read", err)
	default:
		write(w, answer)
	}
}

// unreadable answers when something could not be read: with 503 if trying
// again helps.
func unreadable(w http.ResponseWriter, logger *slog.Logger, event, what string, err error) {
	if message, unavailable := rest.Unavailable(err); unavailable {
		logger.Warn(event, "error", err)
		w.Header().Set("Retry-After", rest.RetryAfterSeconds)
		http.Error(w, message, http.StatusServiceUnavailable)
		return
	}
	logger.Error(event, "error", err)
	http.Error(w, what+"; the server's log says more", http.StatusInternalServerError)
}

// write sends an answer; if that fails, the client is gone.
func write(w http.ResponseWriter, answer any) {
	if text, ok := answer.(plain); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = ledger.PlainEncoder(w).Encode(answer)
}

// parameters are a question's, each given at most once.
type parameters map[string]string

func parse(query *rest.Query, known []string) (parameters, error) {
	if err := query.Fault(); err != nil {
		return nil, bad("%v", err)
	}
	unknown, repeated := query.Once(known)
	switch {
	case unknown != nil:
		return nil, bad("unknown parameter %q; there are %s", unknown[0], strings.Join(known, ", "))
	case repeated != "":
		return nil, bad("%s: given more than once", repeated)
	}
	p := make(parameters)
	for _, key := range query.Keys() {
		if p[key] = query.Get(key); p[key] == "" {
			return nil, bad("%s: is empty", key)
		}
	}
	return p, nil
}

func (p parameters) address(name string) (ledger.Address, error) {
	if p[name] == "" {
		return ledger.Address{}, bad("%s: is needed", name)
	}
	at, err := ledger.ParseAddress(p[name])
	if err != nil {
		return at, bad("%s: %s", name, strings.TrimPrefix(err.Error(), "ledger: "))
	}
	return at, nil
}

func (p parameters) uuid(name string) (ledger.UUID, error) {
	id, err := ledger.ParseUUID(p[name])
	if err != nil || id.IsNil() {
		return id, bad("%s: %q is not a uuid", name, p[name])
	}
	return id, nil
}

// number reads a number between bounds; one that is missing is the default.
func (p parameters) number(name string, least, most, missing int64) (int64, error) {
	if p[name] == "" && missing >= least {
		return missing, nil
	}
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil || n < least || n > most {
		return 0, bad("%s: %q is not a number from %d to %d", name, p[name], least, most)
	}
	return n, nil
}

// moment reads an RFC 3339 time; zero if it is missing.
func (p parameters) moment(name string) (time.Time, error) {
	if p[name] == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(p[name], " ", "+"))
	if err != nil {
		return at, bad("%s: %q is not an RFC 3339 time", name, p[name])
	}
	return at, nil
}

// view is the view of the parameter at.
func (q *Questions) view(p parameters) (projector.View, error) {
	view, err := answers.ViewAt(q.Views, p["at"], time.Now())
	if errors.Is(err, answers.ErrMoment) {
		return view, bad("at: %v", err)
	}
	return view, err
}
