package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/snapshots/copies"
)

// copyFolder is where a copy of another replica's State and read models comes
// together.
func (s *server) copyFolder() copies.Folder { return s.data.CopyFolder() }

// finishCopy puts a copy in its place that a former process had whole. Of one that had
// not all come, what is here is kept for the next try.
func (s *server) finishCopy(context.Context) error {
	if err := s.copyFolder().Finish(); err != nil || s.mayTake() {
		return err
	}
	return s.copyFolder().Clean()
}

// copyMaker makes copies of what this server has.
func (s *server) copyMaker() copies.Maker {
	return copies.Maker{
		Views: s.views, ReadModels: s.data.Path(datafolder.ReadModels), Snapshots: s.snaps, Unfit: s.disks.notEligible,
	}
}

// startCopies begins to give copies to other replicas.
func (s *server) startCopies(context.Context) error {
	if !s.asksPeers() {
		return nil
	}
	cfg := copies.ServerConfig{Maker: s.copyMaker(), Listen: s.config.Cluster.HTTP, Logger: s.logger}
	cfg.Fork = s.replica.Fork
	var err error
	if cfg.TLS, err = s.config.Cluster.tls(s.logger); err == nil {
		cfg.Secret, err = s.config.Cluster.secret()
	}
	if err == nil {
		s.copies, err = copies.Serve(cfg)
	}
	if err != nil {
		return fmt.Errorf("--cluster-http %s: %w", s.config.Cluster.HTTP, err)
	}
	return nil
}

func (s *server) stopCopies() error {
	if s.copies == nil {
		return nil
	}
	return s.copies.Stop()
}

// givesCopiesAt is where other replicas get copies; "": nowhere.
func (s *server) givesCopiesAt() string {
	if !s.asksPeers() {
		return ""
	}
	return s.config.Cluster.reached(s.config.Cluster.HTTP)
}

// asksPeers reports whether replicas give each other copies.
func (s *server) asksPeers() bool { return s.shared() && s.config.Cluster.HTTP != "" }

// mayTake reports whether there is a source of copies.
func (s *server) mayTake() bool { return s.asksPeers() || len(s.config.Archive.URL) > 0 }

// joinOnce gets State and read models of another replica or from an archive, once, if
// that is faster than to replay what is missing; nil: there is no source.
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
		if done = !passes; done && err == nil {
			err = s.copyFolder().Clean()
		}
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
	if err != nil || !copies.MayBeatReplay(s.views.Position(), from, last) {
		return false, err
	}
	got, err := s.takeCopy(ctx, from, last)
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

// takeCopy gets a copy of another replica, which is told of this one, or else one of an
// archive.
func (s *server) takeCopy(ctx context.Context, from, last uint64) (*copies.Copy, error) {
	unsign, err := s.config.opener()
	if err != nil {
		return nil, err
	}
	progress := &joinProgress{server: s, began: time.Now(), told: time.Now()}
	cfg := copies.JoinConfig{
		Stores: archive.Stores(s.archives), Unsign: unsign, Log: s.log.all, Folder: s.copyFolder(), From: from, UpTo: last,
		Room: s.disks.room, Tell: progress.tell, Logger: s.logger,
	}
	if !s.asksPeers() {
		return copies.Join(ctx, cfg)
	}
	nc, err := s.connectReplica()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	if s.replica == nil {
		stop, err := cluster.TellJoining(nc, progress.member)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	cfg.Peers = func(ctx context.Context) []copies.Peer { return s.copyPeers(ctx, nc) }
	if cfg.TLS, err = s.config.Cluster.tls(s.logger); err == nil {
		cfg.Secret, err = s.config.Cluster.secret()
	}
	if err != nil {
		return nil, err
	}
	return copies.Join(ctx, cfg)
}

// peersAsked is how often the replicas are asked for copies while none answers: those that are
// busy with this one's log take their time.
const peersAsked = 10

// copyPeers are the replicas that give copies.
func (s *server) copyPeers(ctx context.Context, nc *nats.Conn) (peers []copies.Peer) {
	for range peersAsked {
		for _, m := range cluster.Members(ctx, nc) {
			if m.Copies != "" && m.Name != s.config.Cluster.Name {
				peers = append(peers, copies.Peer{
					Name: m.Name, Address: m.Copies, Leads: m.Role == cluster.RoleLeader, Sequence: m.Sequence,
				})
			}
		}
		if len(peers) > 0 || ctx.Err() != nil {
			break
		}
	}
	return peers
}
