package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
)

// TakeConfig is what a server needs that takes a copy from an archive.
type TakeConfig struct {
	Stores []bucket.Store
	Log    ledger.Log // which copies are compared with
	Folder Folder
	// From is the sequence that State and read models are at.
	From uint64
	// UpTo is the last sequence of the log: newer copies are of no use.
	UpTo uint64
	// Needed makes a copy wanted even if a replay takes less: what it would
	// read has left the log.
	Needed bool
	// Room is how many bytes there is room for; nil: nobody knows.
	Room func() int64
	// Open returns the text of a signed manifest; nil: signatures are not checked.
	Open func(signed []byte) (text []byte, err error)
	// Tell, if set, is called now and then with the progress, by several goroutines
	// at a time.
	Tell   func(Progress)
	Logger *slog.Logger
}

// Take fetches the newest good copy that archives have. Without one the error says
// why, and nothing has changed.
func Take(ctx context.Context, cfg TakeConfig) (*Copy, error) {
	var reasons []error
	for _, store := range cfg.Stores {
		list, err := listStored(ctx, store)
		if err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", store, err))
			continue
		}
		for _, name := range list {
			if name.models.Sequence > cfg.UpTo {
				reasons = append(reasons, fmt.Errorf("%s: the copy of sequence %d is newer than the log, which ends at %d", store,
					name.models.Sequence, cfg.UpTo))
				continue
			}
			got, err := cfg.take(ctx, store, name)
			switch {
			case err == nil:
				return got, nil
			case ctx.Err() != nil:
				return nil, fmt.Errorf("copies: %w", ctx.Err())
			case errors.Is(err, ErrNotWorth):
				return nil, err // so are older ones
			}
			reasons = append(reasons, fmt.Errorf("%s: the copy of sequence %d: %w", store, name.models.Sequence, err))
			cfg.Logger.Warn("a copy of State and read models in an archive is not used", "archive", store.String(),
				"sequence", name.models.Sequence, "because", err)
		}
	}
	if len(reasons) == 0 {
		return nil, ErrNone
	}
	return nil, errors.Join(reasons...)
}

// ErrNone means that no archive has a copy.
var ErrNone = errors.New("copies: no archive has a copy of State and read models")

// take fetches one copy.
func (c *TakeConfig) take(ctx context.Context, store bucket.Store, name storedName) (*Copy, error) {
	began := time.Now()
	m, err := readStored(ctx, store, name, c.Open)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, err
	}
	o := offer{Sequence: m.Models.Head.Sequence, Records: m.Models.Records, Bytes: m.bytes()}
	switch {
	case o.Sequence <= c.From || !c.Needed && !worth(c.From, o):
		return nil, fmt.Errorf("%w: of %d commits %d are here", ErrNotWorth, o.Sequence, c.From)
	case c.Room != nil && c.Room() < o.Bytes:
		return nil, fmt.Errorf("there is room for %d bytes, and it takes %d", c.Room(), o.Bytes)
	}
	a := &arriving{log: c.Log, folder: c.Folder, from: store.String(), tell: c.Tell}
	a.fetch = func(ctx context.Context, _ int, one file, out io.Writer) error {
		err := readBack(ctx, store, storedFiles+one.Sum, one, out)
		if err == nil {
			a.came(one.Bytes)
		}
		return err
	}
	got, err := a.take(ctx, m)
	if err == nil {
		c.Logger.Info("State and read models have come from an archive", "archive", store.String(), "bytes", got.Bytes,
			"state", m.State.Sequence, "sequence", got.Models.Head.Sequence, "took", time.Since(began))
	}
	return got, err
}
