package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/ledger"
)

// ledgerDoor takes commands from APIs and processes, and lends them the State.
type ledgerDoor interface {
	commands.Starter
	commands.Freshness
	Fork(context.Context) (*ledger.State, error)
}

// soleWriter is the ledgerDoor of a single server.
type soleWriter struct{ leader *leader }

var _ ledgerDoor = soleWriter{}

// Start implements commands.Starter.
func (s soleWriter) Start(submission commands.Submission, done func(commands.Outcome, error)) {
	if w := s.leader.writer.Load(); w != nil {
		w.Start(submission, done)
		return
	}
	done(commands.Outcome{}, commands.ErrStopped)
}

// Submit implements commands.Submitter.
func (s soleWriter) Submit(ctx context.Context, submission commands.Submission) (commands.Outcome, error) {
	if w := s.leader.writer.Load(); w != nil {
		return w.Submit(ctx, submission)
	}
	return commands.Outcome{}, commands.ErrStopped
}

// Fork implements ledgerDoor.
func (s soleWriter) Fork(ctx context.Context) (*ledger.State, error) {
	if w := s.leader.writer.Load(); w != nil {
		return w.Fork(ctx)
	}
	return nil, commands.ErrStopped
}

// Fresh implements commands.Freshness. A single server is always fresh.
func (soleWriter) Fresh(context.Context) error { return nil }

// startReplica starts to follow, and to stand for election, if the server is one
// of several.
func (s *server) startReplica(ctx context.Context) (err error) {
	if !s.shared() {
		return nil
	}
	if s.peersNC, err = s.connectReplica(); err != nil {
		return err
	}
	if err := s.checkName(ctx); err != nil {
		s.peersNC.Close()
		return err
	}
	s.replica, err = cluster.Start(cluster.Config{
		Name: s.config.Cluster.Name, HTTP: s.config.Cluster.REST, Copies: s.givesCopiesAt(), Version: cli.Version(),
		Conn: s.peersNC, Log: s.log.stream, Values: s.log.values,
		Models: &followerModels{leaderModels{s.views, s.log.highWater}, s.views.Changed, s.otherBegan},
		Lease:  s.config.Cluster.Lease, Limit: s.paces.clusterWait(&s.config.Cluster), Near: s.near(),
		Whole:     s.whole(),
		Unfit:     s.disks.notEligible,
		Lazy:      s.config.LazySync && s.log.nats != nil,
		Snapshots: s.due, Logger: s.logger, Carrying: s.carrying(),
	}, s.state)
	if err != nil {
		s.peersNC.Close()
		return err
	}
	s.state, s.commands = nil, s.replica
	return nil
}

// nameWait is how long the other servers may take to say what they are called.
const nameWait = 10 * time.Second

// checkName refuses a name that another server on an external NATS has. Those of a
// cluster of ours NATS compares.
func (s *server) checkName(ctx context.Context) error {
	if s.log.nats != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nameWait)
	defer cancel()
	if cluster.CheckName(ctx, s.peersNC, s.config.Cluster.Name) != nil {
		return sameName(s.config.Cluster.Name)
	}
	return nil
}

// errOtherBegan: two servers were to begin the log at the same time.
var errOtherBegan = errors.New("another server has begun the ledger meanwhile; nothing is lost: start this one again, and it joins")

// sameLedger fails if another server has begun another ledger in the log that
// this one was to begin.
func (s *server) sameLedger(state *ledger.State) error {
	if id := state.LedgerID(); !id.IsNil() && id != s.notary.Ledger {
		return fmt.Errorf("%w: it is %s", errOtherBegan, id)
	}
	return nil
}

// otherBegan is sameLedger for a commit in which a ledger may begin.
func (s *server) otherBegan(commit *ledger.Commit) error {
	for _, record := range commit.Records {
		for _, event := range record.Events {
			if begun, is := event.(ledger.LedgerCreated); is && begun.Ledger != s.notary.Ledger {
				return fmt.Errorf("%w: it is %s", errOtherBegan, begun.Ledger)
			}
		}
	}
	return nil
}

// connectReplica opens the connection to the other replicas.
func (s *server) connectReplica() (*nats.Conn, error) {
	if s.log.nats != nil {
		return s.log.nats.ConnectReplica()
	}
	return s.config.dial(s.config.NATSURL, s.config.NATSCreds, "replica")
}

// near reports whether the log's stream is led in this process; nil: it never is.
func (s *server) near() func() bool {
	if s.log.nats == nil {
		return nil
	}
	return s.log.nats.Leads
}

// whole reports whether this server's JetStream has everything that it should
// have; nil: JetStream is elsewhere.
func (s *server) whole() func() bool {
	if s.log.nats == nil {
		return nil
	}
	return s.log.nats.Whole
}

func (s *server) stopReplica() error {
	if s.replica == nil {
		return nil
	}
	state, err := s.replica.Stop()
	s.peersNC.Close()
	s.leaveSnapshot(state)
	return err
}

