package server

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/ledger"
)

// ledgerDoor takes commands from APIs and processes, and lends them the State.
type ledgerDoor interface {
	commands.Starter
	commands.Freshness
	Fork(context.Context) (*ledger.State, error)
}

// soleWriter is the ledgerDoor of a single server.
type soleWriter struct{ writer *writerPart }

var _ ledgerDoor = soleWriter{}

// Start implements commands.Starter.
func (s soleWriter) Start(submission commands.Submission, done func(commands.Outcome, error)) {
	if w := s.writer.Load(); w != nil {
		w.Start(submission, done)
		return
	}
	done(commands.Outcome{}, commands.ErrStopped)
}

// Submit implements commands.Submitter.
func (s soleWriter) Submit(ctx context.Context, submission commands.Submission) (commands.Outcome, error) {
	if w := s.writer.Load(); w != nil {
		return w.Submit(ctx, submission)
	}
	return commands.Outcome{}, commands.ErrStopped
}

// Fork implements ledgerDoor.
func (s soleWriter) Fork(ctx context.Context) (*ledger.State, error) {
	if w := s.writer.Load(); w != nil {
		return w.Fork(ctx)
	}
	return nil, commands.ErrStopped
}

// Fresh implements commands.Freshness. A single server is always fresh.
func (soleWriter) Fresh(context.Context) error { return nil }

// Ahead implements commands.Freshness.
func (soleWriter) Ahead() bool { return false }

// replicaPart follows, and stands for election, if the server is one of several.
type replicaPart struct {
	*server

	nc      *nats.Conn       // to the other replicas
	replica *leading.Replica // nil: this server is the only one
}

func (p *replicaPart) commands() ledgerDoor {
	if p.replica == nil {
		return soleWriter{p.writer}
	}
	return p.replica
}

// freshness returns nil for a single server.
func (p *replicaPart) freshness() commands.Freshness {
	if p.replica == nil {
		return nil
	}
	return p.replica
}

func (p *replicaPart) start(ctx context.Context) (err error) {
	if !p.config.Cluster.shared() {
		return nil
	}
	if p.nc, err = p.nats.connectReplica(); err != nil {
		return err
	}
	if err := p.checkName(ctx); err != nil {
		p.nc.Close()
		return err
	}
	cfg := leading.Config{
		Name: p.config.Cluster.Name, HTTP: p.config.Cluster.REST, Version: cli.Version(), Conn: p.nc,
		Log: p.log.stream, Values: p.log.values,
		Models: &followerModels{
			leaderModels{p.views.Projector, p.highWater.HighWater, p.clock}, p.views.Changed, p.notary.otherBegan,
		},
		Lease: p.config.Cluster.Lease, Limit: p.config.Cluster.wait(), Near: p.nats.leads,
		Whole: p.nats.whole, Unfit: p.unfit, Lazy: p.config.LazySync && p.nats.Server != nil,
		Snapshots: p.snaps.due, Logger: p.logger,
	}
	if p.nats.Server != nil {
		cfg.Forget = p.nats.Forget
	}
	if p.config.Cluster.givesCopies() {
		cfg.Copies = p.config.Cluster.reached(p.config.Cluster.HTTP)
	}
	if p.traces.tracer != nil {
		cfg.Carrying = p.traces.tracer.Carrying
	}
	if p.replica, err = leading.Start(cfg, p.state.take()); err != nil {
		p.nc.Close()
	}
	return err
}

// unfit returns why another server should lead if one can, or nil.
func (p *replicaPart) unfit() error {
	if err := p.clock.Fault(); err != nil {
		return err
	}
	return p.disks.NotEligible()
}

// nameWait is how long the other servers may take to say what they are called.
const nameWait = 10 * time.Second

// checkName refuses a name that another server on an external NATS has. Those of a
// cluster of ours NATS compares.
func (p *replicaPart) checkName(ctx context.Context) error {
	if p.nats.Server != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	if members.CheckName(ctx, p.nc, p.config.Cluster.Name) != nil {
		return sameName(p.config.Cluster.Name)
	}
	return nil
}

