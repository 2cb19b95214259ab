package archives

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// Hot is a log whose older part may have left for archives.
type Hot interface {
	ledger.Log
	// First returns the first sequence that the log holds, or would hold if it has
	// none. It never decreases. It asks nobody, because each read asks it.
	First() uint64
}

// Join returns one log that takes appends and the newer part from a hot log, and
// from another log what the hot one no longer holds.
func Join(hot Hot, older ledger.Log) ledger.Log { return &joined{hot, older} }

// joined is a hot log with what is older.
type joined struct {
	Hot
	older ledger.Log
}

// Read implements ledger.Log. What leaves the hot log while it is read is read on
// in the older one.
func (j *joined) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	r := &joinedRead{next: max(from, 1), yield: yield}
	for r.next <= to {
		first, log, end := j.First(), ledger.Log(j.Hot), to
		if r.next < first {
			log, end = j.older, min(to, first-1)
		}
		err := log.Read(ctx, r.next, end, r.take)
		left := first <= r.next && r.next < j.First()
		if left && !r.stopped && errors.Is(err, ledger.ErrLogGap) {
			continue
		}
		if r.next < first && !r.stopped && errors.Is(err, ledger.ErrUnavailable) {
			return fmt.Errorf("%w: the log begins with sequence %d, and %d was asked for: %w", ledger.ErrArchived, first, r.next, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// joinedRead is one call of Read.
type joinedRead struct {
	next    uint64
	yield   func(ledger.Entry) error
	stopped bool // by its caller, whose errors are passed on
}

func (r *joinedRead) take(e ledger.Entry) error {
	if err := r.yield(e); err != nil {
		r.stopped = true
		return err
	}
	r.next = e.Sequence + 1
	return nil
}
