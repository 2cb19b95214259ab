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
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Names and limits of the service.
const (
	ServiceName = "allot"

	// underWay is how many requests of this door may be under way. Commands
	// take no goroutine while they are; queries and batches take one each.
	underWay = 1024
	// smallBytes is what a command takes that is read where it arrives. A
	// larger one would hold up those behind it.
	smallBytes = 4 << 10
	// never is fewer bytes than any request has.
	never = -1
	// pendingMessages and pendingBytes are what NATS may hold back, of one kind
	// of request, until it is looked at here, which takes microseconds each.
	pendingMessages = 64 << 10
	pendingBytes    = 32 << 20
	submitTimeout   = 30 * time.Second
	// headerRoom is what a reply's headers take at most.
	headerRoom = 8 << 10
	// maxQueryBytes is what a query may have: as much as a URL. To look at more
	// would hold up those behind it.
	maxQueryBytes = 64 << 10
)

// costlyUnderWay is how many queries that take long may be under way. One
// client has half of them at most, so that it leaves processors to others.
func costlyUnderWay() int { return max(runtime.GOMAXPROCS(0), 2) }

// Service is the running micro service.
type Service struct {
	nc      *nats.Conn
	micro   micro.Service
	submit  commands.Starter
	queries *Queries
	log     *slog.Logger
	queue   *fairQueue
	costly  *fairQueue // of queries that take long
	parking *parking
	replies *outbox
	idle    sync.WaitGroup // of the workers
	actor   string
	users   *Users
	inboxes []string // what reply subjects begin with
	floods  floods
	now     func() time.Time
}

// Config is what the service needs.
type Config struct {
	Commands commands.Starter
	Queries  *Queries
	Version  string
	// Users may connect; nil: anybody, and whoever does is an operator.
	Users *Users
	// Actor is who the records name if there are no users.
	Actor string
	// Direct: clients may be in the door's own account, and the reply subject is
	// the one that they name. Otherwise it is the server's.
	Direct bool
	// CutOff, if set, closes a connection that floods the door.
	CutOff func(connection uint64)
	// Heavy, if set, is told when much memory is taken by requests, and when no
	// longer. It must not wait.
	Heavy func(bool)
	// Now is the clock that deadlines are compared with; nil: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Start adds the service to a connection.
func Start(nc *nats.Conn, cfg Config) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: ServiceName, Version: cfg.Version,
		Description: "Allot: an event-sourced allocation ledger",
		Metadata:    map[string]string{"content-types": wire.TypeJSON + ", " + wire.TypeMsgpack},
	})
	if err != nil {
		return nil, fmt.Errorf("natsapi: %w", err)
	}
	s := &Service{
		nc: nc, micro: svc, submit: cfg.Commands, queries: cfg.Queries, log: cfg.Logger, actor: cfg.Actor, queue: newFairQueue(underWay),
		costly: newFairQueue(costlyUnderWay()),
		users:  cfg.Users, inboxes: []string{"_R_."}, now: cfg.Now,
	}
	s.floods.cutOff = cfg.CutOff
	s.queue.heavily, s.costly.heavily = cfg.Heavy, cfg.Heavy
	if cfg.Direct {
		s.inboxes = append(s.inboxes, "_INBOX.")
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.replies = s.startOutbox()
	s.costly.share = max(costlyUnderWay()/2, 1)
	s.parking = newParking(func() uint64 { return s.queries.Views.View().Sequence() }, s.queries.Views.Changed)
	for range underWay {
		s.idle.Go(func() { work(s.queue) })
	}
	for range costlyUnderWay() {
		s.idle.Go(func() { work(s.costly) })
	}
	err = s.addEndpoints()
	if err == nil {
		// A client that asks as soon as Start has returned must find the service.
		err = nc.Flush()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("natsapi: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Service) addEndpoints() error {
	reply := wire.ReplySchema()
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		if err := s.endpoint(wire.CommandPrefix, name, s.command(commands.Registry[name]), wire.RequestSchema(commands.Registry[name]()), reply); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		q := wire.Queries[name]()
		answer, err := wire.AnswerSchema(q)
		if err == nil {
			err = s.endpoint(wire.QueryPrefix, name, s.query(wire.Queries[name]), wire.RequestSchema(q), answer)
		}
		if err != nil {
			return err
		}
	}
	return s.endpointAt("batch", wire.BatchSubject, s.batch(), wire.RequestSchema(wire.Batch{}), wire.BatchReplySchema())
}

// endpoint adds an endpoint that $SRV.INFO shows with the schemas of its bodies.
func (s *Service) endpoint(prefix, name string, h micro.Handler, request, reply any) error {
	return s.endpointAt(strings.TrimPrefix(prefix, "allot.")+"-"+name, prefix+"."+name, h, request, reply)
}

func (s *Service) endpointAt(name, subject string, h micro.Handler, request, reply any) error {
	metadata := make(map[string]string, 2)
	for key, schema := range map[string]any{"request_schema": request, "reply_schema": reply} {
		encoded, err := ledger.PlainJSON(schema)
		if err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}
		metadata[key] = string(encoded)
	}
	err := s.micro.AddEndpoint(name, h,
		micro.WithEndpointMetadata(metadata),
		micro.WithEndpointSubject(subject),
		micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", name, err)
	}
	return nil
}

