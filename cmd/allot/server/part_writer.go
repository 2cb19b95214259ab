package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/placing"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// Parts of the phase lead whose results others read at any moment keep them in atomic
// pointers: nil before lead has first started, and the last value after it has stopped.

// noticesPart puts the publisher of notices between writer and read models.
type noticesPart struct {
	*server

	atomic.Pointer[notices.Publisher]
}

func (p *noticesPart) start(context.Context) error {
	cfg := notices.Config{Conn: p.telling.Conn, Ledger: p.notary.Ledger, Logger: p.logger}
	if p.nats.Server != nil {
		cfg.Interest = p.nats.Interest
		cfg.Listening = p.nats.Listening
		cfg.Ways = p.nats.Ways
	}
	p.Store(notices.Start(p.views.Projector, cfg))
	return nil
}

func (p *noticesPart) stop() { p.Load().Stop() }

// writerPart is the writer, and what a server does first and last when it leads.
type writerPart struct {
	*server

	atomic.Pointer[writer.Writer]
	claims *placing.Stage
	term   *leading.Term // nil: this server does not lead, or is the only one
}

func (p *writerPart) start(ctx context.Context) error {
	state, err := p.takeState(ctx)
	if err != nil {
		return err
	}
	if err := p.notary.sameLedger(state); err != nil {
		return err
	}
	p.disks.Disarm()
	options := writer.Options{
		Now: p.clock.Now, Logger: p.logger, Snapshots: p.snaps.due,
		AnswerWithin: p.paces.AnswerWithin, Refuse: p.disks.Refuse,
	}
	if p.instruments != nil || p.traces.tracer != nil {
		options.Observer = vitals.Observer{Instruments: p.instruments, Tracer: p.traces.tracer}
	}
	if p.term != nil {
		options.Leadership, options.Landed = p.term, p.term.Landed
		options.AnswerWithin = p.config.Cluster.wait()
	}
	if keeper := p.rejected.keeper.Load(); keeper != nil {
		options.Rejected = keeper.Keep
	}
	p.claims = placing.New(placing.Options{
		Views: p.views.Projector, Log: p.log.all, MaxSteps: candidatesBudget,
		Beside: runtime.GOMAXPROCS(0) / 2,
	})
	options.Search = p.claims.Search
	models := &leaderModels{p.notices.Load(), p.highWater.HighWater, p.clock}
	p.Store(writer.New(p.log.all, models, state, options))
	return nil
}

func (p *writerPart) run() error {
	writer := p.Load()
	<-writer.Done()
	return writer.Close()
}

// interrupt tells the clients whose claims are searched for that the server stops:
// the doors wait for all answers, and there may be a thousand long searches.
func (p *writerPart) interrupt() { p.claims.GiveUp() }

func (p *writerPart) stop() error {
	p.claims.Stop()
	err := p.Load().Close()
	if errors.Is(err, commands.ErrNotLeading) {
		err = nil // the server that leads now goes on
	}
	if p.term == nil {
		p.snaps.leave(p.Load().State())
	} // else it goes on as a follower, and clients wait for the next leader
	p.notary.save()
	return err
}

// begin begins the ledger, or adds the standard names that it lacks.
func (p *writerPart) begin(ctx context.Context) error {
	names, err := commands.NewAddStandardNames(p.notary.Ledger)
	if err != nil {
		return err
	}
	if _, err := p.submit(ctx, names, "the ledger could not begin"); err != nil {
		return err
	}
	return p.data.Files().Begun()
}

// submit carries out a command of the start. If it is rejected, the error begins with a text.
func (p *writerPart) submit(ctx context.Context, command commands.Command, text string) (commands.Outcome, error) {
	outcome, err := p.Load().Submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "allot", Command: command})
	if err == nil && outcome.Rejection != nil {
		err = fmt.Errorf("%s: %s", text, outcome.Rejection)
	}
	return outcome, err
}

func (p *writerPart) beginTerm(ctx context.Context) error {
	if p.term == nil {
		return p.raiseLevel(ctx)
	}
	return p.term.Begin(ctx, p.Load())
}

// raiseLevel begins a term on a server that is alone with a ledger that was a cluster's, if the
// last term was of an older release: no other replica has to read what comes.
func (p *writerPart) raiseLevel(ctx context.Context) error {
	state, err := p.Load().Fork(ctx)
	if err != nil {
		return err
	}
	last := state.Term()
	if last.Number == 0 || last.Level >= ledger.Level {
		return nil
	}
	begin := &commands.BeginTerm{Leader: last.Leader, Instance: commands.NewID(), Level: ledger.Level}
	_, err = p.submit(ctx, begin, "the term of this release could not begin")
	return err
}

// openTerm takes the commands of clients, of this server and of the others.
func (p *writerPart) openTerm(context.Context) error {
	if p.term == nil {
		return nil
	}
	return p.term.Open()
}

func (p *writerPart) closeTerm() {
	if p.term != nil {
		p.term.Close()
	}
}

// takeState gives a writer a State at the end of the log. The writer changes the
// State that it gets, so the next writer needs another one.
func (p *writerPart) takeState(ctx context.Context) (state *ledger.State, err error) {
	if p.term != nil {
		return p.term.State(), nil
	}
	if state = p.state.take(); state != nil {
		return state, nil
	}
	return p.state.restore(ctx)
}

// rejectedAge is how long rejected commands are kept, if there is room.
const rejectedAge = 7 * 24 * time.Hour

type rejectedPart struct {
	*server

	stream *jetstream.Rejected // nil: they are not kept
	keeper atomic.Pointer[rejected.Keeper]
}

// open opens the stream of rejected commands, if they are kept. The server works without it.
func (p *rejectedPart) open(ctx context.Context) (err error) {
	p.stream, err = jetstream.OpenRejected(ctx, p.log.nc, jetstream.RejectedConfig{
		MaxBytes: rejectedBytes, MaxAge: rejectedAge, Replicas: p.log.replicas(),
	})
	if err != nil {
		p.stream = nil
		p.disks.Cramped(embedded.NoSpace(err))
		p.logger.Error("rejected commands are not kept", "error", err)
	}
	return nil
}

func (p *rejectedPart) start(context.Context) error {
	if p.stream != nil {
		p.keeper.Store(rejected.Start(p.stream, rejectedBytes, p.logger))
	}
	return nil
}

func (p *rejectedPart) stop() {
	if keeper := p.keeper.Load(); keeper != nil {
		keeper.Stop()
	}
}
