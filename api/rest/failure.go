package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/projector"
)

// RetryAfterSeconds is how long a refused client is told to wait, in seconds.
const RetryAfterSeconds = "1"

// maxMessage is the size of the longest error text, in bytes. Error texts may
// quote what the client has sent.
const maxMessage = 4 << 10

// Message returns the text of an error, cut short if it is long.
func Message(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "..."
}

// Failure is an answer other than success. Each API writes it in its own format.
type Failure struct {
	Status     int
	Code       string // code for programs, in the API's terms; empty: the API's usual code
	Message    string
	Allow      string // of a 405: the methods that the path has
	RetryAfter string // of a 503: seconds
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Header writes the headers that a failure has in every format.
func (f *Failure) Header(header http.Header) {
	if f.Allow != "" {
		header.Set("Allow", f.Allow)
	}
	if f.RetryAfter != "" {
		header.Set("Retry-After", f.RetryAfter)
	}
}

// Errorf returns a failure with a message, which is cut short if it is long.
func Errorf(status int, format string, args ...any) *Failure {
	return &Failure{Status: status, Message: Message(fmt.Sprintf(format, args...))}
}

// BadRequest returns a 400.
func BadRequest(format string, args ...any) *Failure {
	return Errorf(http.StatusBadRequest, format, args...)
}

// NotFound returns a 404.
func NotFound(format string, args ...any) *Failure {
	return Errorf(http.StatusNotFound, format, args...)
}

// TryAgain returns a 503, for an obstacle that passes.
func TryAgain(format string, args ...any) *Failure {
	f := Errorf(http.StatusServiceUnavailable, format, args...)
	f.RetryAfter = RetryAfterSeconds
	return f
}

// statusGone is the status of a request whose client has gone. Only metrics show it.
const statusGone = 499

// FailureOf returns the failure to answer for an error. An error that is not the
// client's fault is logged with the request's id, and becomes a 500, or a 503 if
// a retry can help. What clients can bring about as often as they like, because they
// go or ask for too much, fills no log.
func FailureOf(err error, r *http.Request, id string, logger *slog.Logger) *Failure {
	var failure *Failure
	message, unavailable := Unavailable(err)
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, context.Canceled) && r.Context().Err() != nil:
		logger.DebugContext(r.Context(), "request without a client", "request_id", id)
		return Errorf(statusGone, "the client has gone")
	case unavailable:
		level, leftOut := slog.LevelDebug, int64(0)
		if !TooMuch(err) {
			if few, may := unanswered.Next(); may {
				level, leftOut = slog.LevelWarn, few
			}
		}
		logger.Log(r.Context(), level, "request not answered", "request_id", id, "error", err, "left_out", leftOut)
		return TryAgain("%s", message)
	}
	logger.ErrorContext(r.Context(), "request failed", "request_id", id, "method", r.Method, "path", r.URL.Path,
		"error", err)
	return Errorf(http.StatusInternalServerError, "the request failed; its id is in the server's log")
}

// unanswered bounds the lines about what all clients are told while it lasts, such as a full disk.
var unanswered = fair.NewFewLines()

// Unavailable reports whether the error is about a passing obstacle, with the
// text for the client.
func Unavailable(err error) (message string, unavailable bool) {
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return strings.TrimPrefix(err.Error(), "auth: "), true
	case errors.Is(err, projector.ErrCondemned):
		return strings.TrimPrefix(projector.ErrCondemned.Error(), "projector: "), true
	case TooMuch(err):
		return err.Error(), true
	case commands.Passing(err):
		return strings.TrimPrefix(err.Error(), "commands: "), true
	}
	return "", false
}

// TooMuch reports whether a client is refused because clients ask for more than the server
// does at a time, which they can as often as they like: it is no line in the log.
func TooMuch(err error) bool {
	return errors.Is(err, fair.ErrBusy) || errors.Is(err, fair.ErrTooLong) || errors.Is(err, fair.ErrBudget)
}
