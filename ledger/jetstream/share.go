package jetstream

import (
	"context"
	"fmt"
	"time"

	"github.com/allot-project/allot/ledger"
)

// shareWait is how long a reader waits for another one to end.
const shareWait = time.Second

// Share returns a log for all readers but the writer. At most a given number of
// them read at a time, which bounds their memory and their load on the stream.
// Further readers wait a moment, and then get ledger.ErrTooManyReaders. A holder
// of the log itself, such as the writer, does not wait for them.
func Share(log ledger.Log, readers int) ledger.Log {
	return &shared{log, make(chan struct{}, readers)}
}

// shared is a log with a bounded number of readers at a time.
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
