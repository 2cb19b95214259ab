package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/allot/operate"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// ackTimeout is how long an append to another machine may take.
const ackTimeout = 5 * time.Second

type logPart struct {
	*server

	nc     *nats.Conn
	url    string            // of NATS
	stream *jetstream.Log    // what the log is appended to
	values *jetstream.Values // that replicas share; nil: a single server
	all    ledger.Log        // the log as it is read and written
}

func (p *logPart) connect(context.Context) (err error) {
	if p.nats.Server != nil {
		p.url = p.nats.ClientURL()
		p.nc, err = p.nats.Connect()
		return err
	}
	p.logger.Info("the NATS servers are to sync every write (jetstream { sync_interval: always }): that cannot be seen from here")
	if p.nc, err = p.dial(p.config.NATSURL, p.config.NATSCreds, "log"); err != nil {
		return err
	}
	p.url = p.nc.ConnectedUrlRedacted()
	if err = jetstream.CheckServer(p.nc); err != nil {
		p.nc.Close()
	}
	return err
}

// watch ends the server once its connection has moved to a NATS server that is too old.
func (p *logPart) watch() error {
	changes := p.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	for !p.nc.IsClosed() {
		if err := jetstream.CheckServer(p.nc); err != nil && p.nc.ConnectedServerVersion() != "" {
			return err
		}
		<-changes
	}
	return nil
}

func (p *logPart) close() { p.nc.Close() }

// open opens the log, or makes one if a ledger may begin here.
func (p *logPart) open(ctx context.Context) (err error) {
	cfg := jetstream.Config{Replicas: p.replicas(), MayCreate: p.verdict.Begin != nil}
	if p.nats.Server == nil {
		cfg.AckTimeout = ackTimeout
	}
	if p.config.Cluster.on() {
		return p.openShared(ctx, cfg)
	}
	if p.stream, err = jetstream.Open(ctx, p.nc, cfg); err == nil {
		p.all = p.stream
	}
	if err == nil && p.config.Cluster.shared() {
		p.values, err = jetstream.OpenValues(ctx, p.nc, p.valuesConfig())
	}
	if err == nil && p.nats.Server != nil {
		p.all, err = p.nats.ReadFiles(p.stream)
	}
	if errors.Is(err, jetstream.ErrNoStream) {
		return fmt.Errorf("%w: %w", err, p.data.Missing())
	}
	if err != nil {
		return unreached(err)
	}
	return nil
}

func (p *logPart) replicas() int {
	switch {
	case p.config.Cluster.on():
		return min(len(p.config.Cluster.Members), clusterReplicas)
	case p.config.NATSReplicas > 0:
		return p.config.NATSReplicas
	case p.nc.ConnectedClusterName() != "":
		return clusterReplicas
	}
	return 1
}

// clusterReplicas is the default number of replicas in a cluster. One of three may be lost.
const clusterReplicas = 3

func (p *logPart) valuesConfig() jetstream.ValuesConfig {
	return jetstream.ValuesConfig{Replicas: p.replicas(), Timeout: p.config.Cluster.Lease / 6}
}

// sharedAckTimeout and sharedPatience are how long an append to a replicated log, and a read of it, may take
// before they are tried again, because another server may lead the stream by then.
const (
	sharedAckTimeout = 2 * time.Second
	sharedPatience   = time.Second
	// openAgain is the pause between two tries to find the log.
	openAgain = 100 * time.Millisecond
	// openLatest is that after many tries.
	openLatest = 2 * time.Second
)

