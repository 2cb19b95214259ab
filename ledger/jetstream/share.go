package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/allot-project/allot/ledger"
)

// shareWait is how long a reader waits for one of the others to end.
const shareWait = time.Second

// Share returns a log for readers who are not the writer: at most so many of
// them read at a time, which bounds their memory and what they ask of the
// stream. More wait a moment, and then get ledger.ErrTooManyReaders. Whoever
// holds the log itself, as the writer does, is not held up by them.
func Share(log ledger.Log, readers int) ledger.Log {
	return &shared{log, make(chan struct{}, readers)}
}

// shared is a log that not everybody reads at once.
type shared struct {
	ledger.Log
	reading chan struct{}
}

// Read implements ledger.Log.
func (s *shared) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer func() { <-s.reading }()
	return s.Log.Read(ctx, from, to, yield)
}

func (s *shared) begin(ctx context.Context) error {
	select {
	case s.reading <- struct{}{}:
		return nil
	default:
	}
	wait := time.NewTimer(shareWait)
	defer wait.Stop()
	select {
	case s.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-wait.C:
		return fmt.Errorf("%w: %d at a time", ledger.ErrTooManyReaders, cap(s.reading))
	}
}