func (p *replicaPart) stop() error {
	if p.replica == nil {
		return nil
	}
	state, err := p.replica.Stop()
	p.nc.Close()
	p.snaps.leave(state)
	return err
}

type followerModels struct {
	leaderModels
	changed func() <-chan struct{}
	began   func(*ledger.Commit) error // fails if another ledger begins in a commit
}

// Fold implements leading.Models.
func (f *followerModels) Fold(commit *ledger.Commit, changes ledger.Changes) error {
	if err := f.began(commit); err != nil {
		return err
	}
	return f.leaderModels.Fold(commit, changes)
}

// Changed implements leading.Models.
func (f *followerModels) Changed() <-chan struct{} { return f.changed() }

// lead leads while this server is elected, and follows otherwise, until the context ends.
func (p *replicaPart) lead(ctx context.Context) error {
	for {
		var asked <-chan string
		if p.writer.term != nil {
			asked = p.writer.term.Asked()
		}
		select {
		case <-ctx.Done():
			p.logger.Info("stopping")
			return p.resign(context.Background(), "", nil)
		case term := <-p.replica.Elected():
			if err := p.takeOver(ctx, term); err != nil {
				return err
			}
		case successor := <-asked:
			if err := p.resign(ctx, successor, nil); err != nil {
				return err
			}
		case f := <-p.parts.failed:
			lost := errors.Is(f.err, commands.ErrNotLeading)
			if lost && f.past() {
				break // the term could not begin because of this, and was given back
			}
			if !lost || p.writer.term == nil {
				return f.err
			}
			if err := p.resign(ctx, "", f.err); err != nil {
				return err
			}
		case err := <-p.replica.Failed():
			if errors.Is(err, members.ErrSameName) {
				return sameName(p.config.Cluster.Name)
			}
			return err
		}
	}
}

func (p *replicaPart) takeOver(ctx context.Context, term *leading.Term) error {
	p.writer.term = term
	err := p.parts.start(ctx, lead)
	if err == nil {
		p.logger.Info("this server leads", "sequence", p.views.Checkpoint().Sequence)
		return nil
	}
	if errors.Is(err, errOtherBegan) {
		return errors.Join(err, p.endTerm(ctx, ""))
	}
	p.logger.Warn("this server was elected, and cannot lead", "error", err)
	return p.endTerm(ctx, "")
}

// resign ends the term, if there is one: in order, or because it was lost.
func (p *replicaPart) resign(ctx context.Context, successor string, lost error) error {
	if p.writer.term == nil {
		return nil
	}
	if lost == nil {
		successor = p.handOver(successor)
	}
	if err := p.parts.stop(lead); err != nil && !commands.Passing(err) {
		return err
	} else if err != nil {
		p.logger.Warn("not everything that was under way was answered", "error", err)
	}
	p.logger.Info("stepped down", "successor", successor, "because", lost)
	return p.endTerm(ctx, successor)
}

// endTerm ends the term after its parts have stopped, and follows again. It follows with the writer's State
// or, if the writer has failed, with a rebuilt one.
func (p *replicaPart) endTerm(ctx context.Context, successor string) (err error) {
	term := p.writer.term
	p.writer.term = nil
	state := term.State()
	if w := p.writer.Swap(nil); w != nil {
		state = w.State()
	}
	if state == nil {
		ctx, cancel := p.parts.alive(ctx)
		defer cancel(nil)
		if state, err = p.state.restoreOrWait(ctx, nil); err != nil {
			return err
		}
	}
	term.Resign(state, successor)
	return nil
}

// handOver makes a successor's NATS server lead the log's stream before this one
// stops, so that appends need not wait for an election.
func (p *replicaPart) handOver(successor string) string {
	p.writer.term.BeginHandover()
	ctx, cancel := context.WithTimeout(context.Background(), p.config.Cluster.Lease)
	defer cancel()
	if successor == "" {
		successor = p.replica.Group().Successor(ctx)
	}
	if successor == "" || p.nats.Server == nil || !p.nats.Leads() {
		return successor
	}
	if err := p.log.stream.MoveLeader(ctx, successor); err != nil {
		p.logger.Warn("the log's stream was not handed over to another server; appends wait for an election", "to", successor, "error", err)
	}
	return successor
}
