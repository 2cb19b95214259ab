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
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// Names and limits of the service.
const (
	ServiceName = "allot"

	// underWay is how many requests of this queue may be under way. Commands
	// occupy no goroutine meanwhile; queries and batches occupy one each.
	underWay = 1024
	// smallBytes is the size, in bytes, of the largest command that is read where
	// it arrives. A larger one would hold up the requests behind it.
	smallBytes = 4 << 10
	// never is fewer bytes than any request has.
	never = -1
	// pendingMessages and pendingBytes are what NATS may hold back, of one kind
	// of request, until it is looked at here, which takes microseconds each. Beyond
	// it requests are dropped, unless who sends so many can be cut off.
	pendingMessages = 64 << 10
	pendingBytes    = 32 << 20
	noLimit         = -1
	submitTimeout   = 30 * time.Second
	// headerRoom is the size, in bytes, of the largest headers of a reply.
	headerRoom = 8 << 10
	// maxQueryBytes is the size of the largest query: as large as a URL. Reading
	// a larger one would hold up the requests behind it.
	maxQueryBytes = 64 << 10
)

// costlyUnderWay is how many slow queries may be under way. One client has half
// of them at most, so that it leaves processors to others.
func costlyUnderWay() int { return max(runtime.GOMAXPROCS(0), 2) }

// Service is the running micro service.
type Service struct {
	nc      *nats.Conn
	micro   micro.Service
	submit  commands.Starter
	fresh   commands.Freshness // nil: a single server
	queries *Queries
	logger  *slog.Logger
	queue   *fairQueue
	slow    *fairQueue     // of commands that may wait for long before they are decided
	costly  *fairQueue     // of queries that take long
	scales  *fairQueue     // of large bodies that are to be weighed
	large   chan struct{}  // whoever holds one of its places reads a large body
	weigher sync.WaitGroup // the worker that weighs
	pace    *rate.Limiter  // of bodies, in bytes
	before  uint64         // messages that the connection had had
	seen    atomic.Uint64  // requests that have come out of the connection
	caught  atomic.Pointer[caught]
	parking *parking
	replies *outbox
	headers atomic.Pointer[headers] // of the newest replies
	idle    sync.WaitGroup          // the workers, and queries that wait for other servers
	// stopping ends when the service stops.
	stopping  context.Context
	stop      context.CancelFunc
	actor     string
	users     *Users
	inboxes   []string // prefix of reply subjects
	floods    floods
	described tally  // descriptions that were sent
	explorers floods // who asks for them
	refusals  *refusals
	teller    sync.WaitGroup // the goroutine that tells them
	discovery *nats.Subscription
	info      func() ([]byte, error) // the answer to INFO
	identity  micro.ServiceIdentity  // Info copies all descriptions
	senders   senders
	now       func() time.Time
	trace     func(Name, func(string) string) (*commands.Trace, func(string))
	observe   func(Name, string, time.Duration)
}

