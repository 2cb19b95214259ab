// Package server is what allot serve runs: parts that start in order, and stop in the reverse order.
package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/system"
)

// spare counts as memory in use, so that a small server collects its garbage less often. Nothing is
// written there, so it takes no memory.
const spare = 32 << 20

// Run serves until the context ends. Whatever was answered is already durable.
func (c *Command) Run(ctx context.Context, common *cli.Common) error {
	c.configFile = common.Config
	if c.Check {
		return c.rehearse(os.Stdout)
	}
	unused := make([]byte, spare)
	defer runtime.KeepAlive(unused)
	return c.serve(ctx)
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

// server is a running server. Its parts embed it: each holds what it makes, from its start to its stop, and
// finds the others there.
type server struct {
	config      *Command
	paces       paces
	logger      *slog.Logger
	clock       *vitals.Clock
	waits       *waiting
	instruments *vitals.Instruments // nil: there are no metrics
	parts       *partList

	data      *folderPart
	notary    *notaryPart
	views     *viewsPart
	snaps     *snapshotsPart
	highWater *highWaterPart
	access    *accessPart
	traces    *tracesPart
	rest      *restPart
	archives  *archivesPart
	verdict   *judgementPart
	joining   *joinPart
	nats      *natsPart
	log       *logPart
	disks     *disksPart
	state     *statePart
	rejected  *rejectedPart
	telling   *connectionPart // tells clients notices
	asking    *connectionPart // is asked by clients
	notices   *noticesPart
	writer    *writerPart
	replica   *replicaPart
	archiver  *archiverPart
	processes *processesPart
	scrubber  *scrubberPart
}

func newServer(config *Command, logger *slog.Logger) *server {
	s := &server{config: config, paces: config.Pace.paces(), logger: logger, waits: &waiting{logger: logger}}
	s.clock = vitals.NewClock(s.paces.clock, system.SinceBoot)
	if config.Metrics != "" {
		s.instruments = vitals.NewInstruments()
	}
	s.data, s.notary, s.views = &folderPart{server: s}, &notaryPart{server: s}, &viewsPart{server: s}
	s.snaps, s.highWater, s.access = &snapshotsPart{server: s}, &highWaterPart{server: s}, &accessPart{server: s}
	s.traces, s.rest, s.archives = &tracesPart{server: s}, &restPart{server: s}, &archivesPart{server: s}
	s.verdict, s.joining, s.nats = &judgementPart{server: s}, &joinPart{server: s}, &natsPart{server: s}
	s.log, s.disks, s.state = &logPart{server: s}, &disksPart{server: s}, &statePart{server: s}
	s.rejected, s.notices, s.writer = &rejectedPart{server: s}, &noticesPart{server: s}, &writerPart{server: s}
	s.replica, s.archiver = &replicaPart{server: s}, &archiverPart{server: s}
	s.processes, s.scrubber = &processesPart{server: s}, &scrubberPart{server: s}
	s.telling = &connectionPart{server: s, as: "notices", inside: (*embedded.Server).ConnectNotices}
	s.asking = &connectionPart{server: s, as: "door", inside: (*embedded.Server).ConnectDoor}
	s.parts = newPartList(logger, s.list()...)
	return s
}

func (s *server) start(ctx context.Context) error {
	if s.config.Cluster.shared() {
		return s.parts.start(ctx, open, follow)
	}
	return s.parts.start(ctx, open, follow, lead)
}

func (s *server) stop() error { return s.parts.stop(open, follow, lead) }

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
	copies, natsDoor, metrics := &copiesPart{server: s}, &natsDoorPart{server: s}, &metricsPart{server: s}
	restDoor, supervisor := restDoorPart{s}, &supervisorPart{server: s}
	return []part{
		{phase: open, name: "data folder", start: s.data.start, stop: func() error { return s.data.Close() }},
		// Spans are made from the first request to the end of the last one.
		{phase: open, name: "traces", start: s.traces.start, stop: s.traces.stop},
		{phase: open, name: "access", start: s.access.start},
		// The port is bound before a long replay, so that a taken port is noticed at once, and clients learn from
		// then on that the server is starting. Followers of the log are told first, because they would hold up its
		// end.
		{
			phase: open, name: "REST port",
			start: s.rest.start, run: s.rest.run,
			interrupt: func() { s.rest.endFollowing() }, stop: func() error { return s.rest.http.Close() },
		},
		// The log's files are judged before anything opens or changes them.
		{phase: open, name: "judgement", start: s.verdict.start},
		{phase: open, name: "signed checkpoints", start: s.notary.start, stop: quietly(s.notary.stop)},
		// What another replica has sent comes to its place before anything there is opened.
		{phase: open, name: "copy of another replica", start: s.joining.start},
		// Read models that are damaged end the server. Those that wait for room on a full disk give up when it
		// stops: the writer, and with it the doors, would wait for a long time.
		{
			phase: open, name: "read models", start: s.views.start, run: func() error { return s.views.Await() },
			interrupt: func() { s.views.Interrupt() }, stop: func() error { return s.views.Close() },
		},
		{phase: open, name: "snapshots", start: s.snaps.start},
		// The high-water mark moves with each folded commit, and is closed after the last one. If it, or the log, could
		// not be synced, the server ends.
		{
			phase: open, name: "high-water mark", start: s.highWater.start,
			run: func() error { return s.highWater.Await() }, stop: func() error { return s.highWater.Close() },
		},
		{phase: open, name: "NATS server", start: s.nats.start, run: s.nats.run, stop: quietly(s.nats.stop)},
		{phase: open, name: "log connection", start: s.log.connect, run: s.log.watch, stop: quietly(s.log.close)},
		// A server that is told to begin a ledger asks while this one waits for its log.
		{phase: open, name: "what is known of the ledger", start: s.nats.tellKnown, stop: quietly(s.nats.stopKnown)},
		{phase: open, name: "log", start: s.log.open},
		// The watch of the disks outlives the writer, because it helps a writer
		// that waits for a log on a full disk.
		{phase: open, name: "disk space", start: s.disks.start, stop: quietly(s.disks.Stop)},

		{phase: follow, name: "State", start: s.state.start},
		// Whose the archives are is asked before anything is written.
		{phase: follow, name: "archives", start: s.archives.start},
		{phase: follow, name: "rejected commands", start: s.rejected.open},
		{phase: follow, name: "replica", start: s.replica.start, stop: s.replica.stop},
		{phase: follow, name: "copies for other replicas", start: copies.start, stop: copies.stop},

		// Connections close after the writer, so that clients hear of everything that it still does.
		{phase: lead, name: "notices connection", start: s.telling.start, stop: quietly(s.telling.stop)},
		{phase: lead, name: "notices", start: s.notices.start, stop: quietly(s.notices.stop)},
		{phase: follow, name: "door connection", start: s.asking.start, stop: quietly(s.asking.stop)},
		// The keeper of rejections and the publisher of notices take what the writer hands them until it has ended.
		{phase: lead, name: "keeper", start: s.rejected.start, stop: quietly(s.rejected.stop)},
		{
			phase: lead, name: "writer",
			start: s.writer.start, run: s.writer.run, interrupt: s.writer.interrupt, stop: s.writer.stop,
		},
		// The first record of the new term deposes the former leader.
		{phase: lead, name: "term", start: s.writer.beginTerm},
		{phase: lead, name: "standard names", start: s.writer.begin},
		// A replica's doors are open already: what comes before there are standard
		// names would be told that VCPU is unknown.
		{phase: lead, name: "commands of clients", start: s.writer.openTerm, stop: quietly(s.writer.closeTerm)},
		{phase: lead, name: "node providers", start: nodeProvidersPart{s}.start},
		{phase: lead, name: "checkpoint of the start", start: s.notary.signStart},
		{phase: lead, name: "archiver", start: s.archiver.start, stop: quietly(s.archiver.stop)},
		{phase: lead, name: "copies for archives", start: s.archiver.startStoring, stop: s.archiver.stopStoring},
		// From here on a nearly full disk refuses commands. The commands of the start had to go through before.
		{phase: lead, name: "disk reserve", start: s.disks.Arm},
		// Parts that submit commands end before the writer does, so that everything that it took is answered.
		{phase: lead, name: "processes", start: s.processes.start, stop: quietly(s.processes.stop)},
		{phase: follow, name: "NATS door", start: natsDoor.start, stop: natsDoor.stop},

		{phase: follow, name: "scrubber", start: s.scrubber.start, stop: quietly(s.scrubber.stop)},
		{phase: follow, name: "sizes of the stores", start: s.disks.MeasureStores},
		{phase: follow, name: "metrics", start: metrics.start, stop: metrics.stop},
		// REST answers reads, too, and so stays when lead stops. It opens last, because the first request may be a
		// command, and drains first, while the writer can still answer.
		{phase: follow, name: "REST door", start: restDoor.start, stop: s.rest.drain},
		{phase: follow, name: "supervisor", start: supervisor.start, stop: quietly(supervisor.stop)},
	}
}