// openShared opens the log of a cluster, once enough of its servers are there.
// Only the server that was told to begin a ledger makes a log.
func (p *logPart) openShared(ctx context.Context, cfg jetstream.Config) (err error) {
	cfg.AckTimeout, cfg.Patience = sharedAckTimeout, sharedPatience
	stop, err := p.nats.admitOthers()
	if err != nil {
		return err
	}
	defer stop()
	if begin := p.verdict.Begin; begin != nil && begin.History != nil {
		cfg.History = *begin.History
	}
	waits := p.waits.tell("waiting for the cluster's log")
	for {
		if p.stream, err = jetstream.Open(ctx, p.nc, cfg); err == nil {
			if have := p.stream.Replicas(); have < p.replicas() { // it would not outlive a server
				return fmt.Errorf("the log has %d replicas, but with %d servers it needs %d to outlive a server; nothing was "+
					"changed. Move the ledger to a cluster that begins with all its servers",
					have, len(p.config.Cluster.Members), p.replicas())
			}
			p.values, err = jetstream.OpenValues(ctx, p.nc, p.valuesConfig())
		}
		if err == nil {
			err = p.stream.HearMoves()
		}
		if err == nil {
			p.all = p.stream
			if err := p.nats.welcome(); err != nil {
				return err
			}
			return p.fillHistory(ctx)
		}
		if errors.Is(err, ledger.ErrLogUnsafe) {
			return fmt.Errorf("%w; nothing was changed. The stream of that name is not Allot's: remove it, or make a new cluster", err)
		}
		if err := p.nats.welcome(); err != nil {
			return err
		}
		waits(fmt.Sprintf("%d servers are there: %v", p.nats.Peers()+1, err))
		select {
		case <-time.After(openAgain):
		case <-ctx.Done():
			return fmt.Errorf("stopped while waiting for the cluster's log: %w", err)
		}
	}
}

// fillHistory appends the commits of the archive that the ledger begins with; after a
// kill, those that are missing. Every append names the sequence that the commit had in
// the archive. No server leads before all commits are there: from its creation on the
// stream records up to where it is to be filled, and the other servers wait for that.
func (p *logPart) fillHistory(ctx context.Context) error {
	begin := p.verdict.Begin
	if begin == nil || begin.History == nil {
		return nil
	}
	if p.stream.History() != begin.History.Sequence {
		return fmt.Errorf("%s is to begin a cluster with the %d commits of an archive (allot init --from), but the cluster has a log "+
			"already; nothing was changed. To join that cluster, start this server with an empty folder",
			p.config.Data, begin.History.Sequence)
	}
	source, err := operate.OpenLogFile(p.data.Files().HistoryPath())
	if err != nil {
		return err
	}
	if source.Trailer.Head != *begin.History {
		return fmt.Errorf("%s is not the archive that allot init took: run allot init again in an empty folder", p.data.Files().HistoryPath())
	}
	waits, pause := p.waits.tell("the log is not filled from the archive yet"), openAgain
	for {
		err := p.fillMissing(ctx, source)
		passes := errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrUnknownFate) ||
			errors.Is(err, ledger.ErrConflict)
		if !passes {
			return err
		}
		waits(err.Error())
		pause = min(2*pause, openLatest)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("stopped while filling the log from the archive; the next start goes on: %w", err)
		}
	}
}

func (p *logPart) fillMissing(ctx context.Context, source *operate.LogFile) error {
	last, err := p.all.Last(ctx)
	if err != nil || last >= source.Trailer.Sequence {
		return err
	}
	if err := datafolder.SameCommit(ctx, p.all, source.Read, last); err != nil {
		return err
	}
	p.logger.Info("filling the log from the archive", "from", last+1, "to", source.Trailer.Sequence)
	if err := datafolder.Copy(ctx, source.Read, last+1, source.Trailer.Sequence, p.all, "filling"); err != nil {
		return err
	}
	p.logger.Info("the log is filled", "sequence", source.Trailer.Sequence, "digest", source.Trailer.Digest)
	return nil
}

// unreached adds what to do if the log is out of reach at the start.
func unreached(err error) error {
	if errors.Is(err, ledger.ErrUnavailable) {
		return fmt.Errorf("%w; nothing was changed. Start again when the NATS server can be reached", err)
	}
	return err
}
