package jetstream

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/allot-project/allot/ledger"
)

// lookForStreams is how often Tail asks for the log's streams where the nearest
// replica of the stream that it knows has nothing.
const lookForStreams = time.Second

// Tail yields the entries from a sequence on that a replica of the stream holds,
// in order, up to the last that the replica knows. It does not ask the leader, so
// it works while there is none, but there may be later entries. It fails with
// ErrUnavailable if no replica answers.
func (l *Log) Tail(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
	for {
		one := l.active()
		if from < one.first {
			if err := l.Read(ctx, from, one.first-1, yield); err != nil {
				return err
			}
			from = one.first
		}
		next, err := l.tailOf(ctx, one, from, yield)
		if err != nil || l.active().stream == one.stream {
			return err
		}
		from = max(from, next)
	}
}

// tailOf is Tail for one stream. It returns the sequence after the last entry.
func (l *Log) tailOf(ctx context.Context, one link, from uint64, yield func(ledger.Entry) error) (uint64, error) {
	r := &reader{
		log: l, of: one, stream: one.stream, want: from, to: math.MaxUint64 - 1, yield: yield, wait: firstWait,
		heard: time.Now(),
	}
	if l.follows(one, from) != nil {
		// The log may go on elsewhere after the entry before.
		r.want = from - 1
		r.yield = func(e ledger.Entry) error {
			if e.Sequence < from {
				return nil
			}
			return yield(e)
		}
	}
	began := r.want
	for r.want <= r.to {
		before := r.want
		err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotHere), err == nil && r.want == before:
			if r.want == began && began < from {
				l.lookNowAndThen()
			}
			return r.want, nil
		case errors.Is(err, errSilent):
			if errors.Is(err, errNobody) {
				l.lookNowAndThen()
			}
			return r.want, outOfReach("stream "+one.stream, err)
		case err != nil:
			return r.want, err
		}
	}
	return r.want, nil
}

// lookNowAndThen finds the chain as it is now, but not with each call, and without
// having anybody wait: a stream without a leader says nothing for seconds.
func (l *Log) lookNowAndThen() {
	now := time.Now().UnixNano()
	before := l.lookedAt.Load()
	if now-before < int64(lookForStreams) || !l.lookedAt.CompareAndSwap(before, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), l.patience)
		defer cancel()
		l.look(ctx)
	}()
}

// Saw tells the log that it holds a sequence, as known from another source. A
// replica that reports an earlier end is then known to lag.
func (l *Log) Saw(sequence uint64) { l.saw(sequence) }
