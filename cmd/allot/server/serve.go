// Package server is what allot serve runs: parts that start in order, and stop in the reverse order.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/system"
)

// garbage is how much there may be, in percent of the memory in use, before it is
// collected. Requests over NATS are a tenth faster so than with Go's 100.
const garbage = 200

// stopTimeout is how long a server takes to end after SIGTERM, even if something has not
// stopped by then. systemd's unit waits twice as long.
const stopTimeout = 15 * time.Second

// Run serves until the context ends. Then it returns within stopTimeout, or when
// another signal comes. Whatever was answered is already durable.
func (c *Command) Run(ctx context.Context, common *cli.Common) error {
	c.configFile = common.Config
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

func (c *Command) serve(ctx context.Context) error {
	logger := c.Log.Logger(os.Stderr)
	if err := c.check(); err != nil {
		return err
	}
	if err := errors.Join(c.checkAddresses()...); err != nil {
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
	address, token := s.rest.port.Addr().String(), "admin"
	if s.access.reachable != nil {
		token = "of Keystone: openstack token issue"
		if err := s.access.reachable(); err != nil {
			logger.Warn("Keystone does not answer: until it does, tokens that are not known cannot be checked",
				"keystone-url", c.Keystone.URL, "error", cli.Words(err))
		}
	}
	scheme, _, _ := strings.Cut(c.Cluster.REST, ":")
	logger.Info("serving", "http", address, "nats", s.log.url, "sequence", s.views.Checkpoint().Sequence,
		"console", scheme+"://"+c.Cluster.reached(address)+console.Prefix, "token", token)
	return errors.Join(s.wait(ctx), s.stop())
}

// settings are what every part is given.
type settings struct {
	config *Command
	paces  paces
	logger *slog.Logger
	clock  *vitals.Clock
}

// server is a running server. Each part holds what it makes, from its start to its stop, and
// points to the parts that it needs.
type server struct {
	settings
	parts *partList
	waits *waiting
	stores
	clients

	archives  *archivesPart
	verdict   *judgementPart
	joining   *joinPart
	nats      *natsPart
	log       *logPart
	disks     *disksPart
	state     *statePart
	rejected  *rejectedPart
	telling   *connectionPart
	notices   *noticesPart
	writer    *writerPart
	replica   *replicaPart
	archiver  *archiverPart
	processes *processesPart
	scrubber  *scrubberPart
}

func newServer(config *Command, logger *slog.Logger) *server {
	paces := config.Pace.paces()
	given := settings{config, paces, logger, vitals.NewClock(paces.clock, system.SinceBoot)}
	s := &server{settings: given, waits: &waiting{logger: logger}}
	s.data = &folderPart{settings: given}
	s.views = &viewsPart{settings: given, data: s.data}
	s.notary = &notaryPart{settings: given, data: s.data, views: s.views}
	s.snaps = &snapshotsPart{settings: given, data: s.data, views: s.views, notary: s.notary}
	s.highWater = &highWaterPart{settings: given, data: s.data}
	s.access, s.traces = &accessPart{settings: given}, &tracesPart{settings: given}
	s.rest = &restPart{settings: given, waits: s.waits, access: s.access}
	if config.Metrics != "" {
		s.instruments = vitals.NewInstruments()
	}
	s.archives = &archivesPart{settings: given, data: s.data, notary: s.notary}
	s.verdict = &judgementPart{settings: given, data: s.data, archives: s.archives}
	s.nats = &natsPart{settings: given, stores: s.stores, waits: s.waits, access: s.access, verdict: s.verdict}
	s.log = &logPart{settings: given, waits: s.waits, data: s.data, verdict: s.verdict, nats: s.nats}
	s.disks = &disksPart{settings: given, data: s.data, archives: s.archives, views: s.views, nats: s.nats}
	s.joining = &joinPart{
		settings: given, stores: s.stores, waits: s.waits, archives: s.archives, nats: s.nats, log: s.log, disks: s.disks,
	}
	s.state = &statePart{
		settings: given, stores: s.stores, waits: s.waits, verdict: s.verdict, nats: s.nats, log: s.log, joining: s.joining,
	}
	s.rejected = &rejectedPart{settings: given, log: s.log, disks: s.disks}
	s.telling = &connectionPart{settings: given, nats: s.nats, as: "notices", inside: (*embedded.Server).ConnectNotices}
	s.notices = &noticesPart{settings: given, notary: s.notary, views: s.views, connection: s.telling}
	s.writer = &writerPart{
		settings: given, stores: s.stores, clients: s.clients, log: s.log, disks: s.disks, state: s.state,
		rejected: s.rejected, notices: s.notices,
	}
	s.replica = &replicaPart{
		settings: given, stores: s.stores, traces: s.traces, nats: s.nats, log: s.log, disks: s.disks, state: s.state,
		writer: s.writer,
	}
	s.archiver = &archiverPart{settings: given, stores: s.stores, archives: s.archives, log: s.log, disks: s.disks}
	s.processes = &processesPart{settings: given, access: s.access, notary: s.notary, views: s.views, writer: s.writer}
	s.scrubber = &scrubberPart{settings: given, data: s.data, views: s.views, nats: s.nats}
	s.parts = newPartList(logger, s.list()...)
	s.disks.fail, s.replica.parts = s.parts.fail, s.parts
	return s
}

// start starts all phases. One of several servers leads only when it is elected.
func (s *server) start(ctx context.Context) error {
	if s.config.Cluster.shared() {
		return s.parts.start(ctx, open, follow)
	}
	return s.parts.start(ctx, open, follow, lead)
}

// stop ends them all.
func (s *server) stop() error { return s.parts.stop(open, follow, lead) }

// wait returns when the server should stop.
func (s *server) wait(ctx context.Context) error {
	if s.replica.replica != nil {
		return s.replica.lead(ctx)
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
	copies := &copiesPart{settings: s.settings, snaps: s.snaps, disks: s.disks, replica: s.replica}
	nodeProviders := &nodeProvidersPart{settings: s.settings, views: s.views, writer: s.writer}
	asking := &connectionPart{settings: s.settings, nats: s.nats, as: "door", inside: (*embedded.Server).ConnectDoor}
	natsDoor := &natsDoorPart{
		settings: s.settings, stores: s.stores, clients: s.clients, nats: s.nats, log: s.log, rejected: s.rejected,
		replica: s.replica, connection: asking,
	}
	metrics := &metricsPart{
		settings: s.settings, clients: s.clients, disks: s.disks, rejected: s.rejected, notices: s.notices, writer: s.writer,
		replica: s.replica, archiver: s.archiver, processes: s.processes, scrubber: s.scrubber,
	}
	restDoor := &restDoorPart{
		settings: s.settings, stores: s.stores, clients: s.clients, log: s.log, disks: s.disks, rejected: s.rejected,
		writer: s.writer, replica: s.replica, scrubber: s.scrubber,
	}
	supervisor := &supervisorPart{settings: s.settings}
	return []part{
		{phase: open, name: "data folder", start: s.data.start, stop: s.data.stop},
		// Spans are made from the first request to the end of the last one.
		{phase: open, name: "traces", start: s.traces.start, stop: s.traces.stop},
		{phase: open, name: "access", start: s.access.start},
		// The port is bound before a long replay, so that a taken port is noticed at once, and clients learn from
		// then on that the server is starting. Followers of the log are told first, because they would hold up its
		// end.
		{
			phase: open, name: "REST port",
			start: s.rest.start, run: s.rest.run, interrupt: s.rest.interrupt, stop: s.rest.stop,
		},
		// The log's files are judged before anything opens or changes them.
		{phase: open, name: "judgement", start: s.verdict.start},
		{phase: open, name: "signed checkpoints", start: s.notary.start, stop: s.notary.stop},
		// What another replica has sent comes to its place before anything there is opened.
		{phase: open, name: "copy of another replica", start: s.joining.start},
		// Read models that wait for room on a full disk give up when the server stops: the
		// writer, and with it the doors, would wait for a long time.
		{
			phase: open, name: "read models",
			start: s.views.start, run: s.views.run, interrupt: s.views.interrupt, stop: s.views.stop,
		},
		{phase: open, name: "snapshots", start: s.snaps.start},
		// The high-water mark moves with each folded commit, and is closed after the last one.
		{phase: open, name: "high-water mark", start: s.highWater.start, run: s.highWater.run, stop: s.highWater.stop},
		{phase: open, name: "NATS server", start: s.nats.start, run: s.nats.run, stop: s.nats.stop},
		{phase: open, name: "log connection", start: s.log.connect, run: s.log.watch, stop: s.log.close},
		// A server that is told to begin a ledger asks while this one waits for its log.
		{phase: open, name: "what is known of the ledger", start: s.nats.tellKnown, stop: s.nats.stopKnown},
		{phase: open, name: "log", start: s.log.open},
		// The watch of the disks outlives the writer, because it helps a writer
		// that waits for a log on a full disk.
		{phase: open, name: "disk space", start: s.disks.start, stop: s.disks.Stop},

		{phase: follow, name: "State", start: s.state.start},
		// Whose the archives are is asked before anything is written.
		{phase: follow, name: "archives", start: s.archives.start},
		{phase: follow, name: "rejected commands", start: s.rejected.open},
		{phase: follow, name: "replica", start: s.replica.start, stop: s.replica.stop},
		{phase: follow, name: "copies for other replicas", start: copies.start, stop: copies.stop},

		// Connections close after the writer, so that clients hear of everything that it still does.
		{phase: lead, name: "notices connection", start: s.telling.start, stop: s.telling.stop},
		{phase: lead, name: "notices", start: s.notices.start, stop: s.notices.stop},
		{phase: follow, name: "door connection", start: asking.start, stop: asking.stop},
		// The keeper of rejections and the publisher of notices take what the writer hands them until it has ended.
		{phase: lead, name: "keeper", start: s.rejected.start, stop: s.rejected.stop},
		{
			phase: lead, name: "writer",
			start: s.writer.start, run: s.writer.run, interrupt: s.writer.interrupt, stop: s.writer.stop,
		},
		// The first record of the new term deposes the former leader.
		{phase: lead, name: "term", start: s.writer.beginTerm},
		{phase: lead, name: "standard names", start: s.writer.begin},
		// A replica's doors are open already: what comes before there are standard
		// names would be told that VCPU is unknown.
		{phase: lead, name: "commands of clients", start: s.writer.openTerm, stop: s.writer.closeTerm},
		{phase: lead, name: "node providers", start: nodeProviders.start},
		{phase: lead, name: "checkpoint of the start", start: s.notary.signStart},
		{phase: lead, name: "archiver", start: s.archiver.start, stop: s.archiver.stop},
		{phase: lead, name: "copies for archives", start: s.archiver.startStoring, stop: s.archiver.stopStoring},
		// From here on a nearly full disk refuses commands. The commands of the start had to go through before.
		{phase: lead, name: "disk reserve", start: s.disks.Arm},
		// Parts that submit commands end before the writer does, so that everything that it took is answered.
		{phase: lead, name: "processes", start: s.processes.start, stop: s.processes.stop},
		{phase: follow, name: "NATS door", start: natsDoor.start, stop: natsDoor.stop},

		{phase: follow, name: "scrubber", start: s.scrubber.start, stop: s.scrubber.stop},
		{phase: follow, name: "sizes of the stores", start: s.disks.MeasureStores},
		{phase: follow, name: "metrics", start: metrics.start, stop: metrics.stop},
		// REST answers reads, too, and so stays when lead stops. It opens last, because the first request may be a
		// command, and drains first, while the writer can still answer.
		{phase: follow, name: "REST door", start: restDoor.start, stop: s.rest.drain},
		{phase: follow, name: "supervisor", start: supervisor.start, stop: supervisor.stop},
	}
}
