package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
)

// remoteLog is the log of a running server, read only.
type remoteLog struct {
	readOnly

	c *client.Client
}

// remotePatience is how long one request may stay without an answer: longer than several
// servers take until another one leads.
const remotePatience = 30 * time.Second

// asked asks a running server, and says so if no server answers.
func asked[Q, T any](
	ctx context.Context, ask func(context.Context, Q) (wire.Answer[T], error), query Q,
) (wire.Answer[T], error) {
	patient, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	answer, err := ask(patient, query)
	if errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil {
		err = fmt.Errorf("no server of Allot is on this NATS, or this user may not ask it: %w", err)
	}
	return answer, err
}

// Last implements ledger.Log.
func (l *remoteLog) Last(ctx context.Context) (uint64, error) {
	answer, err := asked(ctx, l.c.Commits, wire.CommitsQuery{From: 1, Limit: 1})
	return answer.Sequence, err
}

// checkpoint asks the server to sign a checkpoint. The server does so if it has a
// key.
func (l *remoteLog) checkpoint(ctx context.Context, upTo uint64) ([]proof.Kept, error) {
	answer, err := asked(ctx, l.c.Checkpoint, wire.CheckpointQuery{When: wire.When{At: wire.Instant(fmt.Sprint(upTo))}})
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.ErrorNotFound {
		return nil, nil
	}
	return []proof.Kept{{Path: "of the server", Signed: []byte(answer.Result.Signed)}}, err
}

// Read implements ledger.Log.
func (l *remoteLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for from <= to {
		answer, err := asked(ctx, l.c.Commits, wire.CommitsQuery{From: from, Limit: int(min(1000, to-from+1))})
		if err != nil {
			return err
		}
		if len(answer.Result.Commits) == 0 {
			return fmt.Errorf("%w at sequence %d", ledger.ErrLogGap, from)
		}
		for _, c := range answer.Result.Commits {
			if c.Sequence != from || ledger.DigestOf(c.Data).String() != c.Digest {
				return &chain.BadEntryError{Sequence: from, Err: ledger.ErrCorrupt}
			}
			if err := yield(ledger.Entry{Sequence: c.Sequence, Data: c.Data}); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}
