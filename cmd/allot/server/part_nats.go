package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// natsPart is the NATS server in the process, and what other servers learn over it of what is known here.
type natsPart struct {
	*server

	*embedded.Server                             // nil: an external NATS server
	knownNC          *nats.Conn                  // on which others are told what is known; nil: there are none
	ledger           atomic.Pointer[ledger.UUID] // nil: it is not known yet
	broken           <-chan struct{}             // closed when it could not write; nil: it is not in this process
	leads, whole     func() bool
	stopped          chan struct{} // closed when it is to stop
}

// start starts the NATS server in the process, unless an external one is used.
func (p *natsPart) start(ctx context.Context) (err error) {
	p.stopped = make(chan struct{})
	if p.config.NATSURL != "" {
		return nil
	}
	if p.config.LazySync {
		p.logger.Warn("--lazy-sync: a power cut can lose commands that were answered")
	}
	joined, err := p.config.Cluster.embedded(p.logger)
	if err != nil {
		return err
	}
	if joined != nil && (p.verdict.Report == nil || p.begins()) {
		if err := p.awaitAdmission(ctx, joined); err != nil {
			return err
		}
	}
	var logins []embedded.User
	if p.access.users != nil {
		for _, one := range p.access.users.Logins() {
			logins = append(logins, embedded.User(one))
		}
	}
	p.Server, err = embedded.Start(ctx, embedded.Config{
		StoreDir: p.data.Path(datafolder.Log), Listen: p.config.NATS, Verdict: p.verdict.Verdict,
		LazySync: p.config.LazySync, Logger: p.logger, TLS: p.access.tls,
		Users: logins, Services: wire.Services(), Door: wire.DoorPrefix, Streams: wire.Streams(),
		Cluster: joined,
	})
	if err != nil {
		return err
	}
	p.broken, p.leads, p.whole = p.Broken(), p.Leads, p.Whole
	return nil
}

