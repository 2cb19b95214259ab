// Package rest is what the REST facades have in common beside the formats
// that they speak: Allot's own headers and parameters.
package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/turns"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Allot's own headers.
const (
	// CommandIDHeader lets a client name its command, so that sending the
	// request again after a lost answer is safe: the first result is answered
	// again.
	CommandIDHeader = "Allot-Command-Id"
	// AtHeader and the query parameter "at" let any GET be answered as it was
	// at a moment in the past: after the commit with a sequence, or at an RFC
	// 3339 time. Everything else about request and answer is as without them.
	AtHeader = "Allot-At"
	// SequenceHeader says, in the answer to a GET, after which commit it is so.
	SequenceHeader = "Allot-Sequence"
)

const (
	// submitTimeout bounds how long a request waits for its command.
	submitTimeout = 30 * time.Second
	// RetryAfterSeconds is what a refused client is told to wait.
	RetryAfterSeconds = "1"
)

// maxMessage bounds the text of an error, of which what the client has sent
// may be a part.
const maxMessage = 4 << 10

// Message is the text of an error as far as it is told.
func Message(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "..."
}

// Base is the scheme and host that the client used.
func Base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// CommandID is the id that the client gave its command, or a new one.
func CommandID(r *http.Request) (ledger.UUID, error) {
	given := r.Header.Get(CommandIDHeader)
	if given == "" {
		return commands.NewID(), nil
	}
	id, err := ledger.ParseUUID(given)
	if err != nil || id.IsNil() {
		return id, fmt.Errorf("%s: %q is not a uuid", CommandIDHeader, given)
	}
	return id, nil
}

// NewID is a uuid for something that a request creates and does not name: the
// same for the same command id, so that the request can be sent again.
func NewID(r *http.Request, what string) ledger.UUID {
	if id, err := ledger.ParseUUID(r.Header.Get(CommandIDHeader)); err == nil && !id.IsNil() {
		return ledger.UUID(uuid.NewSHA1(uuid.UUID(id), []byte(what)))
	}
	return ledger.UUID(uuid.New())
}

// Rehearsal is what a dry run of an accepted command ends with, in the place
// of an error, since none of the facade's own answers fits.
type Rehearsal struct{ Events []ledger.Event }

// Error implements error.
func (*Rehearsal) Error() string { return "dry run" }

// Body is the answer: what would have happened.
func (r *Rehearsal) Body() any {
	return map[string]any{"dry_run": true, "events": ledger.EventLines(r.Events)}
}

// Submit carries a command out for a request. A dry run of a command that is
// accepted ends with a Rehearsal.
func Submit(r *http.Request, to commands.Submitter, s commands.Submission) (commands.Outcome, error) {
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	outcome, err := to.Submit(ctx, s)
	if err == nil && s.DryRun && outcome.Rejection == nil {
		err = &Rehearsal{Events: outcome.Events}
	}
	return outcome, err
}

// Unavailable reports whether a request was not answered for a reason that
// passes, and what to tell the client.
func Unavailable(err error) (message string, unavailable bool) {
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		return strings.TrimPrefix(err.Error(), "auth: "), true
	case errors.Is(err, projector.ErrRebuilding):
		return strings.TrimPrefix(projector.ErrRebuilding.Error(), "projector: "), true
	case errors.Is(err, intake.ErrBusy), errors.Is(err, turns.ErrBusy), errors.Is(err, turns.ErrTooLong):
		return err.Error(), true
	case commands.Passing(err):
		return strings.TrimPrefix(err.Error(), "commands: "), true
	}
	return "", false
}
