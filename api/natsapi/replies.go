package natsapi

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// finish answers a request that has begun. Commands that the writer took are
// answered through outbox instead.
func (s *Service) finish(r *request, reply any, failure *wire.Error) {
	s.respond(r, reply, failure)
	s.done(r)
}

// refuse answers a request that was not carried out. Every kind of reply has its
// error in the same place.
func (s *Service) refuse(r *request, failure *wire.Error) {
	s.respond(r, wire.Answer[any]{Error: failure}, failure)
}

func (s *Service) replyTo(r *request, dryRun bool, o commands.Outcome, err error) wire.Reply {
	if err != nil {
		return wire.Reply{Error: s.failure(r, err)}
	}
	if o.Rejection != nil {
		return wire.Reply{Rejection: o.Rejection}
	}
	if dryRun {
		return wire.Reply{DryRun: true, Events: ledger.EventLines(r.user.mayHear(o.Events))}
	}
	return wire.Reply{
		Sequence: o.Address.Sequence, Index: o.Address.Index, Repeated: o.Repeated,
		Nothing: o.Address.Sequence == 0, Claimed: wire.ClaimedIn(o.Events),
	}
}

func (s *Service) failure(r *request, err error) *wire.Error {
	var told *wire.Error
	if errors.As(err, &told) {
		return told
	}
	tooMuch := errors.Is(err, fair.ErrBusy) || errors.Is(err, fair.ErrTooLong) || errors.Is(err, fair.ErrBudget)
	if tooMuch || commands.Passing(err) || errors.Is(err, projector.ErrCondemned) {
		return &wire.Error{
			Code: wire.ErrorUnavailable, Message: err.Error(), Retry: true, RetryAfterMS: int(retryAfter.Milliseconds()),
		}
	}
	s.cfg.Logger.ErrorContext(r.context(), "a request over NATS failed", "subject", r.Subject(),
		"request_id", r.Headers().Get(wire.HeaderRequestID), "error", err)
	return &wire.Error{Code: wire.ErrorInternal, Message: "the request failed; the server's log says more", Retry: true}
}

func (s *Service) respond(r *request, reply any, failure *wire.Error) {
	body, headers, err := s.encode(reply, r.encoding, failure)
	s.send(r, body, headers, err)
}

func (s *Service) send(r *request, body []byte, headers micro.Headers, err error) {
	if r.trace != nil && err == nil {
		if headers = maps.Clone(headers); headers == nil { // some are shared
			headers = make(micro.Headers)
		}
		headers[wire.HeaderTraceParent] = []string{r.trace.Parent}
	}
	if err == nil && r.Reply() != "" {
		err = r.Respond(body, micro.WithHeaders(headers))
	}
	if err != nil {
		s.cfg.Logger.WarnContext(r.context(), "a reply cannot be sent", "error", err)
	}
	s.answered(r, headers, err)
}

// headers are those of replies without an error, at one sequence. They are shared
// and must not be changed.
type headers struct {
	at            uint64
	sequence      string // at, as text
	json, msgpack micro.Headers
}

type newestHeaders struct{ atomic.Pointer[headers] }

// at returns the headers of replies that hold a sequence. Replies that are
// sent together mostly hold the same one.
func (n *newestHeaders) at(sequence uint64) *headers {
	if last := n.Load(); last != nil && last.at == sequence {
		return last
	}
	text := strconv.FormatUint(sequence, 10)
	made := &headers{
		at: sequence, sequence: text,
		json:    micro.Headers{wire.HeaderContentType: {encoding.TypeJSON}, wire.HeaderSequence: {text}},
		msgpack: micro.Headers{wire.HeaderContentType: {encoding.TypeMsgpack}, wire.HeaderSequence: {text}},
	}
	n.Store(made)
	return made
}

// heldBy returns the sequence that a reply holds: that of its commit, or of the
// view that a query read, or otherwise how far the server has read the log.
func (s *Service) heldBy(reply any) uint64 {
	switch r := reply.(type) {
	case *wire.Reply:
		if r.Sequence > 0 {
			return r.Sequence
		}
	case wire.Answer[any]:
		if r.Sequence > 0 {
			return r.Sequence
		}
	}
	return s.cfg.Queries.Views.Checkpoint().Sequence
}

// encode makes the body and the headers of a reply. Micro's error headers have
// the code, too, for clients that look only there.
//
// It does not use req.Error, which notes the error in micro's statistics: once
// the handler has returned, as ours has, that is a data race.
func (s *Service) encode(reply any, contentType string, failure *wire.Error) ([]byte, micro.Headers, error) {
	body, err := encoding.Encode(reply, contentType)
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	if most := int(s.nc.MaxPayload()) - headerRoom; len(body) > most && failure == nil {
		failure = &wire.Error{
			Code:    wire.ErrorTooLarge,
			Message: fmt.Sprintf("the answer would take %d bytes, and NATS takes at most %d: ask for less", len(body), most),
		}
		return s.encode(wire.Answer[any]{Error: failure}, contentType, failure)
	}
	code, text := "", ""
	if failure != nil {
		code, text = statusOf(failure.Code), failure.Error()
	} else if r, isReply := reply.(*wire.Reply); isReply && r.Rejection != nil {
		code, text = "409", r.Rejection.String()
	}
	plain := s.headers.at(s.heldBy(reply))
	switch {
	case code != "":
		return body, micro.Headers{
			wire.HeaderContentType: {contentType}, wire.HeaderSequence: {plain.sequence},
			micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {oneLine(text)},
		}, nil
	case contentType == encoding.TypeMsgpack:
		return body, plain.msgpack, nil
	}
	return body, plain.json, nil
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

func oneLine(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(clipped(text))
}

// clipped bounds a text that quotes what a client has sent: it would not fit into a reply.
func clipped(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}
