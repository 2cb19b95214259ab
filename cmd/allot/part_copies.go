package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/commands/copies"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
)

// copyFolder is where a copy of another replica's State and read models comes
// together.
func (s *server) copyFolder() copies.Folder { return copyFolderIn(s.data) }

func copyFolderIn(d *datafolder.Folder) copies.Folder {
	models := d.Path(datafolder.ReadModels)
	return copies.Folder{ReadModels: models, Models: projector.FilesIn(models), Snapshots: d.Path(datafolder.Snapshots)}
}

// finishCopy puts a copy in its place that a former process had whole, and
// removes what was not.
func (s *server) finishCopy(context.Context) error {
	folder := s.copyFolder()
	if err := folder.Clean(); err != nil {
		return err
	}
	return folder.Finish()
}

// startCopies begins to give copies to other replicas.
func (s *server) startCopies(context.Context) (err error) {
	if s.replica == nil || s.config.Cluster.Copy == 0 {
		return nil
	}
	s.copies, err = copies.Serve(copies.ServerConfig{
		Name: s.config.Cluster.Name, Instance: commands.NewID(), Conn: s.peersNC, Views: s.views,
		ReadModels: s.data.Path(datafolder.ReadModels), Snapshots: s.snaps, Fork: s.replica.Fork,
		Leads: func() bool { return s.replica.Role() == cluster.RoleLeader }, Unfit: s.space.unfit,
		Pace: check.NewPace(s.config.Cluster.Copy), Logger: s.logger,
	})
	return err
}

func (s *server) stopCopies() error {
	if s.copies == nil {
		return nil
	}
	return s.copies.Stop()
}

// joinOnce fetches State and read models of another replica or from an archive,
// once, if that is faster than to replay what is missing; nil: there is nobody to
// ask.
func (s *server) joinOnce() func(context.Context) error {
	if !s.mayTake() {
		return nil
	}
	done := false
	return func(ctx context.Context) error {
		if done {
			return nil
		}
		passes, err := s.join(ctx)
		done = !passes
		return err
	}
}

// join reports whether it is to be tried again: the log was out of reach.
func (s *server) join(ctx context.Context) (again bool, err error) {
	seen, err := s.seen()
	if err != nil {
		return false, err
	}
	last, err := writer.Verify(ctx, s.log.all, s.snaps, s.views, seen)
	if err != nil {
		return errors.Is(err, ledger.ErrUnavailable), nil // the replay says it, too, and what to do
	}
	from, err := s.standsAt()
	if err != nil || !copies.MayBeWorth(s.views.Position(), from, last) {
		return false, err
	}
	got, err := s.fetchAny(ctx, from, last)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("told to stop while joining: %w", ctx.Err())
	case err != nil:
		s.logger.Info("the log is replayed, instead of a copy of State and read models", "because", err)
		return false, nil
	}
	if err := s.views.Exchange(s.copyFolder().Finish); err != nil {
		return false, err
	}
	return false, s.log.highWater.Set(got.Models.Head)
}

// standsAt is up to where State and read models can be had without the log.
func (s *server) standsAt() (uint64, error) {
	heads, err := s.snaps.Heads()
	if err != nil {
		return 0, err
	}
	for _, head := range heads {
		if head.Sequence <= s.views.Checkpoint().Sequence {
			return head.Sequence, nil
		}
	}
	return 0, nil
}

// fetchCopy fetches a copy, and tells the others that it does.
func (s *server) fetchCopy(ctx context.Context, from uint64) (*copies.Copy, error) {
	nc, err := s.connectReplica()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	progress := &joinProgress{server: s, began: time.Now(), told: time.Now()}
	if s.replica == nil {
		stop, err := cluster.TellJoining(nc, progress.member)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	return copies.Join(ctx, copies.JoinConfig{
		Conn: nc, Log: s.log.all, Folder: s.copyFolder(), From: from, Room: s.space.room,
		Tell: progress.tell, Logger: s.logger,
	})
}

// refill fills read models that turned out to be damaged while the server runs.
func (s *server) refill(ctx context.Context) (*ledger.State, error) {
	last, err := s.log.all.Last(ctx)
	if err != nil {
		return nil, err
	}
	got, err := s.fetchAny(ctx, 0, last)
	switch {
	case errors.Is(err, copies.ErrNotWorth):
		return nil, nil // to make them from the log takes less
	case err != nil:
		return nil, err
	}
	if err := s.copyFolder().Finish(); err != nil {
		return nil, err
	}
	return got.State, s.log.highWater.Set(got.Models.Head)
}
