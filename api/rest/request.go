package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// submitTimeout is how long a request waits for its command at most.
const submitTimeout = 30 * time.Second

// NewRequestID returns a new id for a request. Its answer, the server's messages
// and the record of its command have it.
func NewRequestID(w http.ResponseWriter) string {
	id := ledger.SpelledRequest.Text(commands.NewID())
	w.Header().Set("X-Openstack-Request-Id", id)
	return id
}

// CommandID returns the id that the client gave its command, or a new one.
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

// NewID returns a uuid for something that a request creates without naming it. It
// is the same for the same command id, so that the request can be repeated.
func NewID(r *http.Request, what string) ledger.UUID {
	if id, err := ledger.ParseUUID(r.Header.Get(CommandIDHeader)); err == nil && !id.IsNil() {
		return ledger.UUID(uuid.NewSHA1(uuid.UUID(id), []byte(what)))
	}
	return ledger.UUID(uuid.New())
}

// Rehearsal takes the place of an error after a dry run of an accepted command,
// because no answer of the API fits.
type Rehearsal struct{ Events []ledger.Event }

// Error implements error.
func (*Rehearsal) Error() string { return "dry run" }

// Body returns the answer: what would have happened.
func (r *Rehearsal) Body() any {
	return map[string]any{"dry_run": true, "events": ledger.EventLines(r.Events)}
}

// identify gives the command of a request, of which a request has one at most, its id and
// its trace: the id that the client gave it, or else the uuid that the request's id spells,
// as a record then holds both as one.
func identify(r *http.Request, s *commands.Submission) (err error) {
	var spelt bool
	if s.ID, _, spelt = ledger.ParseText(s.RequestID); !spelt || r.Header.Get(CommandIDHeader) != "" {
		if s.ID, err = CommandID(r); err != nil {
			return BadRequest("%v", err)
		}
	}
	s.Trace = commands.TraceOf(r.Context())
	return nil
}

// Look finds the view of the moment that the request is about: the newest if it names none.
func (r *Call) Look() (err error) {
	now := r.Now
	if now == nil {
		now = time.Now
	}
	if r.View, err = present.ViewAt(r.Views, r.At, now()); errors.Is(err, present.ErrMoment) {
		return BadRequest("%v", err)
	}
	return err
}

// ReadBody reads a body of at most limit bytes, with memory from a lease.
func ReadBody(r *http.Request, lease *fair.Lease, limit int64) ([]byte, error) {
	body, err := intake.Read(lease, r.Body, r.ContentLength, limit)
	switch {
	case errors.Is(err, intake.ErrTooLarge):
		return nil, Errorf(http.StatusRequestEntityTooLarge, "%v", err)
	case err != nil && !errors.Is(err, fair.ErrBusy):
		return nil, BadRequest("%v", err)
	}
	return body, err
}

// smallBody is the size, in bytes, of the largest body that is decoded without a place.
const smallBody = 64 << 10

// PlaceFor waits for a place to decode a large body in, which would hold up others; nil: it is
// small. The caller ends it.
func PlaceFor(r *http.Request, lease *fair.Lease, body []byte) (*fair.Work, error) {
	if len(body) <= smallBody {
		return nil, nil
	}
	return lease.Short(r.Context())
}

// WriteJSON answers with a document, for which the lease has memory until the client has
// taken it. A HEAD gets only its headers. If WriteJSON
// fails it has written nothing.
func WriteJSON(w http.ResponseWriter, r *http.Request, lease *fair.Lease, status int, document any) error {
	body, err := Encode(document)
	if err == nil {
		err = lease.Grow(int64(len(body)))
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // if this fails the client is gone
	}
	return nil
}

// KnownMethod maps unknown methods to one label, so that strangers cannot make up
// labels.
func KnownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "other"
}

// How a client says how recent an answer must be, on every server of a ledger.
// Without these headers an answer holds everything that any server reported
// before the request.
const (
	// MinSequenceHeader names a commit that the answer must hold, such as the one
	// that the client got in an Allot-Sequence. The server then asks no other
	// server.
	MinSequenceHeader = "Allot-Min-Sequence"
	// ConsistencyHeader with the value "stale" makes the server answer at once
	// from what it has, however old that is. It works even while no server leads.
	ConsistencyHeader = "Allot-Consistency"
	// Stale is the only value of ConsistencyHeader.
	Stale = "stale"
)

// minSequenceWait is how long a request waits for its Allot-Min-Sequence.
const minSequenceWait = 10 * time.Second

// Await waits until the read models may be read for a request. Fresh is nil for a
// single server. decided means that the request's command alone counts, and that
// nothing is read before it.
func Await(r *http.Request, views *projector.Projector, fresh commands.Freshness, decided bool) error {
	switch consistency := r.Header.Get(ConsistencyHeader); consistency {
	case "":
	case Stale:
		return nil
	default:
		return BadRequest("%s: %q is not %q", ConsistencyHeader, consistency, Stale)
	}
	if least := r.Header.Get(MinSequenceHeader); least != "" {
		sequence, wrong := strconv.ParseUint(least, 10, 64)
		if wrong != nil {
			return BadRequest("%s: %q is not a sequence", MinSequenceHeader, least)
		}
		ctx, cancel := context.WithTimeout(r.Context(), minSequenceWait)
		defer cancel()
		late := present.AwaitReached(ctx, views, fresh, sequence)
		if late != nil && r.Context().Err() == nil {
			return TryAgain("%s: %v", MinSequenceHeader, late)
		}
		return r.Context().Err()
	}
	if fresh == nil || decided {
		return nil
	}
	return fresh.Fresh(r.Context())
}

// TellSequence puts the commit up to which the server has read the log into an
// answer.
func TellSequence(w http.ResponseWriter, sequence uint64) {
	w.Header().Set(SequenceHeader, strconv.FormatUint(sequence, 10))
}
