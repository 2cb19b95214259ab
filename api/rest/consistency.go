package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/projector"
)

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
