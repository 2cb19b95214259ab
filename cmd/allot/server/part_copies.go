package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/snapshots/copies"
)

// copiesPart gives copies to other replicas.
type copiesPart struct {
	*server

	giver *copies.Server // nil: it gives none
}

func (p *copiesPart) start(context.Context) error {
	if !p.config.Cluster.givesCopies() {
		return nil
	}
	cfg := copies.ServerConfig{Maker: p.snaps.maker(p.disks.NotEligible), Listen: p.config.Cluster.HTTP, Logger: p.logger}
	cfg.Fork = p.replica.replica.Fork
	var err error
	if cfg.TLS, cfg.Secret, err = p.config.Cluster.proof(p.logger); err == nil {
		p.giver, err = copies.Serve(cfg)
	}
	if err != nil {
		return fmt.Errorf("--cluster-http %s: %w", p.config.Cluster.HTTP, err)
	}
	return nil
}

func (p *copiesPart) stop() error {
	if p.giver == nil {
		return nil
	}
	return p.giver.Stop()
}

// joinPart gets a copy of State and read models that this server lacks.
type joinPart struct{ *server }

// start puts a copy in its place that a former process had whole. Of one that had
// not all come, what is here is kept for the next try.
func (p *joinPart) start(context.Context) error {
	if err := p.data.CopyFolder().Finish(); err != nil || p.config.mayTake() {
		return err
	}
	return p.data.CopyFolder().Clean()
}

// once gets State and read models of another replica or from an archive, once, if
// that is faster than to replay what is missing; nil: there is no source.
func (p *joinPart) once() func(context.Context) error {
	if !p.config.mayTake() {
		return nil
	}
	done := false
	return func(ctx context.Context) error {
		if done {
			return nil
		}
		passes, err := p.join(ctx)
		if done = !passes; done && err == nil {
			err = p.data.CopyFolder().Clean()
		}
		return err
	}
}

// join reports whether it is to be tried again: the log was out of reach.
func (p *joinPart) join(ctx context.Context) (again bool, err error) {
	seen, err := p.highWater.seen()
	if err != nil {
		return false, err
	}
	last, err := writer.Verify(ctx, p.log.all, p.snaps.Store, p.views.Projector, seen)
	if err != nil {
		return errors.Is(err, ledger.ErrUnavailable), nil // the replay says it, too, and what to do
	}
	from, err := p.standsAt()
	if err != nil || !copies.MayBeatReplay(p.views.Position(), from, last) {
		return false, err
	}
	got, err := p.take(ctx, from, last)
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("told to stop while joining: %w", ctx.Err())
	case err != nil:
		p.logger.Info("the log is replayed, instead of a copy of State and read models", "because", err)
		return false, nil
	}
	if err := p.views.Exchange(p.data.CopyFolder().Finish); err != nil {
		return false, err
	}
	return false, p.highWater.Set(got.Models.Head)
}

// standsAt is up to where State and read models can be had without the log.
func (p *joinPart) standsAt() (uint64, error) {
	heads, err := p.snaps.Heads()
	if err != nil {
		return 0, err
	}
	for _, head := range heads {
		if head.Sequence <= p.views.Checkpoint().Sequence {
			return head.Sequence, nil
		}
	}
	return 0, nil
}

// take gets a copy of another replica, which is told of this one, or else one of an archive.
func (p *joinPart) take(ctx context.Context, from, last uint64) (*copies.Copy, error) {
	progress := &joinProgress{joinPart: p, began: time.Now(), told: time.Now()}
	cfg := copies.JoinConfig{
		Stores: archive.Stores(p.archives.list), Log: p.log.all, Folder: p.data.CopyFolder(), From: from, UpTo: last,
		Needed: p.paces.CopyNeeded, Room: p.disks.Room, Tell: progress.tell, Logger: p.logger,
	}
	if p.config.SigningKey != "" { // only copies that are signed with it
		verifier, err := cli.VerifierOf(p.config.SigningKey)
		if err != nil {
			return nil, err
		}
		cfg.Unsign = cli.OpenSigned(note.VerifierList(verifier))
	}
	if !p.config.Cluster.givesCopies() {
		return copies.Join(ctx, cfg)
	}
	nc, err := p.nats.connectReplica()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop, err := members.TellJoining(nc, progress.member)
	if err != nil {
		return nil, err
	}
	defer stop()
	cfg.Peers = func(ctx context.Context) []copies.Peer { return p.peers(ctx, nc) }
	if cfg.TLS, cfg.Secret, err = p.config.Cluster.proof(p.logger); err != nil {
		return nil, err
	}
	return copies.Join(ctx, cfg)
}

// peersAsked is how often the replicas are asked for copies while none answers: those that are
// busy with this one's log take their time.
const peersAsked = 10

func (p *joinPart) peers(ctx context.Context, nc *nats.Conn) (peers []copies.Peer) {
	for range peersAsked {
		for _, m := range members.All(ctx, nc) {
			if m.Copies != "" && m.Name != p.config.Cluster.Name {
				peers = append(peers, copies.Peer{
					Name: m.Name, Address: m.Copies, Leads: m.Role == members.RoleLeader, Sequence: m.Sequence,
				})
			}
		}
		if len(peers) > 0 || ctx.Err() != nil {
			break
		}
	}
	return peers
}

// joinTell is how often it is told how far a copy has come.
const joinTell = 5 * time.Second

// joinProgress is how far a copy has come that this server fetches.
type joinProgress struct {
	*joinPart
	began time.Time

	mu   sync.Mutex
	now  copies.Progress // guarded by mu
	told time.Time       // guarded by mu
}

func (p *joinProgress) tell(now copies.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Bytes < p.now.Bytes && now.From == p.now.From {
		return // one that was overtaken
	}
	p.now = now
	text := fmt.Sprintf("State and read models come from %s: %d of %d MiB", now.From, now.Bytes>>20, now.Of>>20)
	p.waits.Store(&text)
	if time.Since(p.told) < joinTell {
		return
	}
	p.told = time.Now()
	p.logger.Info("joining", "from", now.From, "bytes", now.Bytes, "of", now.Of, "since", time.Since(p.began))
}

// member is this server, as the others are told of it.
func (p *joinProgress) member() members.Member {
	p.mu.Lock()
	now := p.now
	p.mu.Unlock()
	m := members.Member{
		Name: p.config.Cluster.Name, HTTP: p.config.Cluster.REST, Version: cli.Version(),
		Sequence: p.views.Checkpoint().Sequence, Joining: &now,
	}
	m.Whole = p.nats.whole == nil || p.nats.whole()
	return m
}
