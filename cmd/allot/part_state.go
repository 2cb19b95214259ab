package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// follow brings State and read models to the end of the log, and learns the
// ledger's id.
func (s *server) follow(ctx context.Context) (err error) {
	if s.state, err = s.restoreOrWait(ctx, s.joinOnce()); err != nil {
		return err
	}
	s.waits.Store(nil)
	if err := s.data.Rejoined(); err != nil {
		return err
	}
	if last := s.state.Next() - 1; last > s.state.Head().Sequence {
		writer.TellSkipped(s.logger, s.state.Head().Sequence, last)
	}
	id := s.state.LedgerID()
	if begin := s.verdict.Begin; s.config.Cluster.on() && begin != nil && !id.IsNil() && begin.Ledger != id {
		return fmt.Errorf(
			"the log is that of the ledger %s, but %s says that this server is to begin the ledger %s: to join the other ledger, remove that file",
			id, s.config.Data, begin.Ledger,
		)
	}
	if id.IsNil() {
		if s.verdict.Begin == nil {
			return s.data.Missing()
		}
		id = s.verdict.Begin.Ledger
	}
	if s.config.NATSURL != "" && s.verdict.Begin != nil && !s.state.LedgerID().IsNil() {
		if err := s.data.Files().Begun(); err != nil { // by this server or another one
			return err
		}
	}
	s.notary.Ledger = id
	s.ledgerID.Store(&id)
	return nil
}

// restoreOrWait is restore, and on one of several servers waits until the one
// that was told to has begun the ledger. Before it replays, join may shorten
// that; nil: it may not.
func (s *server) restoreOrWait(ctx context.Context, join func(context.Context) error) (*ledger.State, error) {
	waits, pause := s.waiter("waiting for the cluster's ledger"), openAgain
	for {
		if join != nil {
			if err := join(ctx); err != nil {
				return nil, err
			}
		}
		state, err := s.restore(ctx)
		begun := err == nil && (!state.LedgerID().IsNil() || s.verdict.Begin != nil)
		if s.config.Cluster.on() && begun && state.Head().Sequence < s.log.stream.History() {
			begun = false // the log is being filled from an archive
		}
		if !s.config.Cluster.on() {
			return state, err
		}
		if refused := s.welcome(); refused != nil {
			return nil, refused
		}
		if begun || err != nil && !errors.Is(err, ledger.ErrUnavailable) {
			return state, s.explainReplica(err)
		}
		if err != nil {
			waits(err.Error())
			pause = min(2*pause, openLatest)
		} else {
			waits("it has not begun, or is being filled")
			pause = openAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while waiting for the cluster's ledger: %w", ctx.Err())
		}
	}
}

// restore brings State and read models to the end of the log. The log must agree
// with every head that was seen of it.
func (s *server) restore(ctx context.Context) (*ledger.State, error) {
	seen, err := s.seen()
	if err != nil {
		return nil, err
	}
	progress, end := replayProgress(s.logger)
	defer end()
	state, err := writer.Restore(ctx, s.log.all, s.snaps, &leaderModels{s.views, s.log.highWater}, seen, progress, s.due)
	return state, adviseToCut(unreached(err))
}

// seen is what is known of the log besides what read models and snapshots know.
func (s *server) seen() ([]ledger.Head, error) {
	signed, err := s.data.Signed()
	if err != nil {
		return nil, err
	}
	seen := []ledger.Head{s.log.highWater.Head()}
	for _, one := range signed {
		seen = append(seen, one.Head)
	}
	return seen, nil
}

// takeState gives a writer a State at the end of the log. The writer changes the
// State that it gets, so the next writer needs another one.
func (s *server) takeState(ctx context.Context) (state *ledger.State, err error) {
	if s.term != nil {
		return s.term.State(), nil
	}
	if state, s.state = s.state, nil; state != nil {
		return state, nil
	}
	return s.restore(ctx)
}

// leaderModels move the high-water mark beside the log before a client learns of a
// commit.
type leaderModels struct {
	writer.ReadModels
	highWater *blocks.HighWater
}

// Fold implements writer.ReadModels.
func (m *leaderModels) Fold(c *ledger.Commit, changes ledger.Changes) error {
	if err := m.highWater.Set(c.Head()); err != nil {
		return err
	}
	return m.ReadModels.Fold(c, changes)
}

// adviseToCut names the way out if the log ends with an entry that may be of another
// publisher.
func adviseToCut(err error) error {
	var bad *ledger.BadEntryError
	if !errors.As(err, &bad) {
		return err
	}
	good := bad.Sequence - 1
	return fmt.Errorf(
		"%w. If another publisher wrote entry %d and everything after it, find out who can publish there, and cut it off: "+
			"\"allot repair --cut-after %d\" does that to the log in a data folder; a log in another NATS server begins anew "+
			"from its archive, with \"allot restore --at %d\"", err, bad.Sequence, good, good,
	)
}

// rejectedAge is how long rejected commands are kept, if there is room.
const rejectedAge = 7 * 24 * time.Hour

// openRejected opens the stream of rejected commands, if they are kept. The
// server works without it.
func (s *server) openRejected(ctx context.Context) error {
	var err error
	s.rejected, err = jetstream.OpenRejected(ctx, s.log.nc, jetstream.RejectedConfig{
		MaxBytes: rejectedBytes, MaxAge: rejectedAge, Replicas: s.replicas(),
	})
	if err != nil {
		s.rejected = nil
		s.disks.cramped.Store(embedded.NoSpace(err))
		s.logger.Error("rejected commands are not kept", "error", err)
	}
	return nil
}

// explainReplica explains that a replica's folder and the log of its cluster do
// not belong together, and what to do.
func (s *server) explainReplica(err error) error {
	if !errors.Is(err, writer.ErrRefused) {
		return err
	}
	return fmt.Errorf("%s holds data of another ledger than the cluster's, or of commits that the cluster has lost: if it is "+
		"the wrong folder, name the right one with --data; if the cluster is right, move the folder away and start with an empty one, "+
		"which the others fill: %w", s.data.Dir, err)
}
