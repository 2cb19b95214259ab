package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/cmd/allot/operate"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
)

// fillHistory appends the commits of the archive that the ledger begins with; after a
// kill, those that are missing. Every append names the sequence that the commit had in
// the archive. No server leads before all commits are there: from its creation on the
// stream records up to where it is to be filled, and the other servers wait for that.
func (s *server) fillHistory(ctx context.Context) error {
	begin := s.verdict.Begin
	if begin == nil || begin.History == nil {
		return nil
	}
	if s.log.stream.History() != begin.History.Sequence {
		return fmt.Errorf(
			"%s is to begin a cluster with the %d commits of an archive (allot init --from), but the cluster has a log "+
				"already; nothing was changed. To join that cluster, start this server with an empty folder",
			s.config.Data,
			begin.History.Sequence,
		)
	}
	source, err := operate.OpenLogFile(s.data.Files().HistoryPath())
	if err != nil {
		return err
	}
	if source.Trailer.Head != *begin.History {
		return fmt.Errorf("%s is not the archive that allot init took: run allot init again in an empty folder", s.data.Files().HistoryPath())
	}
	waits, pause := s.waiter("the log is not filled from the archive yet"), openAgain
	for {
		err := s.fillMissing(ctx, source)
		passes := errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrUnknownFate) ||
			errors.Is(err, ledger.ErrConflict)
		if !passes {
			return err
		}
		waits(err.Error())
		pause = min(2*pause, openLatest)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("stopped while filling the log from the archive; the next start goes on: %w", err)
		}
	}
}

func (s *server) fillMissing(ctx context.Context, source *operate.LogFile) error {
	last, err := s.log.all.Last(ctx)
	if err != nil || last >= source.Trailer.Sequence {
		return err
	}
	if err := datafolder.SameCommit(ctx, s.log.all, source.Read, last); err != nil {
		return err
	}
	s.logger.Info("filling the log from the archive", "from", last+1, "to", source.Trailer.Sequence)
	if err := datafolder.Copy(ctx, source.Read, last+1, source.Trailer.Sequence, s.log.all, "filling"); err != nil {
		return err
	}
	s.logger.Info("the log is filled", "sequence", source.Trailer.Sequence, "digest", source.Trailer.Digest)
	return nil
}