// Stop stops taking requests and waits until those under way are answered.
func (s *Service) Stop() error {
	err := s.micro.Stop()
	s.parking.stop()
	s.queue.close()
	s.costly.close()
	s.idle.Wait()
	s.queue.begun.Wait()
	s.costly.begun.Wait()
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

// request is a request with its sender.
type request struct {
	micro.Request
	user     *User  // nil: anybody
	client   string // tells it from others
	encoding string
	queue    *fairQueue // where it waits and is counted
	weight   int
	came     time.Time

	connection uint64 // of the client; 0: nobody knows
}

// retryAfter is what a refused client is told to wait.
const retryAfter = 200 * time.Millisecond

// overhead is what a request takes besides its body and headers.
const overhead = 2 << 10

// inTurn has a worker begin each request, which has at most so many bytes, when
// it is its client's turn. If
// nothing waits, requests of at most atOnce bytes begin where they arrive. Who
// sends nonsense, or more than may wait, is answered at once. Whatever begins
// a request must finish it.
func (s *Service) inTurn(queue *fairQueue, most, atOnce int, begin func(*request)) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		if !s.mayReplyTo(req.Reply()) {
			return // nobody could be told
		}
		if n := len(req.Data()); n > most {
			encoding, failure := encodingOf(req)
			if failure != nil {
				encoding = wire.TypeJSON
			}
			s.refuse(req, encoding, bad("the body has %d bytes, and here it may have %d", n, most))
			return
		}
		r, size, failure := s.admit(req)
		if failure != nil {
			s.refuse(req, r.encoding, failure)
			return
		}
		r.queue = queue
		if len(req.Data()) <= atOnce && queue.pass(r.client, r.weight) {
			begin(r)
			return
		}
		if !queue.push(r.client, job{do: func() { begin(r) }, size: size, weight: r.weight}) {
			if s.floods.refused(r.connection, r.came) {
				s.log.Warn("a NATS client floods the door, and is cut off", "client", r.client, "connection", r.connection)
			}
			s.refuse(req, r.encoding, tooMany())
		}
	})
}

// admit reads who sent a request and what it will take.
func (s *Service) admit(req micro.Request) (r *request, size int, failure *wire.Error) {
	r = &request{Request: req, encoding: wire.TypeJSON, came: s.now()}
	headers, failure := checkHeaders(req.Headers())
	if failure != nil {
		return r, 0, failure
	}
	if r.encoding, failure = encodingOf(req); failure != nil {
		r.encoding = wire.TypeJSON
		return r, 0, failure
	}
	from, known := originOf(req)
	if r.user, failure = s.sender(from, known); failure != nil {
		return r, 0, failure
	}
	r.client, r.connection = from.client(), from.Connection
	weight, err := wire.Weigh(req.Data(), r.encoding)
	if err != nil {
		return r, 0, bad("%v", err)
	}
	r.weight = weight + headers + overhead
	return r, len(req.Data()) + headers + overhead, nil
}

