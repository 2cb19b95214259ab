package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots"
	"github.com/allot-project/allot/snapshots/copies"
)

// garbage is how much there may be, in percent of the memory in use, before it is
// collected. Requests over NATS are a tenth faster so than with Go's 100.
const garbage = 200

// stopTimeout is how long a server takes to end after SIGTERM, even if something has not
// stopped by then. systemd's unit waits twice as long.
const stopTimeout = 15 * time.Second

// Run serves until the context ends. Then it returns within stopTimeout, or when
// another signal comes. Whatever was answered is already durable.
func (c *serveCommand) Run(ctx context.Context, args *program) error {
	c.configFile = args.Config
	if c.Check {
		return c.rehearse(os.Stdout)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGTERM, os.Interrupt)
	select {
	case err := <-ended:
		return err
	case <-again:
		return errors.New("ended at once by a second signal; everything that was answered is in the log")
	case <-time.After(stopTimeout):
		return fmt.Errorf(
			"not everything had stopped %v after the signal; everything that was answered is in the log", stopTimeout,
		)
	}
}

func (c *serveCommand) serve(ctx context.Context) error {
	logger := c.Log.Logger(os.Stderr)
	if err := c.check(); err != nil {
		return err
	}
	if c.NATS == defaultNATS && c.natsIsBackDoor() {
		logger.Warn(
			"NATS stays inside the process, because REST is authenticated and NATS has no users: name them with --nats-users to serve it",
		)
		c.NATS = ""
	}
	for _, file := range c.exposed() {
		logger.Warn("every user of this machine can read a file that holds secrets: chmod o-rwx FILE", "file", file)
	}
	s := newServer(c, logger)
	if err := s.start(ctx); err != nil {
		return err
	}
	logger.Info("serving", "http", s.rest.address(), "nats", s.log.url, "sequence", s.views.Checkpoint().Sequence)
	return errors.Join(s.wait(ctx), s.stop())
}

// server is a running server. The results of a part are in the fields of its
// phase, and are there from the part's start to its stop.
type server struct {
	config *serveCommand
	paces  paces
	logger *slog.Logger
	parts  *partList

	// open
	tracer   *tracing.Tracer // nil: there are none
	data     *datafolder.Folder
	access   access
	users    *natsapi.Users // nil: every client may connect
	rest     restDoor
	fair     *fair.Pool // what clients share
	verdict  *blocks.Verdict
	notary   *present.Notary
	vouchers *proof.Folder // nil: there is no key
	views    *projector.Projector
	snaps    *snapshots.Store
	due      *snapshots.Schedule // of snapshots
	log      serverLog
	disks    *disks

	// follow
	state    *ledger.State       // at the end of the log; nil: a writer has taken it
	rejected *jetstream.Rejected // nil: rejected commands are not kept
	scrubber *check.Scrubber     // nil: there is none
	archives []*archive.Archive
	metrics  metricsDoor
	limits   processes.LimitStatus // of following Keystone's

	supervisor  supervisor
	instruments *instruments // nil: there are no metrics

	peersNC  *nats.Conn                  // to the other replicas
	replica  *cluster.Replica            // nil: this server is the only one
	copies   *copies.Server              // for other replicas; nil: there are none
	commands ledgerDoor                  // where doors submit commands
	ledgerID atomic.Pointer[ledger.UUID] // nil: it is not known yet
	waits    atomic.Pointer[string]      // what a start waits for; nil: nothing that takes long

	// lead
	leader    leader
	term      *cluster.Term // nil: this server does not lead, or is the only one
	noticesNC *nats.Conn    // connection for slow followers, apart from the log's, so that they hold up no commit
	doorNC    *nats.Conn    // connection for floods of requests, apart for the same reason
}

func newServer(config *serveCommand, logger *slog.Logger) *server {
	s := &server{config: config, paces: config.Pace.paces(), logger: logger}
	if config.Metrics != "" {
		s.instruments = newInstruments()
	}
	s.commands = soleWriter{&s.leader}
	s.parts = newPartList(logger, s.list()...)
	return s
}

// start starts all phases. One of several servers leads only when it is elected.
func (s *server) start(ctx context.Context) error {
	if s.shared() {
		return s.parts.start(ctx, open, follow)
	}
	return s.parts.start(ctx, open, follow, lead)
}

// stop ends them all.
func (s *server) stop() error { return s.parts.stop(open, follow, lead) }

// wait returns when the server should stop.
func (s *server) wait(ctx context.Context) error {
	if s.replica != nil {
		return s.leadWhenElected(ctx)
	}
	select {
	case <-ctx.Done():
		s.logger.Info("stopping")
		return nil
	case f := <-s.parts.failed:
		return f.err
	}
}