// followerModels are the read models of a follower.
type followerModels struct {
	leaderModels
	changed func() <-chan struct{}
	began   func(*ledger.Commit) error // fails if another ledger begins in a commit
}

// Fold implements cluster.Models.
func (f *followerModels) Fold(commit *ledger.Commit, changes ledger.Changes) error {
	if err := f.began(commit); err != nil {
		return err
	}
	return f.leaderModels.Fold(commit, changes)
}

// Changed implements cluster.Models.
func (f *followerModels) Changed() <-chan struct{} { return f.changed() }

// beginTerm records that this server leads.
func (s *server) beginTerm(ctx context.Context) error {
	if s.term == nil {
		return s.raiseLevel(ctx)
	}
	return s.term.Begin(ctx, s.leader.writer.Load())
}

// raiseLevel begins a term on a server that is alone with a ledger that was a cluster's, if the
// last term was of an older release: no other replica has to read what comes.
func (s *server) raiseLevel(ctx context.Context) error {
	state, err := s.leader.writer.Load().Fork(ctx)
	if err != nil {
		return err
	}
	last := state.Term()
	if last.Number == 0 || last.Level >= ledger.Level {
		return nil
	}
	outcome, err := s.submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "allot", Command: &commands.BeginTerm{
		Leader: last.Leader, Instance: commands.NewID(), Level: ledger.Level,
	}})
	if err == nil && outcome.Rejection != nil {
		err = fmt.Errorf("the term of this release could not begin: %s", outcome.Rejection)
	}
	return err
}

// openTerm takes the commands of clients, of this server and of the others.
func (s *server) openTerm(context.Context) error {
	if s.term == nil {
		return nil
	}
	return s.term.Open()
}

func (s *server) closeTerm() error {
	if s.term != nil {
		s.term.Close()
	}
	return nil
}

// leadWhenElected leads while this server is elected, and follows otherwise, until the
// context ends.
func (s *server) leadWhenElected(ctx context.Context) error {
	for {
		var asked <-chan string
		if s.term != nil {
			asked = s.term.Asked()
		}
		select {
		case <-ctx.Done():
			s.logger.Info("stopping")
			return s.resign(context.Background(), "", nil)
		case term := <-s.replica.Elected():
			if err := s.takeOver(ctx, term); err != nil {
				return err
			}
		case successor := <-asked:
			if err := s.resign(ctx, successor, nil); err != nil {
				return err
			}
		case f := <-s.parts.failed:
			lost := errors.Is(f.err, commands.ErrNotLeading)
			if lost && f.past() {
				break // the term could not begin because of this, and was given back
			}
			if !lost || s.term == nil {
				return f.err
			}
			if err := s.resign(ctx, "", f.err); err != nil {
				return err
			}
		case err := <-s.replica.Failed():
			if errors.Is(err, cluster.ErrSameName) {
				return sameName(s.config.Cluster.Name)
			}
			return err
		}
	}
}

// takeOver starts to lead.
func (s *server) takeOver(ctx context.Context, term *cluster.Term) error {
	s.term = term
	err := s.parts.start(ctx, lead)
	if err == nil {
		s.logger.Info("this server leads", "sequence", s.views.Checkpoint().Sequence)
		return nil
	}
	if errors.Is(err, errOtherBegan) {
		return errors.Join(err, s.endTerm(ctx, ""))
	}
	s.logger.Warn("this server was elected, and cannot lead", "error", err)
	return s.endTerm(ctx, "")
}

// resign ends the term, if there is one: in order, or because it was lost.
func (s *server) resign(ctx context.Context, successor string, lost error) error {
	if s.term == nil {
		return nil
	}
	if lost == nil {
		successor = s.handOver(successor)
	}
	if err := s.parts.stop(lead); err != nil && !commands.Passing(err) {
		return err
	} else if err != nil {
		s.logger.Warn("not everything that was under way was answered", "error", err)
	}
	s.logger.Info("stepped down", "successor", successor, "because", lost)
	return s.endTerm(ctx, successor)
}

// endTerm ends the term after its parts have stopped, and follows again. It
// follows with the writer's State or, if the writer has failed, with a rebuilt
// one.
func (s *server) endTerm(ctx context.Context, successor string) (err error) {
	term := s.term
	s.term = nil
	state := term.State()
	if w := s.leader.writer.Swap(nil); w != nil {
		state = w.State()
	}
	if state == nil {
		if state, err = s.restoreOrWait(ctx, nil); err != nil {
			return err
		}
	}
	term.Resign(state, successor)
	return nil
}

// handOver makes a successor's NATS server lead the log's stream before this one
// stops, so that appends need not wait for an election.
func (s *server) handOver(successor string) string {
	s.term.BeginHandover()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Cluster.Lease)
	defer cancel()
	if successor == "" {
		successor = s.replica.Successor(ctx)
	}
	if successor == "" || s.log.nats == nil || !s.near()() {
		return successor
	}
	if err := s.log.stream.MoveLeader(ctx, successor); err != nil {
		s.logger.Warn("the log's stream was not handed over to another server; appends wait for an election", "to", successor, "error", err)
	}
	return successor
}
