package jetstream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Tail yields the entries from a sequence on that a replica of the stream
// holds, in order, and ends where it knows no more. The leader is not asked, so
// that it works while there is none: there may be later ones. It fails with
// ErrUnavailable if no replica answers.
func (l *Log) Tail(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
	r := &reader{log: l, want: from, to: math.MaxUint64 - 1, yield: yield, wait: firstWait, heard: time.Now()}
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

// Saw tells the log that it holds a sequence, from elsewhere than itself:
// whoever says of it that it ends earlier is behind.
func (l *Log) Saw(sequence uint64) { l.saw(sequence) }
