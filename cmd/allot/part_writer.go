package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/snapshots/copies"
)

// leader is what a server has while it leads. Parts that go on when lead stops
// can read its fields at any moment: they are nil before lead has first started,
// and keep their last value after it has stopped.
type leader struct {
	notices   atomic.Pointer[notices.Publisher]
	keeper    atomic.Pointer[rejected.Keeper] // nil: rejected commands are not kept
	writer    atomic.Pointer[writer.Writer]
	claims    *placing.Stage
	allocator *processes.NodePlacer
	expirer   *processes.Expirer
	limits    *processes.LimitFollower // nil: limits follow no Keystone
	natsDoor  *natsapi.Service
	archiver  atomic.Pointer[archive.Archiver] // nil: the server archives nothing now
	storing   atomic.Pointer[copies.Keeper]    // nil: no copies are stored in archives now
}

// startNotices puts the publisher of notices between writer and read models.
func (s *server) startNotices(context.Context) error {
	cfg := notices.Config{Conn: s.noticesNC, Ledger: s.notary.Ledger, Logger: s.logger}
	if s.log.nats != nil {
		cfg.Interest = s.log.nats.Interest
		cfg.Listening = s.log.nats.Listening
	}
	s.leader.notices.Store(notices.Start(s.views, cfg))
	return nil
}

func (s *server) stopNotices() error {
	s.leader.notices.Load().Stop()
	return nil
}

func (s *server) startKeeper(context.Context) error {
	if s.rejected != nil {
		s.leader.keeper.Store(rejected.Start(s.rejected, rejectedBytes, s.logger))
	}
	return nil
}

func (s *server) stopKeeper() error {
	if keeper := s.leader.keeper.Load(); keeper != nil {
		keeper.Stop()
	}
	return nil
}

func (s *server) startWriter(ctx context.Context) error {
	state, err := s.takeState(ctx)
	if err != nil {
		return err
	}
	if err := s.sameLedger(state); err != nil {
		return err
	}
	s.disks.disarm()
	options := writer.Options{
		Now: time.Now, Logger: s.logger, Snapshots: s.due,
		AnswerWithin: s.paces.AnswerWithin, Refuse: s.disks.refuse, Observer: s.observer(),
	}
	if s.term != nil {
		options.Leadership, options.Landed = s.term, s.term.Landed
		options.AnswerWithin = s.paces.clusterWait(&s.config.Cluster)
	}
	if keeper := s.leader.keeper.Load(); keeper != nil {
		options.Rejected = keeper.Keep
	}
	s.leader.claims = placing.New(placing.Options{
		Views: s.views, Log: s.log.all, MaxSteps: candidatesBudget,
		Beside: runtime.GOMAXPROCS(0) / 2,
	})
	options.Search = s.leader.claims.Search
	models := &leaderModels{s.leader.notices.Load(), s.log.highWater}
	s.leader.writer.Store(writer.New(s.log.all, models, state, options))
	return nil
}

// runWriter returns the reason when the writer has ended.
func (s *server) runWriter() error {
	writer := s.leader.writer.Load()
	<-writer.Done()
	return writer.Close()
}

// giveUpClaims tells the clients whose claims are searched for that the server stops:
// the doors wait for all answers, and there may be a thousand long searches.
func (s *server) giveUpClaims() { s.leader.claims.GiveUp() }

func (s *server) stopWriter() error {
	s.leader.claims.Stop()
	err := s.leader.writer.Load().Close()
	if errors.Is(err, commands.ErrNotLeading) {
		err = nil // the server that leads now goes on
	}
	if s.term == nil {
		s.leaveSnapshot(s.leader.writer.Load().State())
	} // else it goes on as a follower, and clients wait for the next leader
	s.saveCheckpoint()
	return err
}

// begin begins the ledger, or adds the standard names that it lacks.
func (s *server) begin(ctx context.Context) error {
	names, err := commands.NewAddStandardNames(s.notary.Ledger)
	if err != nil {
		return err
	}
	outcome, err := s.submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "allot", Command: names})
	if err == nil && outcome.Rejection != nil {
		err = fmt.Errorf("the ledger could not begin: %s", outcome.Rejection)
	}
	if err != nil {
		return err
	}
	return s.data.Files().Begun()
}

// submit carries out a command of the start.
func (s *server) submit(ctx context.Context, submission commands.Submission) (commands.Outcome, error) {
	return s.leader.writer.Load().Submit(ctx, submission)
}
