package jetstream

import (
	"context"
	"errors"
	"math"

	"github.com/allot-project/allot/ledger"
)

// Tail yields the entries from a sequence on that a replica of the stream holds,
// in order, up to the last that the replica knows. It does not ask the leader, so
// it works while there is none, but there may be later entries. It fails with
// ErrUnavailable if no replica answers.
func (l *Log) Tail(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
	r := l.reader(from, math.MaxUint64-1, yield)
	for {
		before := r.want
		err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotHere), err == nil && r.want == before:
			return nil
		case errors.Is(err, errSilent):
			return outOfReach("stream "+l.stream, err)
		case err != nil:
			return err
		}
	}
}