func tooMany() *wire.Error {
	return &wire.Error{
		Code: wire.ErrorUnavailable, Message: "too many requests are waiting", Retry: true, RetryAfterMS: int(retryAfter.Milliseconds()),
	}
}

// checkHeaders holds a request's headers to their bounds, and returns what they take.
func checkHeaders(headers micro.Headers) (size int, failure *wire.Error) {
	for name, values := range headers {
		limit, known := wire.HeaderLimits[name]
		for _, value := range values {
			size += len(name) + len(value)
			if known && len(value) > limit {
				return size, bad("the header %s has %d bytes, and may have %d", name, len(value), limit)
			}
			if known && !isPlain(value) {
				return size, bad("the header %s holds something else than text", name)
			}
		}
		if known && len(values) > 1 {
			return size, bad("the header %s is there %d times", name, len(values))
		}
	}
	if size > wire.MaxHeaderBytes {
		return size, bad("the headers have %d bytes, and may have %d", size, wire.MaxHeaderBytes)
	}
	return size, nil
}

// isPlain reports whether a text is UTF-8 without control characters.
func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// finish answers a request that has begun; see outbox for commands that the
// writer took.
func (s *Service) finish(r *request, reply any, failure *wire.Error) {
	s.respond(r, reply, r.encoding, failure)
	r.done()
}

// done says that a request is no longer under way.
func (r *request) done() { r.queue.release(r.client, r.weight) }

// refuse answers a request that nothing was done about. Every reply has its
// error in the same place.
func (s *Service) refuse(req micro.Request, encoding string, failure *wire.Error) {
	s.respond(req, wire.Answer[any]{Error: failure}, encoding, failure)
}

// mayReplyTo reports whether a reply subject is an inbox. Anything else, such
// as the log's subject, is no place where a client waits for an answer.
func (s *Service) mayReplyTo(reply string) bool {
	return reply == "" || slices.ContainsFunc(s.inboxes, func(prefix string) bool { return strings.HasPrefix(reply, prefix) })
}

func (s *Service) command(empty func() commands.Command) micro.Handler {
	return s.inTurn(s.queue, math.MaxInt, smallBytes, func(r *request) { s.carryOut(r, empty()) })
}

// query takes queries: the cheap ones with everything else, and those that
// take long apart, where each client has its share.
func (s *Service) query(empty func() wire.Query) micro.Handler {
	queue := s.queue
	switch empty().(type) {
	case *wire.CandidatesQuery, *wire.CommitsQuery:
		queue = s.costly
	}
	return s.inTurn(queue, maxQueryBytes, never, func(r *request) {
		q := empty()
		failure := s.readQuery(r, q)
		switch {
		case failure != nil:
			s.finishQuery(r, wire.Answer[any]{}, failure)
		case q.Moment().MinSequence > s.queries.Views.View().Sequence():
			s.park(r, q)
		default:
			s.finishQuery(s.ask(r, q))
		}
	})
}

func (s *Service) finishQuery(r *request, answer wire.Answer[any], failure *wire.Error) {
	if failure != nil {
		answer = wire.Answer[any]{Error: failure}
	}
	s.finish(r, answer, failure)
}

// park puts a query aside until its min_sequence can be read; then it waits
// for its turn again.
func (s *Service) park(r *request, q wire.Query) {
	limit, failure := s.timeLeft(r)
	if failure != nil {
		s.finishQuery(r, wire.Answer[any]{}, failure)
		return
	}
	least := q.Moment().MinSequence
	one := &parked{client: r.client, min: least, until: time.Now().Add(min(limit, minSequenceWait))}
	one.resume = func(late bool) {
		if late {
			s.refuse(r, r.encoding, notReached(least, s.queries.Views.View().Sequence()))
			return
		}
		again := job{do: func() { s.finishQuery(s.ask(r, q)) }, size: r.weight, weight: r.weight}
		if !r.queue.push(r.client, again) {
			s.refuse(r, r.encoding, tooMany())
		}
	}
	r.done()
	if !s.parking.add(one) {
		s.refuse(r, r.encoding, tooMany())
	}
}

