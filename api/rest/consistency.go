package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/projector"
)

// What a client may say about how new an answer must be, on every server of a
// ledger. Without it an answer holds all that anybody was told before it was
// asked for, by whichever server.
const (
	// MinSequenceHeader names a commit that the answer must hold: what the client
	// was told in an Allot-Sequence. The others are not asked.
	MinSequenceHeader = "Allot-Min-Sequence"
	// ConsistencyHeader with the value "stale" has what this server holds answered
	// at once, however old that is. It works while no server leads.
	ConsistencyHeader = "Allot-Consistency"
	// Stale is its only value.
	Stale = "stale"
)

// minSequenceWait is how long a request waits for its Allot-Min-Sequence.
const minSequenceWait = 10 * time.Second

// Await waits until the read models may be read for a request. Fresh is nil
// where this server is the only one. What the request decided says that its
// command alone counts, and that nothing is read before it.
func Await(r *http.Request, views *projector.Projector, fresh commands.Freshness, decided bool) error {
	switch consistency := r.Header.Get(ConsistencyHeader); consistency {
	case "":
	case Stale:
		return nil
	default:
		return BadRequest("%s: %q is not %q", ConsistencyHeader, consistency, Stale)
	}
	if least := r.Header.Get(MinSequenceHeader); least != "" {
		sequence, err := strconv.ParseUint(least, 10, 64)
		if err != nil {
			return BadRequest("%s: %q is not a sequence", MinSequenceHeader, least)
		}
		return awaitSequence(r.Context(), views, sequence)
	}
	if fresh == nil || decided {
		return nil
	}
	return fresh.Fresh(r.Context())
}

// awaitSequence waits until a commit can be read here.
func awaitSequence(ctx context.Context, views *projector.Projector, sequence uint64) error {
	late := time.NewTimer(minSequenceWait)
	defer late.Stop()
	for {
		changed := views.Changed()
		now := views.Checkpoint().Sequence
		if now >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return TryAgain("%s: %d has not come here yet, only %d", MinSequenceHeader, sequence, now)
		}
	}
}

// TellSequence says in an answer up to which commit the server had read the log.
func TellSequence(w http.ResponseWriter, sequence uint64) {
	w.Header().Set(SequenceHeader, strconv.FormatUint(sequence, 10))
}
