package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// ackTimeout is how long an append to another machine may take.
const ackTimeout = 5 * time.Second

// serverLog is the log of a server, with its stores and connections.
type serverLog struct {
	highWater *blocks.HighWater // head of the newest commit, kept beside the log
	values    *jetstream.Values // values that replicas share; nil: a single server
	nats      *embedded.Server  // nil: an external NATS server
	url       string            // connection to NATS
	nc        *nats.Conn
	knownNC   *nats.Conn      // on which others are told what is known; nil: there are none
	stream    *jetstream.Log  // what the log is appended to
	all       ledger.Log      // the log as it is read and written
	broken    <-chan struct{} // closed when nats could not write; nil: it is not in this process
	stopped   chan struct{}   // closed when nats is to stop
}

func (s *server) openHighWater(context.Context) (err error) {
	if err := durable.SyncFolder(s.data.Dir); err != nil { // the names of what the parts before have made
		return err
	}
	s.log.highWater, err = s.data.Files().OpenHighWater(s.config.Cluster.on(), s.unsynced)
	return err
}

func (s *server) closeHighWater() error { return s.log.highWater.Close() }

func (s *server) unsynced(err error) {
	s.logger.Error("the high-water mark of the log could not be synced", "error", err)
}

// startNATS starts the NATS server in the process, unless an external one is
// used.
func (s *server) startNATS(ctx context.Context) (err error) {
	s.log.stopped = make(chan struct{})
	if s.config.NATSURL != "" {
		return nil
	}
	if s.config.LazySync {
		s.logger.Warn("--lazy-sync: a power cut can lose commands that were answered")
	}
	joined, err := s.config.Cluster.embedded(s.logger)
	if err != nil {
		return err
	}
	if joined != nil && s.verdict.Report == nil {
		if err := s.awaitAdmission(ctx, joined); err != nil {
			return err
		}
	}
	s.log.nats, err = embedded.Start(ctx, embedded.Config{
		StoreDir: s.data.Path(datafolder.Log), Listen: s.config.NATS, Verdict: s.verdict,
		LazySync: s.config.LazySync, Logger: s.logger, TLS: s.rest.tls,
		Users: logins(s.users), Services: wire.Services(), Renamed: wire.Renamed(), Streams: wire.Streams(),
		Cluster: joined,
	})
	if err != nil {
		return err
	}
	s.log.broken = s.log.nats.Broken()
	return nil
}

