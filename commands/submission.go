package commands

import (
	"context"
	"errors"

	"github.com/allot-project/allot/ledger"
)

// Submission is a command with everything about it that is not the command:
// who sends it, and the id that makes a retry safe.
type Submission struct {
	// ID names this submission. The same id submitted again, at any later
	// time, answers with the first result and appends nothing.
	ID        ledger.UUID
	Actor     string // the authenticated user
	RequestID string // the door's name for the request, for tracing
	Cause     *ledger.Address
	// DryRun decides the command against the present and says what would
	// happen; nothing is appended. No ID is needed, and none is remembered.
	DryRun bool
	// Project binds the client to a project: commands about what is not the
	// project's are rejected. Empty: it is not bound.
	Project string
	Command Command
}

// Outcome is the answer to a submission.
type Outcome struct {
	// Address is that of the command's record. Its sequence is the new
	// generation of every consumer the command changed. It is zero for a
	// command that was accepted but had nothing to do.
	Address ledger.Address
	// Rejection says why the command was not accepted; nil if it was.
	Rejection *Rejection
	// Repeated: the command id was known, and this is the first result.
	Repeated bool
	// Events are what a dry run would record, empty if it had nothing to do, and
	// what the record of a claim says of what was chosen.
	Events []ledger.Event
}

// Rejected is a command that was decided, and not accepted.
type Rejected struct {
	Submission
	Time int64 // Unix nanoseconds, by the writer's clock
	// Place is the address that its record would have had: it was decided
	// against everything before.
	Place     ledger.Address
	Rejection *Rejection
}

// Errors of Submit. A command may still be carried out after any of them but
// ErrBusy and ErrUnreadable; submitting it again with the same id is safe and gives its result.
var (
	// ErrBusy: the queue is full. Nothing happened.
	ErrBusy = errors.New("commands: too many commands are waiting")
	// ErrStopped: the writer stopped before it answered.
	ErrStopped = errors.New("commands: the writer has stopped")
	// ErrNoAnswer: the caller's context ended first.
	ErrNoAnswer = errors.New("commands: no answer in time")
	// ErrUnreadable: what happens could not be read now. Nothing happened.
	ErrUnreadable = errors.New("commands: the read models are not ready")
	// ErrNotLeading: another replica leads, or none does.
	ErrNotLeading = errors.New("commands: this replica does not lead")
	// ErrLogUnavailable: the log does not take commits.
	ErrLogUnavailable = errors.New("commands: the log cannot be written")
)

// Passing reports whether an error of Submit, or of reading the log, is about a
// state that passes, so that the same may succeed later.
func Passing(err error) bool {
	for _, passing := range []error{
		ErrBusy, ErrStopped, ErrNoAnswer, ErrUnreadable, ErrNotLeading, ErrLogUnavailable,
		ledger.ErrUnavailable, ledger.ErrTooManyReaders,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Submitter carries commands out; writer.Writer and client.Client do.
type Submitter interface {
	Submit(context.Context, Submission) (Outcome, error)
}

// Freshness says when what this server can read is up to date: where replicas
// serve a ledger, others may have answered what has not come here yet.
type Freshness interface {
	// Fresh returns nil once everything can be read here that anybody was told,
	// by whichever replica, before it was called. It fails with ErrNotLeading if
	// no replica says what that is in time.
	Fresh(context.Context) error
}

// Starter is a Submitter that can have many commands under way; see
// writer.Writer.Start.
type Starter interface {
	Submitter
	Start(s Submission, done func(Outcome, error))
}