// awaitAdmission waits, with a NATS server that has no part in the log, until a
// replica that lacks its own part may have a vote: for admission by the one that
// leads, or, if it is to begin a ledger, until no other server knows of one.
func (p *natsPart) awaitAdmission(ctx context.Context, joined *embedded.Cluster) error {
	outside, err := embedded.Start(ctx, embedded.Config{
		StoreDir: p.data.Path(datafolder.Log), Outside: true, Cluster: joined, Logger: p.logger,
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
	stop, err := members.TellKnown(nc, p.known)
	if err != nil {
		return err
	}
	defer stop()
	defer p.waits.Store(nil)
	w := members.Waiting{Check: func() error { return p.explainUnwelcome(outside.JoinRefused()) }}
	if p.verdict.Begin != nil {
		w.Tell = p.waits.tell("the ledger begins when all other servers have said that they know of none")
		begun, err := members.AwaitBeginning(ctx, nc, p.known(), len(p.config.Cluster.Members)-1, w)
		if err != nil || !begun {
			return p.explainBeginning(err)
		}
		if p.verdict.Report != nil {
			return nil
		}
	}
	w.Tell = p.waits.tell("this replica has no log, and waits for admission, so that it votes for nothing that would be lost")
	rejoins, err := p.mayRejoin()
	if err != nil {
		return err
	}
	err = members.AwaitAdmission(ctx, nc, p.config.Cluster.Name, rejoins, w)
	if errors.Is(err, members.ErrLogLost) {
		return fmt.Errorf("%w; nothing was changed: if it is on another disk, or in another folder than %s, name that one; if it is "+
			"lost, let the others fill it again: allot cluster rejoin --data %s", err, p.data.Path(datafolder.Log), p.config.Data)
	}
	return err
}

// mayRejoin reports whether the log of this server is known to be nowhere else: its operator says so, or JetStream
// was here before, on this disk, and the server ended before it had its part.
func (p *natsPart) mayRejoin() (bool, error) {
	said, err := p.data.Has(datafolder.Rejoin)
	if said || err != nil {
		return said, err
	}
	return p.data.Agreed()
}

// begins reports whether a ledger is to begin here, and no commit of it is known. While its streams are empty, they
// have a leader only with the votes of all servers, of which one may have lost its part.
func (p *natsPart) begins() bool {
	empty := p.verdict.Report == nil || p.verdict.Commits == 0 && p.highWater.Head().Sequence == 0
	return p.verdict.Begin != nil && empty
}

// explainBeginning says what to do about a ledger that does not begin.
func (p *natsPart) explainBeginning(err error) error {
	switch {
	case errors.Is(err, members.ErrOtherLedger):
		return fmt.Errorf("%w, and %s was told to begin another one (allot init); nothing was changed: if it is to join them, remove %s, "+
			"and start again with the folder empty", err, p.config.Data, p.data.Path(datafolder.Log))
	case errors.Is(err, members.ErrTwoBegin):
		return fmt.Errorf("%w; nothing was changed: one begins it, so remove %s, here or there", err, p.data.Path(datafolder.Log))
	}
	return err
}

func (p *natsPart) known() members.Known {
	k := members.Known{Name: p.config.Cluster.Name, Part: p.verdict.Report != nil}
	if id := p.ledger.Load(); id != nil {
		k.Ledger = *id
	}
	if begin := p.verdict.Begin; begin != nil && p.ledger.Load() == nil {
		k.Begins = begin.Ledger
		if begin.History != nil {
			k.With = begin.History.Sequence
		}
	}
	k.Sequence = max(p.views.Checkpoint().Sequence, p.highWater.Head().Sequence)
	k.Commits = p.verdict.Report != nil && p.verdict.Commits > 0 || k.Sequence > 0
	if p.verdict.Report == nil && p.verdict.Begin == nil {
		k.Lost, _ = p.data.Has(datafolder.Rejoin) // if that cannot be read, it says less
	}
	return k
}

// tellKnown has the other servers know what this one knows, once it has a part in the log.
func (p *natsPart) tellKnown(context.Context) (err error) {
	if !p.config.Cluster.on() {
		return nil
	}
	if p.knownNC, err = p.ConnectReplica(); err != nil {
		return err
	}
	if _, err = members.TellKnown(p.knownNC, p.known); err != nil {
		p.knownNC.Close()
	}
	return err
}

func (p *natsPart) stopKnown() {
	if p.knownNC != nil {
		p.knownNC.Close()
	}
}

// admitOthers admits the other replicas to a log that is to begin here.
func (p *natsPart) admitOthers() (stop func(), err error) {
	if !p.begins() {
		return func() {}, nil
	}
	nc, err := p.ConnectReplica()
	if err != nil {
		return nil, err
	}
	if err := members.AdmitAll(nc); err != nil {
		nc.Close()
		return nil, err
	}
	return nc.Close, nil
}

// run returns when the NATS server in the process could not write: the server ends then.
func (p *natsPart) run() error {
	select {
	case <-p.broken:
		return fmt.Errorf("%w; the next start goes on with what can be read", p.WhyBroken())
	case <-p.stopped:
		return nil
	}
}

func (p *natsPart) stop() {
	close(p.stopped)
	if p.Server != nil {
		p.Shutdown()
	}
}

// welcome fails if the other servers will never accept this server.
func (p *natsPart) welcome() error {
	return p.explainUnwelcome(p.JoinRefused())
}

func (p *natsPart) explainUnwelcome(err error) error {
	switch {
	case errors.Is(err, embedded.ErrSecret):
		return fmt.Errorf("%w; nothing was changed. Give all servers the same file with --cluster-secret-file", err)
	case errors.Is(err, embedded.ErrSameName):
		return sameName(p.config.Cluster.Name)
	}
	return err
}

func (p *natsPart) connectReplica() (*nats.Conn, error) {
	if p.Server != nil {
		return p.ConnectReplica()
	}
	return p.dial(p.config.NATSURL, p.config.NATSCreds, "replica")
}

// connectionPart is a connection to NATS that serves clients, apart from the log's, so that
// slow followers and floods of requests hold up no commit.
type connectionPart struct {
	*server
	as     string
	inside func(*embedded.Server) (*nats.Conn, error)

	*nats.Conn
}

func (p *connectionPart) start(context.Context) (err error) {
	if p.nats.Server != nil {
		p.Conn, err = p.inside(p.nats.Server)
		return err
	}
	address, creds := p.config.NATSDoorURL, p.config.NATSDoorCreds
	if address == "" {
		address, creds = p.config.NATSURL, cmp.Or(creds, p.config.NATSCreds)
	}
	p.Conn, err = p.dial(address, creds, p.as)
	return err
}

func (p *connectionPart) stop() { p.Close() }

// natsActor is the actor in records of commands over NATS where there are no users.
const natsActor = "nats:client"

type natsDoorPart struct {
	*server

	service *natsapi.Service
}

func (p *natsDoorPart) start(context.Context) (err error) {
	queries := &natsapi.Queries{
		Views: p.views.Projector, Log: p.log.all, Notary: p.notary.Notary, MaxSteps: candidatesBudget, Now: time.Now,
	}
	if p.rejected.stream != nil {
		queries.Rejected = p.rejected.stream
	}
	cfg := natsapi.Config{
		Commands: p.replica.commands(), Fresh: p.replica.freshness(), Queries: queries, Version: cli.Version(),
		Actor: natsActor, Users: p.access.users, Direct: p.nats.Server == nil && p.config.NATSDoorURL == "",
		Fair: p.rest.fair, Logger: p.logger, Observe: p.instruments.Messages(),
	}
	if tracer := p.traces.tracer; tracer != nil {
		cfg.Trace = func(name natsapi.Name, header func(string) string) (*commands.Trace, func(string)) {
			return tracer.Message(name.Kind, name.Name, header)
		}
	}
	p.service, err = natsapi.Start(p.asking.Conn, cfg)
	return err
}

func (p *natsDoorPart) stop() error { return p.service.Stop() }

func (s *server) dial(address, creds, as string) (*nats.Conn, error) {
	options := append(jetstream.LogConnection(), nats.Name("allot "+as), jetstream.LogRefusals(s.logger, as))
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	nc, err := nats.Connect(address, options...)
	if err != nil {
		flag := "--nats-url"
		if address == s.config.NATSDoorURL {
			flag = "--nats-door-url"
		}
		return nil, fmt.Errorf("%s %s: %w", flag, redacted(address), err)
	}
	return nc, nil
}

func redacted(address string) string {
	if parsed, err := url.Parse(address); err == nil {
		return parsed.Redacted()
	}
	return "the NATS server"
}