// awaitAdmission waits, with a NATS server that has no part in the log, until a
// replica that lacks its own part may have a vote: for admission by the one that
// leads, or, if it is to begin a ledger, until no other server knows of one.
func (s *server) awaitAdmission(ctx context.Context, joined *embedded.Cluster) error {
	outside, err := embedded.Start(ctx, embedded.Config{
		StoreDir: s.data.Path(datafolder.Log), Outside: true, Cluster: joined, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	defer outside.Shutdown()
	nc, err := outside.ConnectReplica()
	if err != nil {
		return err
	}
	defer nc.Close()
	stop, err := cluster.TellKnown(nc, s.known)
	if err != nil {
		return err
	}
	defer stop()
	defer s.waits.Store(nil)
	w := cluster.Waiting{Check: func() error { return s.explainUnwelcome(outside.JoinRefused()) }}
	if s.verdict.Begin != nil {
		w.Tell = s.waiter("the ledger begins when all other servers have said that they know of none")
		begun, err := cluster.AwaitBeginning(ctx, nc, s.known(), len(s.config.Cluster.Members)-1, w)
		if err != nil || !begun {
			return s.explainBeginning(err)
		}
	}
	w.Tell = s.waiter("this replica has no log, and waits for admission, so that it votes for nothing that would be lost")
	rejoins, err := s.data.Has(datafolder.Rejoin)
	if err != nil {
		return err
	}
	err = cluster.AwaitAdmission(ctx, nc, s.config.Cluster.Name, rejoins, w)
	if errors.Is(err, cluster.ErrLogLost) {
		return fmt.Errorf("%w; nothing was changed: if it is on another disk, or in another folder than %s, name that one; if it is "+
			"lost, let the others fill it again: allot cluster rejoin --data %s", err, s.data.Path(datafolder.Log), s.config.Data)
	}
	return err
}

// waiter tells what a start waits for, and why: at /readyz each time, and in the
// log now and then.
func (s *server) waiter(what string) func(why string) {
	var told time.Time
	return func(why string) {
		text := what + ": " + why
		s.waits.Store(&text)
		if time.Since(told) >= tellAgain {
			told = time.Now()
			s.logger.Info(what, "because", why)
		}
	}
}

// explainBeginning says what to do about a ledger that does not begin.
func (s *server) explainBeginning(err error) error {
	switch {
	case errors.Is(err, cluster.ErrOtherLedger):
		return fmt.Errorf("%w, and %s was told to begin another one (allot init); nothing was changed: if it is to join them, remove %s, "+
			"and start again with the folder empty", err, s.config.Data, s.data.Path(datafolder.Log))
	case errors.Is(err, cluster.ErrTwoBegin):
		return fmt.Errorf("%w; nothing was changed: one begins it, so remove %s, here or there", err, s.data.Path(datafolder.Log))
	}
	return err
}

// known is what this server knows of the ledger.
func (s *server) known() cluster.Known {
	k := cluster.Known{Name: s.config.Cluster.Name}
	if id := s.ledgerID.Load(); id != nil {
		k.Ledger = *id
	}
	if s.verdict.Begin != nil && s.ledgerID.Load() == nil {
		k.Begins = s.verdict.Begin.Ledger
	}
	k.Commits = s.verdict.Report != nil && s.verdict.Commits > 0 || s.views.HighWater().Sequence > 0 ||
		s.log.highWater.Head().Sequence > 0
	return k
}

// tellKnown has the other servers know what this one knows, once it has a part
// in the log.
func (s *server) tellKnown(context.Context) (err error) {
	if !s.config.Cluster.on() {
		return nil
	}
	if s.log.knownNC, err = s.log.nats.ConnectReplica(); err != nil {
		return err
	}
	if _, err = cluster.TellKnown(s.log.knownNC, s.known); err != nil {
		s.log.knownNC.Close()
	}
	return err
}

func (s *server) stopKnown() error {
	if s.log.knownNC != nil {
		s.log.knownNC.Close()
	}
	return nil
}

// admitOthers admits the other replicas to a log that is to begin
// here.
func (s *server) admitOthers() (stop func(), err error) {
	if s.verdict.Begin == nil || s.verdict.Report != nil {
		return func() {}, nil
	}
	nc, err := s.log.nats.ConnectReplica()
	if err != nil {
		return nil, err
	}
	if err := cluster.AdmitAll(nc); err != nil {
		nc.Close()
		return nil, err
	}
	return nc.Close, nil
}

// awaitBroken returns when the NATS server in the process could not write: the server ends then.
func (s *server) awaitBroken() error {
	select {
	case <-s.log.broken:
		return fmt.Errorf("%w; the next start reads what the disk holds", s.log.nats.WhyBroken())
	case <-s.log.stopped:
		return nil
	}
}

func (s *server) stopNATS() error {
	close(s.log.stopped)
	if s.log.nats != nil {
		s.log.nats.Shutdown()
	}
	return nil
}

// logins returns the users of the embedded server.
func logins(users *natsapi.Users) []embedded.User {
	if users == nil {
		return nil
	}
	var list []embedded.User
	for _, l := range users.Logins() {
		list = append(list, embedded.User(l))
	}
	return list
}

// connectLog opens the connection that appends to the log.
func (s *server) connectLog(context.Context) (err error) {
	if s.log.nats == nil {
		return s.connectOutside()
	}
	s.log.url = s.log.nats.ClientURL()
	s.log.nc, err = s.log.nats.Connect()
	return err
}

func (s *server) connectOutside() (err error) {
	s.logger.Info("the NATS servers are to sync every write (jetstream { sync_interval: always }): that cannot be seen from here")
	if s.log.nc, err = s.config.dial(s.config.NATSURL, s.config.NATSCreds, "log"); err != nil {
		return err
	}
	s.log.url = s.log.nc.ConnectedUrlRedacted()
	if err = jetstream.CheckServer(s.log.nc); err != nil {
		s.log.nc.Close()
	}
	return err
}

func (s *server) closeLog() error {
	s.log.nc.Close()
	return nil
}

// openLog opens the log, or makes one if a ledger may begin here.
func (s *server) openLog(ctx context.Context) (err error) {
	if s.archives, err = s.config.Archive.open(); err != nil {
		return err
	}
	cfg := jetstream.Config{Replicas: s.replicas(), MayCreate: s.verdict.Begin != nil}
	if s.log.nats == nil {
		cfg.AckTimeout = ackTimeout
	}
	if s.config.Cluster.on() {
		return s.openSharedLog(ctx, cfg)
	}
	if s.log.stream, err = jetstream.Open(ctx, s.log.nc, cfg); err == nil {
		s.log.all = s.log.stream
	}
	if err == nil && s.shared() {
		s.log.values, err = jetstream.OpenValues(ctx, s.log.nc, s.valuesConfig())
	}
	if err == nil && s.log.nats != nil {
		s.log.all, err = s.log.nats.ReadFiles(s.log.stream)
	}
	if errors.Is(err, jetstream.ErrNoStream) {
		return fmt.Errorf("%w: %w", err, s.data.Missing())
	}
	if err != nil {
		return unreached(err)
	}
	return nil
}

// shared reports whether other servers may serve the same ledger.
func (s *server) shared() bool { return s.config.Cluster.on() || s.config.Cluster.Name != "" }

// replicas returns how many replicas a new stream gets.
func (s *server) replicas() int {
	switch {
	case s.config.Cluster.on():
		return s.config.Cluster.replicas()
	case s.config.NATSReplicas > 0:
		return s.config.NATSReplicas
	case s.log.nc.ConnectedClusterName() != "":
		return clusterReplicas
	}
	return 1
}

// clusterReplicas is the default number of replicas in a cluster. One of three
// may be lost.
const clusterReplicas = 3

func (s *server) valuesConfig() jetstream.ValuesConfig {
	return jetstream.ValuesConfig{Replicas: s.replicas(), Timeout: s.config.Cluster.Lease / 6}
}

// sharedAckTimeout and sharedPatience are how long an append to a replicated log,
// and a read of it, may take before they are tried again, because another server
// may lead the stream by then.
const (
	sharedAckTimeout = 2 * time.Second
	sharedPatience   = time.Second
	// openAgain is the pause between two tries to find the log.
	openAgain = 100 * time.Millisecond
	// openLatest is that after many tries.
	openLatest = 2 * time.Second
	// tellAgain is how often it is told what is waited for.
	tellAgain = 5 * time.Second
)

// openSharedLog opens the log of a cluster, once enough of its servers are there.
// Only the server that was told to begin a ledger makes a log.
func (s *server) openSharedLog(ctx context.Context, cfg jetstream.Config) (err error) {
	cfg.AckTimeout, cfg.Patience = sharedAckTimeout, sharedPatience
	stop, err := s.admitOthers()
	if err != nil {
		return err
	}
	defer stop()
	if begin := s.verdict.Begin; begin != nil && begin.History != nil {
		cfg.History = *begin.History
	}
	waits := s.waiter("waiting for the cluster's log")
	for {
		if s.log.stream, err = jetstream.Open(ctx, s.log.nc, cfg); err == nil {
			if err := s.enoughReplicas(); err != nil {
				return err
			}
			s.log.values, err = jetstream.OpenValues(ctx, s.log.nc, s.valuesConfig())
		}
		if err == nil {
			err = s.log.stream.HearMoves()
		}
		if err == nil {
			s.log.all = s.log.stream
			if err := s.welcome(); err != nil {
				return err
			}
			return s.fillHistory(ctx)
		}
		if errors.Is(err, ledger.ErrLogUnsafe) {
			return fmt.Errorf("%w; nothing was changed. The stream of that name is not Allot's: remove it, or make a new cluster", err)
		}
		if err := s.welcome(); err != nil {
			return err
		}
		waits(fmt.Sprintf("%d servers are there: %v", s.log.nats.Peers()+1, err))
		select {
		case <-time.After(openAgain):
		case <-ctx.Done():
			return fmt.Errorf("stopped while waiting for the cluster's log: %w", err)
		}
	}
}

// welcome fails if the other servers will never accept this server.
func (s *server) welcome() error {
	return s.explainUnwelcome(s.log.nats.JoinRefused())
}

func (s *server) explainUnwelcome(err error) error {
	switch {
	case errors.Is(err, embedded.ErrSecret):
		return fmt.Errorf("%w; nothing was changed. Give all servers the same file with --cluster-secret-file", err)
	case errors.Is(err, embedded.ErrSameName):
		return sameName(s.config.Cluster.Name)
	}
	return err
}

func sameName(name string) error {
	return fmt.Errorf("another running server of the cluster is called %q, too: give each its own --cluster-name, and start "+
		"a server that was in the cluster before with the name that it had", name)
}

// enoughReplicas refuses a log with fewer replicas than the cluster needs to
// outlive a server.
func (s *server) enoughReplicas() error {
	if have := s.log.stream.Replicas(); have < s.replicas() {
		return fmt.Errorf("the log has %d replicas, but with %d servers it needs %d to outlive a server; nothing was changed. "+
			"Move the ledger to a cluster that begins with all its servers", have, len(s.config.Cluster.Members), s.replicas())
	}
	return nil
}

// unreached adds what to do if the log is out of reach at the start.
func unreached(err error) error {
	if errors.Is(err, ledger.ErrUnavailable) {
		return fmt.Errorf("%w; nothing was changed. Start again when the NATS server can be reached", err)
	}
	return err
}
