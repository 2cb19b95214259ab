package natsapi

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
)

// request is a request with its sender.
type request struct {
	micro.Request
	user     *User  // nil: the server has no users
	client   string // identifies the sender's client
	encoding string
	queue    *fairQueue // where it waits and is counted
	headers  int        // bytes of them
	weight   int
	came     time.Time

	from  origin // the zero value: unknown
	known bool   // who it is

	name  Name
	trace *commands.Trace      // nil: the request is not recorded
	ended func(outcome string) // ends its span; nil: it has none
}

// retryAfter is how long a refused client is told to wait.
const retryAfter = 200 * time.Millisecond

// overhead is the memory that a request takes besides its body and headers, in
// bytes.
const overhead = 2 << 10

// lightBody is the largest body that is weighed where it arrives, which takes
// less than a millisecond, and decoded beside any number of others.
const lightBody = 64 << 10

// inTurn lets a worker begin each request when it is its client's turn. A request
// has at most most bytes. If no request waits, one of at most atOnce bytes begins
// where it arrives. Invalid requests, and those beyond a client's queue, are
// answered at once. Whoever begins a request must finish it.
func (s *Service) inTurn(name Name, queue *fairQueue, most, atOnce int, begin func(*request)) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		from, known := s.look(req)
		if !s.mayReplyTo(req.Reply()) {
			return // nobody could be told
		}
		r := s.arrived(name, req)
		r.queue, r.from, r.known = queue, from, known
		if r.client = from.client(); s.refusals.hasGone(r.client) { // it had sent more before it was cut off
			s.refuseLater(r)
			return
		}
		if name == describe && s.explorers.count(from, r.came) {
			s.logger.Warn("a NATS client asks for descriptions again and again, and is cut off", "client", r.client,
				"connection", from.Connection, "most_in_a_second", mostExplored)
		}
		failure := s.admit(r, most)
		if failure == nil && len(req.Data()) <= atOnce && queue.pass(r.client, r.weight) {
			begin(r)
			return
		}
		s.wait(r, failure, begin)
	})
}

// look counts a request that has come, and returns who sent it.
func (s *Service) look(req micro.Request) (from origin, known bool) {
	from, known = originOf(req)
	s.seen.Add(1)
	s.tellCaught()
	if known {
		s.senders.count(from.Connection)
	}
	return from, known
}

// wait has a request wait for its turn, or for its refusal. A large one is weighed by
// somebody else: it takes longer than those behind it should wait for.
func (s *Service) wait(r *request, failure *wire.Error, begin func(*request)) {
	size := len(r.Data()) + r.headers + overhead
	then := func() {
		if failure != nil {
			s.refuse(r, failure)
			return
		}
		s.push(r.queue, r, job{from: r, do: func() { begin(r) }, size: size, weight: r.weight})
	}
	light := len(r.Data()) <= lightBody
	if light && s.inPace(r) {
		then()
		return
	}
	s.push(s.scales, r, job{from: r, size: size, do: func() {
		s.awaitPace(r)
		if !light && failure == nil {
			s.large <- struct{}{}
			failure = s.weigh(r)
			<-s.large
		}
		s.scales.release(r.client, 0)
		then()
	}})
}

// Bodies of all clients come at a pace: so many bytes a second for each processor, and at
// least for two of them, after so many at once. Each is copied some times before anybody
// knows what is in it, and with more of them the collector runs all the time, at everybody's
// expense. What they ask for takes longer.
const (
	pace     = 8 << 20
	paceRoom = 1 << 20
)

func newPace() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(pace*max(runtime.GOMAXPROCS(0), 2)), paceRoom)
}

// inPace reports whether a body may come now. Small ones always may.
func (s *Service) inPace(r *request) bool {
	n := len(r.Data())
	return n <= smallBytes || s.pace.AllowN(time.Now(), n)
}

// awaitPace waits until a body may come, or the service stops.
func (s *Service) awaitPace(r *request) {
	_ = s.pace.WaitN(s.stopping, min(len(r.Data()), paceRoom)) // it ends early where the service stops
}

// push adds a request to those that wait, or refuses it.
func (s *Service) push(queue *fairQueue, r *request, j job) {
	if queue.push(r.client, j) {
		return
	}
	if s.floods.count(r.from, r.came) {
		s.logger.Warn("a NATS client floods the door, and is cut off", "client", r.client, "connection", r.from.Connection)
	}
	s.refuseLater(r)
}

// Forget refuses the requests of an account that wait. It was cut off: the work
// would be for nobody, but the NATS server keeps where an answer goes until there
// is one.
func (s *Service) Forget(account string) {
	s.refusals.leave(account)
	for _, queue := range s.queues() {
		for _, j := range queue.forget(func(client string) bool { return strings.HasPrefix(client, account+" ") }) {
			s.refuseLater(j.from)
		}
	}
}

// arrived makes a request of a message.
func (s *Service) arrived(name Name, req micro.Request) *request {
	r := &request{Request: req, encoding: wire.TypeJSON, came: s.now(), name: name}
	if s.trace != nil {
		headers := req.Headers()
		r.trace, r.ended = s.trace(name, func(header string) string {
			// Names are case-sensitive over NATS, and clients in Go write the second.
			return cmp.Or(headers.Get(header), headers.Get(http.CanonicalHeaderKey(header)))
		})
	}
	if encoding, failure := encodingOf(req); failure == nil {
		r.encoding = encoding
	}
	return r
}

// admit reads how a request is to be read and answered, who sent it, and, unless
// it is large, what it will take.
func (s *Service) admit(r *request, most int) *wire.Error {
	if n := len(r.Data()); n > most {
		return bad("the body has %d bytes, and here it may have %d", n, most)
	}
	var failure *wire.Error
	if r.headers, failure = checkHeaders(r.Headers()); failure != nil {
		return failure
	}
	if _, failure = encodingOf(r); failure != nil {
		return failure
	}
	if r.user, failure = s.sender(r.from, r.known); failure != nil {
		return failure
	}
	if len(r.Data()) > lightBody {
		return nil // see wait
	}
	return s.weigh(r)
}

// weigh finds out what a request will take.
func (s *Service) weigh(r *request) *wire.Error {
	weight, err := wire.Weigh(r.Data(), r.encoding)
	if err != nil {
		return bad("%v", err)
	}
	r.weight = weight + r.headers + overhead
	return nil
}

// decode reads a request's body, which has been weighed. Large ones are read one
// at a time, or all processors would be at it.
func (s *Service) decode(r *request, into any) error {
	if len(r.Data()) > lightBody {
		s.large <- struct{}{}
		defer func() { <-s.large }()
	}
	return wire.DecodeWeighed(r.Data(), r.encoding, into)
}

func tooMany() *wire.Error {
	return &wire.Error{
		Code: wire.ErrorUnavailable, Message: "too many requests are waiting", Retry: true,
		RetryAfterMS: int(retryAfter.Milliseconds()),
	}
}

// checkHeaders checks the bounds of a request's headers, and returns the memory
// that they take.
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

// mayReplyTo reports whether a reply subject is an inbox. On any other subject,
// such as the log's, no client waits for an answer.
func (s *Service) mayReplyTo(reply string) bool {
	return reply == "" ||
		slices.ContainsFunc(s.inboxes, func(prefix string) bool { return strings.HasPrefix(reply, prefix) })
}

// encodingOf reads the encoding of a request. Its reply has the same.
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

// timeLeft returns how long a request may take. It refuses requests whose
// deadline has passed.
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

// done ends a request that was under way.
func (r *request) done() { r.queue.release(r.client, r.weight) }