// readQuery decodes a query that its sender may ask.
func (s *Service) readQuery(r *request, q wire.Query) *wire.Error {
	if err := wire.Decode(r.Data(), r.encoding, q); err != nil {
		return bad("%s: %v", q.QueryName(), err)
	}
	return r.user.mayAsk(q)
}

// ask answers a query.
func (s *Service) ask(r *request, q wire.Query) (_ *request, answer wire.Answer[any], failure *wire.Error) {
	ctx, cancel, late := s.context(r)
	defer cancel()
	if late != nil {
		return r, answer, late
	}
	answer, err := s.queries.Ask(ctx, q)
	if err != nil {
		return r, answer, s.failure(err)
	}
	return r, answer, r.user.maySee(q, answer.Result)
}

// encodingOf reads the encoding of a request, which is its reply's, too.
func encodingOf(req micro.Request) (string, *wire.Error) {
	switch encoding := req.Headers().Get(wire.HeaderContentType); encoding {
	case "":
		return wire.TypeJSON, nil
	case wire.TypeJSON, wire.TypeMsgpack:
		return encoding, nil
	default:
		return "", bad("%s %q is neither %s nor %s", wire.HeaderContentType, encoding, wire.TypeJSON, wire.TypeMsgpack)
	}
}

// submission is what the headers say of a command: who sends it, and whether
// it is a dry run.
func (s *Service) submission(r *request) (commands.Submission, *wire.Error) {
	base := commands.Submission{Actor: s.actor, RequestID: r.Headers().Get(wire.HeaderRequestID)}
	if r.user != nil {
		base.Actor, base.Project = "nats:"+r.user.Name, r.user.Project
	}
	var err error
	if base.DryRun, err = dryRunOf(r); err != nil {
		return base, bad("%v", err)
	}
	return base, nil
}

// carryOut decodes a command and submits it. What became of it is told when
// the writer, or the clock, says so.
func (s *Service) carryOut(r *request, c commands.Command) {
	submission, limit, failure := s.read(r, c)
	if failure != nil {
		s.finish(r, &wire.Reply{Error: failure}, failure)
		return
	}
	var told atomic.Bool
	tell := func(outcome commands.Outcome, err error) {
		if told.CompareAndSwap(false, true) {
			s.replies.add(answer{request: r, dryRun: submission.DryRun, outcome: outcome, err: err})
		}
	}
	late := time.AfterFunc(limit, func() { tell(commands.Outcome{}, commands.ErrNoAnswer) })
	s.submit.Start(submission, func(outcome commands.Outcome, err error) {
		late.Stop()
		tell(outcome, err)
	})
}

// read makes a submission of a request for one command, and says within which
// time it must be answered.
func (s *Service) read(r *request, c commands.Command) (commands.Submission, time.Duration, *wire.Error) {
	if !r.user.maySubmit(c.CommandName()) {
		return commands.Submission{}, 0, forbidden("%s may not submit %s", r.user.Name, c.CommandName())
	}
	submission, failure := s.submission(r)
	if failure == nil && !submission.DryRun {
		submission.ID, failure = commandID(r)
	}
	if failure != nil {
		return submission, 0, failure
	}
	if err := wire.Decode(r.Data(), r.encoding, c); err != nil {
		return submission, 0, bad("%s: %v", c.CommandName(), err)
	}
	submission.Command = c
	limit, failure := s.timeLeft(r)
	return submission, limit, failure
}

// timeLeft is how long a request may take. It refuses requests whose time is
// over.
func (s *Service) timeLeft(req micro.Request) (time.Duration, *wire.Error) {
	text := req.Headers().Get(wire.HeaderDeadline)
	if text == "" {
		return submitTimeout, nil
	}
	deadline, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, bad("the header %s must hold an RFC 3339 time, not %q", wire.HeaderDeadline, text)
	}
	left := deadline.Sub(s.now())
	if left <= 0 {
		return 0, &wire.Error{Code: wire.ErrorTooLate, Message: "the deadline " + text + " has passed; nothing was done"}
	}
	return min(submitTimeout, left), nil
}

// context ends when a request must have been answered.
func (s *Service) context(req micro.Request) (context.Context, context.CancelFunc, *wire.Error) {
	limit, failure := s.timeLeft(req)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	return ctx, cancel, failure
}

