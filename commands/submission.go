package commands

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Submission is a command with its circumstances: the sender, and the id that
// makes a retry safe.
type Submission struct {
	// ID identifies this submission. The same id submitted again, at any later
	// time, returns the first result and appends nothing.
	ID        ledger.UUID
	Actor     string // the authenticated user
	RequestID string // the API's name for the request, for tracing
	Cause     *ledger.Address
	// DryRun decides the command and returns what would happen, but appends
	// nothing. It needs no ID, and none is remembered.
	DryRun bool
	// Project binds the client to a project: commands that touch anything outside
	// of it are rejected. If it is empty the client is not bound.
	Project string
	// Client is whose turn it takes where clients take turns; empty: that of Actor and
	// Project. It changes nothing about the command.
	Client string
	// Bulk frees the client from the bound of what it may add to the log in a while.
	Bulk    bool
	Command Command
	// Trace is where the command stands in a trace; nil: it is not traced. It
	// changes nothing about the command.
	Trace *Trace
}

// Outcome is the answer to a submission.
type Outcome struct {
	// Address is that of the command's record. Its sequence is the new generation
	// of every consumer that the command changed. It is zero for a command that
	// was accepted but had nothing to change.
	Address ledger.Address
	// Rejection is the reason why the command was not accepted; nil if it was
	// accepted.
	Rejection *demand.Rejection
	// Repeated means that the command id was known, and that this is the first
	// result.
	Repeated bool
	// Events are the events that a dry run would record (empty if nothing would
	// change), and those of a claim's record that say what was chosen.
	Events []ledger.Event
}

// Rejected is a command that was decided and rejected.
type Rejected struct {
	Submission
	Time int64 // Unix nanoseconds, by the writer's clock
	// Place is the address that its record would have had. The command was
	// decided against everything before that address.
	Place     ledger.Address
	Rejection *demand.Rejection
}

// Errors of Submit. After any of them except ErrBusy and ErrUnreadable the
// command may still be carried out. It is safe to submit it again with the same
// id, which returns its result.
var (
	// ErrBusy means that the queue is full. The command was not carried out.
	ErrBusy = errors.New("commands: too many commands are waiting")
	// ErrStopped means that the writer stopped before it answered.
	ErrStopped = errors.New("commands: the writer has stopped")
	// ErrNoAnswer means that the caller's context ended before the answer came.
	ErrNoAnswer = errors.New("commands: no answer in time")
	// ErrUnreadable means that the read models cannot be read now. The command
	// was not carried out.
	ErrUnreadable = errors.New("commands: the read models are not ready")
	// ErrNotLeading means that another replica leads, or none.
	ErrNotLeading = errors.New("commands: this replica does not lead")
	// ErrLogUnavailable means that the log does not take commits.
	ErrLogUnavailable = errors.New("commands: the log cannot be written")
)

// Passing reports whether an error of Submit, or of reading the log, is about a
// passing state, so that the same request may succeed later.
func Passing(err error) bool {
	for _, passing := range []error{
		ErrBusy, ErrStopped, ErrNoAnswer, ErrUnreadable, ErrNotLeading, ErrLogUnavailable,
		ledger.ErrUnavailable,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// Submitter carries commands out. writer.Writer and client.Client implement it.
type Submitter interface {
	Submit(context.Context, Submission) (Outcome, error)
}

// Freshness tells when this server's read models are up to date. With several
// replicas, another replica may have answered something that this one has not
// folded yet.
type Freshness interface {
	// Fresh returns nil once everything can be read here that any replica told a
	// client before the call. It fails with ErrNotLeading if no replica confirms
	// that in time.
	Fresh(context.Context) error
	// Ahead reports whether more can be read here than any leader is known to have
	// told a client: a later read at the leader might not show it yet.
	Ahead() bool
}

// Done is told what Submit would return.
type Done = func(Outcome, error)

// Decider has the writer decide a submission.
type Decider = func(Submission, Done)

// Starter is a Submitter that can have many commands under way; see
// writer.Writer.Start.
type Starter interface {
	Submitter
	Start(s Submission, done Done)
}

// Trace is the place of a request in a trace, in the words of W3C Trace Context.
// Only requests that are recorded have one.
type Trace struct {
	Parent string `json:"parent"`          // value of the header traceparent
	State  string `json:"state,omitempty"` // value of the header tracestate
}

// ID returns the id of the trace, or "" if there is none.
func (t *Trace) ID() string {
	if t == nil {
		return ""
	}
	if parts := strings.Split(t.Parent, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

type traceKey struct{}

// WithTrace returns a context that carries a trace.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace that a context carries, or nil.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// FingerprintOf identifies a command's content: it is the first bytes of the
// SHA-256 of the command's name, a zero byte and its JSON form. Records store it
// for ever, so it must never change.
func FingerprintOf(c Command) (ledger.Fingerprint, error) {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	hashed, err := appendContent(append(append((*scratch)[:0], NameOf(c)...), 0), c)
	if err != nil {
		return ledger.Fingerprint{}, fmt.Errorf("commands: %s cannot be encoded: %w", NameOf(c), err)
	}
	if cap(hashed) <= keptScratch {
		*scratch = hashed
	}
	sum := sha256.Sum256(hashed)
	return ledger.Fingerprint(sum[:len(ledger.Fingerprint{})]), nil
}

// keptScratch is the largest buffer, in bytes, that is kept for the next command.
const keptScratch = 64 << 10

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// appendContent writes a command's JSON form. The form of the most frequent
// commands is written by hand, byte for byte as encoding/json would, because
// encoding/json took an eighth of the time of a command.
func appendContent(b []byte, c Command) ([]byte, error) {
	switch c := c.(type) {
	case *AllocateForConsumers:
		return c.appendJSON(b)
	case *Claim:
		return c.AppendJSON(b)
	}
	content, err := json.Marshal(c)
	return append(b, content...), err
}

func (c *AllocateForConsumers) appendJSON(b []byte) ([]byte, error) {
	j := demand.JSONAfter(b)
	j.Object(func() {
		j.Name("allocations").Each(len(c.Allocations), c.Allocations == nil, func(i int) { c.Allocations[i].writeJSON(&j) })
	})
	return j.End()
}

func (a *ConsumerAllocations) writeJSON(j *demand.JSON) {
	j.Object(func() {
		j.Name("consumer").ID(a.Consumer)
		j.Name("project").Text(a.Project)
		j.Name("user").Text(a.User)
		if a.Type != nil {
			j.Name("type").Text(*a.Type)
		}
		j.Name("generation").UintOrNull(a.Generation)
		j.Flag("any_generation", a.AnyGeneration)
		j.Name("resources").Each(len(a.Resources), a.Resources == nil, func(i int) {
			j.Object(func() {
				j.Name("provider").ID(a.Resources[i].Provider)
				j.Name("class").Text(a.Resources[i].Class)
				j.Name("amount").Int(a.Resources[i].Amount)
			})
		})
	})
}
