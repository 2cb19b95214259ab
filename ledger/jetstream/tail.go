package jetstream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Tail yields the entries from a sequence on that a replica of the stream holds,
// in order, up to the last that the replica knows. It does not ask the leader, so
// it works while there is none, but there may be later entries. It fails with
// ErrUnavailable if no replica answers.
func (l *Log) Tail(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
	one := l.active()
	if from < one.first {
		if err := l.Read(ctx, from, one.first-1, yield); err != nil {
			return err
		}
		from = one.first
	}
	r := &reader{
		log: l, stream: one.stream, want: from, to: math.MaxUint64 - 1, yield: yield, wait: firstWait, heard: time.Now(),
	}
	for {
		before := r.want
		err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotHere), err == nil && r.want == before:
			return nil
		case errors.Is(err, errSilent):
			return outOfReach("stream "+one.stream, err)
		case err != nil:
			return err
		}
	}
}

// Saw tells the log that it holds a sequence, as known from another source. A
// replica that reports an earlier end is then known to lag.
func (l *Log) Saw(sequence uint64) { l.saw(sequence) }