func dryRunOf(req micro.Request) (bool, error) {
	value := req.Headers().Get(wire.HeaderDryRun)
	if value == "" {
		return false, nil
	}
	dryRun, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("the header %s must be true or false, not %q", wire.HeaderDryRun, value)
	}
	return dryRun, nil
}

// replyTo says what became of a command.
func (s *Service) replyTo(dryRun bool, o commands.Outcome, err error) wire.Reply {
	if err != nil {
		return wire.Reply{Error: s.failure(err)}
	}
	if o.Rejection != nil {
		return wire.Reply{Rejection: o.Rejection}
	}
	if dryRun {
		return wire.Reply{DryRun: true, Events: ledger.EventLines(o.Events)}
	}
	return wire.Reply{
		Sequence: o.Address.Sequence, Index: o.Address.Index, Repeated: o.Repeated,
		Nothing: o.Address.Sequence == 0,
	}
}

// failure says what clients are told of an error.
func (s *Service) failure(err error) *wire.Error {
	var told *wire.Error
	if errors.As(err, &told) {
		return told
	}
	if commands.Passing(err) || errors.Is(err, projector.ErrRebuilding) {
		return &wire.Error{Code: wire.ErrorUnavailable, Message: err.Error(), Retry: true, RetryAfterMS: int(retryAfter.Milliseconds())}
	}
	s.log.Error("a request over NATS failed", "error", err)
	return &wire.Error{Code: wire.ErrorInternal, Message: "the request failed; the server's log says more", Retry: true}
}

// respond sends the reply.
func (s *Service) respond(req micro.Request, reply any, encoding string, failure *wire.Error) {
	body, headers, err := s.encode(reply, encoding, failure)
	s.send(req, body, headers, err)
}

// send sends what encode made.
func (s *Service) send(req micro.Request, body []byte, headers micro.Headers, err error) {
	if err == nil && req.Reply() != "" {
		err = req.Respond(body, micro.WithHeaders(headers))
	}
	if err != nil {
		s.log.Warn("a reply cannot be sent", "error", err)
	}
}

// plainHeaders are those of a reply with nothing to report, by its encoding.
// They are shared and must not be changed.
var plainHeaders = map[string]micro.Headers{
	wire.TypeJSON:    {wire.HeaderContentType: {wire.TypeJSON}},
	wire.TypeMsgpack: {wire.HeaderContentType: {wire.TypeMsgpack}},
}

// encode makes the body and the headers of a reply. Clients that only look at
// micro's error headers find the code there, too.
//
// It does not leave that to req.Error, which notes the error for micro's
// statistics: a data race once the handler has returned, as ours has.
func (s *Service) encode(reply any, encoding string, failure *wire.Error) ([]byte, micro.Headers, error) {
	body, err := wire.Encode(reply, encoding)
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	if most := int(s.nc.MaxPayload()) - headerRoom; len(body) > most && failure == nil {
		failure = &wire.Error{Code: wire.ErrorTooLarge, Message: fmt.Sprintf("the answer would take %d bytes, and NATS takes at most %d: ask for less", len(body), most)}
		return s.encode(wire.Answer[any]{Error: failure}, encoding, failure)
	}
	code, text := "", ""
	if failure != nil {
		code, text = statusOf(failure.Code), failure.Error()
	} else if r, isReply := reply.(*wire.Reply); isReply && r.Rejection != nil {
		code, text = "409", r.Rejection.String()
	}
	if code == "" {
		return body, plainHeaders[encoding], nil
	}
	return body, micro.Headers{
		wire.HeaderContentType: {encoding}, micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {oneLine(text)},
	}, nil
}

func statusOf(code string) string {
	switch code {
	case wire.ErrorBadRequest:
		return "400"
	case wire.ErrorTooLarge:
		return "413"
	case wire.ErrorForbidden:
		return "403"
	case wire.ErrorTooLate:
		return "408"
	case wire.ErrorNotFound:
		return "404"
	case wire.ErrorUnavailable:
		return "503"
	}
	return "500"
}

// oneLine makes a text fit for a header.
func oneLine(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
