package natsapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
)

type request struct {
	micro.Request
	user     *User  // nil: the server has no users
	client   string // identifies the sender's client
	encoding string
	headers  int         // bytes of them
	lease    *fair.Lease // of memory
	came     time.Time

	name  Name
	trace *commands.Trace      // nil: the request is not recorded
	ended func(outcome string) // ends its span; nil: it has none
}

const retryAfter = 200 * time.Millisecond

// overhead is the memory that a request takes besides its body and headers, in
// bytes.
const overhead = 2 << 10

// inTurn begins each request when it is its client's turn. A request has at most most
// bytes. One of at most atOnce bytes may begin where it arrives. Invalid requests, and
// those beyond what a client may have waiting, are answered at once. A request that
// begins must be finished.
func (s *Service) inTurn(name Name, most, atOnce int, begin func(*request)) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		if !s.mayReplyTo(req.Reply()) {
			return // no client could be told
		}
		r := s.arrived(name, req)
		if failure := s.admit(r, most); failure != nil {
			s.refuse(r, failure)
			return
		}
		size := len(r.Data())
		err := r.lease.Grow(int64(size + r.headers + overhead))
		if err == nil {
			err = s.desk.add(r.client, size <= atOnce, func() { begin(r) })
		}
		if err != nil {
			r.lease.End()
			s.replies.refuse(r, err)
		}
	})
}

func (s *Service) arrived(name Name, req micro.Request) *request {
	r := &request{Request: req, encoding: encoding.TypeJSON, came: s.cfg.Now(), name: name}
	if s.cfg.Trace != nil {
		headers := req.Headers()
		r.trace, r.ended = s.cfg.Trace(name, func(header string) string {
			// Names are case-sensitive over NATS, and clients in Go write the second.
			return cmp.Or(headers.Get(header), headers.Get(http.CanonicalHeaderKey(header)))
		})
	}
	if contentType, failure := encodingOf(req); failure == nil {
		r.encoding = contentType
	}
	return r
}

// admit reads how a request is to be read and answered, and who sent it.
func (s *Service) admit(r *request, most int) *wire.Error {
	r.client, _ = s.split(r.Subject())
	r.lease = s.cfg.Fair.Lease(r.client)
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
	r.user, failure = s.cfg.Users.sender(r.client)
	return failure
}

// split returns who sent to the subject on which a request has come, and what that is to the client. Headers tell
// less: NATS reads them by other rules than the library here, so that a client could hide the server's behind its own.
func (s *Service) split(subject string) (client, sentTo string) {
	if s.cfg.Direct {
		return s.cfg.Actor, subject
	}
	client, sentTo, _ = strings.Cut(strings.TrimPrefix(subject, wire.DoorPrefix+"."), ".")
	return client, sentTo
}

// decode reads a request's body, with memory for it. A large one needs a place: it would
// hold up others.
func (s *Service) decode(r *request, what string, into any) *wire.Error {
	if len(r.Data()) > smallBytes {
		work, err := s.cfg.Fair.Short(s.stopping, r.client)
		if err != nil {
			return s.failure(r, err)
		}
		defer work.End()
	}
	weight, err := encoding.Weigh(r.Data(), r.encoding)
	if err != nil {
		return bad("%v", err)
	}
	if err := r.lease.Grow(int64(weight + r.headers + overhead)); err != nil {
		return s.failure(r, err)
	}
	if err := encoding.DecodeWhole(r.Data(), r.encoding, into); err != nil {
		return bad("%s: %v", what, err)
	}
	return nil
}

// checkHeaders checks the bounds of a request's headers, and returns the memory
// that they take. A dry run that is misspelt must not be carried out.
func checkHeaders(headers micro.Headers) (size int, failure *wire.Error) {
	for name, values := range headers {
		limit, known := wire.HeaderLimits[name]
		if !known && strings.HasPrefix(strings.ToLower(name), "allot-") {
			return size, bad("there is no header %s; names are case-sensitive, as %s is", name, wire.HeaderDryRun)
		}
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
	switch contentType := req.Headers().Get(wire.HeaderContentType); contentType {
	case "":
		return encoding.TypeJSON, nil
	case encoding.TypeJSON, encoding.TypeMsgpack:
		return contentType, nil
	default:
		return "", bad(
			"%s %q is neither %s nor %s", wire.HeaderContentType, contentType, encoding.TypeJSON, encoding.TypeMsgpack,
		)
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
	left := deadline.Sub(s.cfg.Now())
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
func (s *Service) done(r *request) {
	r.lease.End()
	s.desk.done(r.client)
}