// Config configures the service.
type Config struct {
	Commands commands.Starter
	// Fresh tells when the queries' views hold everything that other servers have
	// answered; nil: a single server.
	Fresh   commands.Freshness
	Queries *Queries
	Version string
	// Users are the users that may connect; nil: anybody may, and is an operator.
	Users *Users
	// Actor is the actor in records, if there are no users.
	Actor string
	// Direct means that clients may be in the account of the service's own
	// connection, so that the reply subject is the one that they name. Otherwise
	// it is the NATS server's.
	Direct bool
	// CutOff, if set, closes a connection that floods the service.
	CutOff func(connection uint64)
	// Heavy, if set, is called when requests take much memory, and when no
	// longer. It must not wait.
	Heavy func(bool)
	// Trace, if set, is asked for each request whether it is recorded in a trace.
	// It returns the request's place there, and what is called with its outcome;
	// or nil and nil. See Observe for outcomes.
	Trace func(name Name, header func(string) string) (trace *commands.Trace, ended func(outcome string))
	// Observe, if set, is called for each answered request, with the time since
	// it came. The outcome is one of Outcomes. It must neither block nor take
	// long.
	Observe func(name Name, outcome string, took time.Duration)
	// Now is the clock for deadlines; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Start adds the service to a connection.
func Start(nc *nats.Conn, cfg Config) (*Service, error) {
	if err := nc.Flush(); err != nil { // what comes for a service that was here before has come then (see Unseen)
		return nil, fmt.Errorf("natsapi: %w", err)
	}
	before := nc.Stats().InMsgs
	svc, err := micro.AddService(nc, micro.Config{
		Name: ServiceName, Version: cfg.Version,
		Description: "Allot: an event-sourced allocation ledger",
		Metadata:    map[string]string{"content-types": wire.TypeJSON + ", " + wire.TypeMsgpack},
	})
	if err != nil {
		return nil, fmt.Errorf("natsapi: %w", err)
	}
	s := &Service{
		nc: nc, micro: svc, identity: svc.Info().ServiceIdentity, before: before,
		submit: cfg.Commands, fresh: cfg.Fresh, queries: cfg.Queries, logger: cfg.Logger,
		actor:  cfg.Actor,
		queue:  newFairQueue(underWay),
		slow:   newSlowQueue(underWay),
		costly: newFairQueue(costlyUnderWay()), scales: newFairQueue(1),
		large: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)), pace: newPace(),
		users: cfg.Users, inboxes: []string{"_R_."}, now: cfg.Now, trace: cfg.Trace, observe: cfg.Observe,
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.floods = floods{most: mostRefused, cutOff: cfg.CutOff}
	s.explorers = floods{most: mostExplored, cutOff: cfg.CutOff}
	for _, queue := range s.queues() {
		queue.heavily = cfg.Heavy
	}
	if cfg.Direct {
		s.inboxes = append(s.inboxes, "_INBOX.")
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.replies = s.startOutbox()
	s.refusals = newRefusals()
	s.teller.Go(s.tellRefused)
	s.costly.share = max(costlyUnderWay()/2, 1)
	s.parking = newParking(func() uint64 { return s.queries.Views.View().Sequence() }, s.queries.Views.Changed, s.now)
	for range underWay {
		s.idle.Go(func() { work(s.queue) })
		s.idle.Go(func() { work(s.slow) })
	}
	for range costlyUnderWay() {
		s.idle.Go(func() { work(s.costly) })
	}
	s.weigher.Go(func() { work(s.scales) })
	// The endpoints stay as they are, and each answer would copy all their schemas.
	s.info = sync.OnceValues(func() ([]byte, error) { return ledger.PlainJSON(svc.Info()) })
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

// queues are those in which requests wait.
func (s *Service) queues() []*fairQueue { return []*fairQueue{s.scales, s.queue, s.slow, s.costly} }

// Stop takes no more requests, and waits until those under way are answered.
func (s *Service) Stop() error {
	err := s.micro.Stop()
	if s.discovery != nil {
		if ended := s.discovery.Unsubscribe(); !errors.Is(ended, nats.ErrConnectionClosed) {
			err = errors.Join(err, ended)
		}
	}
	s.stop()
	s.parking.stop()
	s.scales.close()
	s.weigher.Wait()
	for _, queue := range []*fairQueue{s.queue, s.slow, s.costly} {
		queue.close()
	}
	s.idle.Wait()
	for _, queue := range []*fairQueue{s.queue, s.slow, s.costly} {
		queue.begun.Wait()
	}
	s.refusals.close()
	s.teller.Wait()
	s.replies.close()
	return err
}

// work begins requests that had to wait, until the service stops.
func work(queue *fairQueue) {
	wake := make(chan struct{}, 1)
	for {
		j, more := queue.pop(wake)
		if !more {
			return
		}
		j.do()
	}
}
