// Package natsapi takes commands and queries over NATS: a micro service with
// an endpoint per command, on the subject allot.command.NAME, and per query, on
// allot.query.NAME. It can be discovered with $SRV.INFO.
//
// A request's body is the command or query as JSON or msgpack, told by the header
// Content-Type (application/json, which is the default, or
// application/msgpack). The header Allot-Command-Id, a uuid, is required with
// commands: it makes a retry safe. With the header Allot-Dry-Run: true it is
// not, and the command is decided, but nothing is recorded. The reply has the encoding of the request.
package natsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
)

// Names and limits of the service.
const (
	ServiceName = "allot"

	// smallBytes is the size, in bytes, of the largest command that is read where
	// it arrives. A larger one would hold up the requests behind it.
	smallBytes = 4 << 10
	// never is fewer bytes than any request has.
	never = -1
	// pendingMessages and pendingBytes are what NATS may hold back, of one kind
	// of request, until it is looked at here, which takes microseconds each. Beyond
	// it requests are dropped, without an answer: their clients send them again.
	pendingMessages = 16 << 10
	pendingBytes    = 16 << 20
	submitTimeout   = 30 * time.Second
	// headerRoom is the size, in bytes, of the largest headers of a reply.
	headerRoom = 8 << 10
	// maxQueryBytes is the size of the largest query: as large as a URL.
	maxQueryBytes = 64 << 10
)

// Service is the running micro service.
type Service struct {
	cfg     Config
	nc      *nats.Conn
	micro   micro.Service
	waits   *fair.Pool // counts queries that wait for a commit or another server
	desk    *desk
	replies *outbox
	headers newestHeaders
	idle    sync.WaitGroup // queries that wait for a commit or another server
	// stopping ends when the service stops.
	stopping  context.Context
	stop      context.CancelFunc
	inboxes   []string // prefix of reply subjects
	discovery *nats.Subscription
	bodies    map[string]bodies      // of endpoints, by name
	info      func() ([]byte, error) // the answer to INFO
	identity  micro.ServiceIdentity  // Info copies all descriptions
}

// Config configures the service.
type Config struct {
	Commands commands.Starter
	// Fresh tells when the queries' views hold everything that other servers have
	// answered; nil: a single server.
	Fresh   commands.Freshness
	Queries *Queries
	Version string
	// Users are the users that may connect; nil: every client may, and is an operator.
	Users *Users
	// Actor is the actor in records, if there are no users.
	Actor string
	// Direct means that clients are in the account of the service's own connection: the
	// reply subject is the one that they name, and they are one client. Otherwise each
	// has an account of its own, and its requests come below wire.DoorPrefix.
	Direct bool
	// Fair shares out memory and places among clients; nil: the service has its own.
	Fair *fair.Pool
	// Trace, if set, is asked for each request whether it is recorded in a trace.
	// It returns the request's place there, and what is called with its outcome;
	// or nil and nil. See Observe for outcomes.
	Trace func(name Name, header func(string) string) (trace *commands.Trace, ended func(outcome string))
	// Observe, if set, is called for each answered request, with the time since
	// it came. The outcome is one of this package's, or a code of wire.Error. It must
	// neither block nor take long.
	Observe func(name Name, outcome string, took time.Duration)
	// Now is the clock for deadlines; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Start adds the service to a connection.
func Start(nc *nats.Conn, cfg Config) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: ServiceName, Version: cfg.Version,
		Description: "Allot: an event-sourced allocation ledger",
		Metadata:    map[string]string{"content-types": encoding.TypeJSON + ", " + encoding.TypeMsgpack},
	})
	if err != nil {
		return nil, fmt.Errorf("natsapi: %w", err)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Fair = cmp.Or(cfg.Fair, fair.NewPool())
	s := &Service{
		cfg: cfg, nc: nc, micro: svc, identity: svc.Info().ServiceIdentity, waits: fair.NewPool(), desk: newDesk(),
		inboxes: []string{"_R_."}, bodies: make(map[string]bodies),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	if cfg.Direct {
		s.inboxes = append(s.inboxes, "_INBOX.")
	}
	s.replies = startOutbox(s)
	// The endpoints stay as they are, and each answer would copy all their schemas.
	s.info = sync.OnceValues(s.describe)
	err = errors.Join(s.addEndpoints(), s.answerDiscovery()) // who is described must be whole
	if err == nil {
		// A client that asks right after Start has returned must find the
		// service.
		err = nc.Flush()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsapi: %w", err), s.Stop())
	}
	return s, nil
}

// Stop takes no more requests, and waits until those under way are answered.
func (s *Service) Stop() error {
	err := s.micro.Stop()
	if s.discovery != nil {
		if ended := s.discovery.Unsubscribe(); !errors.Is(ended, nats.ErrConnectionClosed) {
			err = errors.Join(err, ended)
		}
	}
	s.stop()
	s.idle.Wait()
	s.desk.close()
	s.replies.close()
	return err
}

// Name names what a request asks for: one of a few, whatever clients send.
type Name struct{ Kind, Name string }

// The kinds of requests.
const (
	KindCommand = "command"
	KindQuery   = "query"
	KindBatch   = "batch"
	// KindDiscovery is for what NATS's service discovery asks.
	KindDiscovery = "discovery"
)

// The outcomes of requests, besides the codes of wire.Error.
const (
	OutcomeFine     = "ok"
	OutcomeRejected = "rejected"
	OutcomeUnsent   = "unsent" // the reply could not be sent
)

// outcomes are the outcomes of replies, by the code in their headers.
var outcomes = func() map[string]string {
	all := map[string]string{"": OutcomeFine, "409": OutcomeRejected}
	for _, code := range wire.ErrorCodes {
		all[statusOf(code)] = code
	}
	return all
}()

// answered reports a request whose reply was sent, or could not be.
func (s *Service) answered(r *request, headers micro.Headers, err error) {
	if s.cfg.Observe == nil && r.ended == nil {
		return
	}
	outcome := OutcomeUnsent
	if err == nil {
		outcome = outcomes[headers.Get(micro.ErrorCodeHeader)]
	}
	if s.cfg.Observe != nil {
		s.cfg.Observe(r.name, outcome, s.cfg.Now().Sub(r.came))
	}
	if r.ended != nil {
		r.ended(outcome)
	}
}

// context carries the trace of a request, for the logger.
func (r *request) context() context.Context {
	if r.trace == nil {
		return context.Background()
	}
	return commands.WithTrace(context.Background(), r.trace)
}