// list returns all parts of a server in the order in which they start; they stop
// in the reverse order. Comments give the reasons for the order.
func (s *server) list() []part {
	return []part{
		{phase: open, name: "data folder", start: s.openData, stop: s.closeData},
		// Spans are made from the first request to the end of the last one.
		{phase: open, name: "traces", start: s.startTraces, stop: s.stopTraces},
		{phase: open, name: "access", start: s.readAccess},
		// The port is bound before a long replay, so that a taken port is noticed
		// at once, and clients learn from then on that the server is starting.
		// Followers of the log are told first, because they would hold up its
		// end.
		{
			phase:     open,
			name:      "REST port",
			start:     s.bindREST,
			run:       s.serveREST,
			interrupt: s.rest.endFollowers,
			stop:      s.unbindREST,
		},
		// The log's files are judged before anything opens or changes them.
		{phase: open, name: "judgement", start: s.judgeData},
		{phase: open, name: "signed checkpoints", start: s.openCheckpoints},
		// What another replica has sent comes to its place before anything there is opened.
		{phase: open, name: "copy of another replica", start: s.finishCopy},
		// Read models that wait for room on a full disk give up when the server stops: the
		// writer, and with it the doors, would wait for a long time.
		{
			phase: open, name: "read models",
			start: s.openViews, run: s.awaitDamage, interrupt: s.interruptViews, stop: s.closeViews,
		},
		{phase: open, name: "snapshots", start: s.openSnapshots},
		// The high-water mark moves with each folded commit, and is closed after
		// the last one.
		{phase: open, name: "high-water mark", start: s.openHighWater, stop: s.closeHighWater},
		{phase: open, name: "NATS server", start: s.startNATS, run: s.awaitBroken, stop: s.stopNATS},
		{phase: open, name: "log connection", start: s.connectLog, stop: s.closeLog},
		// A server that is told to begin a ledger asks while this one waits for its log.
		{phase: open, name: "what is known of the ledger", start: s.tellKnown, stop: s.stopKnown},
		{phase: open, name: "log", start: s.openLog},
		// The watch of the disks outlives the writer, because it helps a writer
		// that waits for a log on a full disk.
		{phase: open, name: "disk space", start: s.watchDisks, stop: s.stopDisks},

		{phase: follow, name: "State", start: s.follow},
		// Whose the archives are is asked before anything is written.
		{phase: follow, name: "archives", start: s.openArchives},
		{phase: follow, name: "rejected commands", start: s.openRejected},
		{phase: follow, name: "replica", start: s.startReplica, stop: s.stopReplica},
		{phase: follow, name: "copies for other replicas", start: s.startCopies, stop: s.stopCopies},

		// Connections close after the writer, so that clients hear of everything
		// that it still does.
		{phase: lead, name: "notices connection", start: s.connectNotices, stop: s.closeNotices},
		{phase: lead, name: "notices", start: s.startNotices, stop: s.stopNotices},
		{phase: follow, name: "door connection", start: s.connectDoor, stop: s.closeDoor},
		// The keeper of rejections and the publisher of notices take what the
		// writer hands them until it has ended.
		{phase: lead, name: "keeper", start: s.startKeeper, stop: s.stopKeeper},
		{phase: lead, name: "writer", start: s.startWriter, run: s.runWriter, interrupt: s.giveUpClaims, stop: s.stopWriter},
		// The first record of the new term deposes the former leader.
		{phase: lead, name: "term", start: s.beginTerm},
		{phase: lead, name: "standard names", start: s.begin},
		// A replica's doors are open already: what comes before there are standard
		// names would be told that VCPU is unknown.
		{phase: lead, name: "commands of clients", start: s.openTerm, stop: s.closeTerm},
		{phase: lead, name: "node providers", start: s.setNodeProviders},
		{phase: lead, name: "checkpoint of the start", start: s.signStart},
		{phase: lead, name: "archiver", start: s.startArchiver, stop: s.stopArchiver},
		{phase: lead, name: "copies for archives", start: s.startStoring, stop: s.stopStoring},
		// From here on a nearly full disk refuses commands. The commands of the
		// start had to go through before.
		{phase: lead, name: "disk reserve", start: s.armDisks},
		// Parts that submit commands end before the writer does, so that
		// everything that it took is answered.
		{phase: lead, name: "node placer", start: s.startAllocator, stop: s.stopAllocator},
		{phase: lead, name: "expirer", start: s.startExpirer, stop: s.stopExpirer},
		{phase: lead, name: "limit follower", start: s.startLimitFollower, stop: s.stopLimitFollower},
		{phase: follow, name: "NATS door", start: s.startNATSDoor, stop: s.stopNATSDoor},

		{phase: follow, name: "scrubber", start: s.startScrubber, stop: s.stopScrubber},
		{phase: follow, name: "sizes of the stores", start: s.measureStores},
		{phase: follow, name: "metrics", start: s.serveMetrics, stop: s.stopMetrics},
		// REST answers reads, too, and so stays when lead stops. It opens last,
		// because the first request may be a command, and drains first, while the
		// writer can still answer.
		{phase: follow, name: "REST door", start: s.openREST, stop: s.drainREST},
		{phase: follow, name: "supervisor", start: s.tellReady, stop: s.tellStopping},
	}
}
