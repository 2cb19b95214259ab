// Package natsapi takes commands over NATS: a micro service with an endpoint
// per command, on the subject allot.command.NAME. It can be discovered with
// $SRV.INFO.
//
// A request's body is the command as JSON or msgpack, told by the header
// Content-Type (application/json, which is the default, or
// application/msgpack). The header Allot-Command-Id, a uuid, is required: it
// makes a retry safe. The reply has the encoding of the request.
package natsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Names and limits of the service.
const (
	ServiceName   = "allot"
	SubjectPrefix = "allot.command"

	HeaderContentType = "Content-Type"
	HeaderCommandID   = "Allot-Command-Id"
	HeaderRequestID   = "Allot-Request-Id"

	TypeJSON    = "application/json"
	TypeMsgpack = "application/msgpack"

	// workers is how many commands of this door may be under way. More
	// wait in the subscription, up to pendingMessages.
	workers         = 1024
	pendingMessages = 8192
	pendingBytes    = 256 << 20
	submitTimeout   = 30 * time.Second
)

// Reply is the answer to every request. Exactly one of Sequence, Nothing,
// Rejection and Error says what became of the command.
type Reply struct {
	Sequence  uint64              `json:"sequence,omitempty"` // of the commit: the consumers' new generation
	Index     int                 `json:"index,omitempty"`    // of the record in the commit
	Repeated  bool                `json:"repeated,omitempty"` // the id was known; this is the first result
	Nothing   bool                `json:"nothing,omitempty"`  // accepted, and nothing had to change
	Rejection *commands.Rejection `json:"rejection,omitempty"`
	Error     *Error              `json:"error,omitempty"`
}

// Error says that a request could not be dealt with.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Retry: the same request, with the same command id, may succeed.
	Retry bool `json:"retry,omitempty"`
}

// Codes of Error.
const (
	ErrorBadRequest  = "bad_request"
	ErrorUnavailable = "unavailable"
	ErrorInternal    = "internal"
)

// Submitter carries commands out; commands.Processor does.
type Submitter interface {
	Submit(context.Context, commands.Submission) (commands.Outcome, error)
}

// Service is the running micro service.
type Service struct {
	micro   micro.Service
	submit  Submitter
	log     *slog.Logger
	workers chan struct{}
	actor   string
}

// Start adds the service to a connection. actor is who the records name:
// clients of this door are not told apart.
func Start(nc *nats.Conn, submit Submitter, version, actor string, log *slog.Logger) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: ServiceName, Version: version,
		Description: "Allot: an event-sourced allocation ledger",
		Metadata:    map[string]string{"content-types": TypeJSON + ", " + TypeMsgpack},
	})
	if err != nil {
		return nil, fmt.Errorf("natsapi: %w", err)
	}
	s := &Service{micro: svc, submit: submit, log: log, workers: make(chan struct{}, workers), actor: actor}
	names := make([]string, 0, len(commands.Registry))
	for name := range commands.Registry {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		err := svc.AddEndpoint(name, s.handler(commands.Registry[name]),
			micro.WithEndpointSubject(SubjectPrefix+"."+name),
			micro.WithEndpointPendingLimits(pendingMessages, pendingBytes),
			micro.WithEndpointMetadata(map[string]string{"command": name}))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("natsapi: endpoint %s: %w", name, err), svc.Stop())
		}
	}
	// A client that asks as soon as Start has returned must find the service.
	if err := nc.Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("natsapi: %w", err), svc.Stop())
	}
	return s, nil
}

// Stop stops taking requests and waits until those under way are answered.
func (s *Service) Stop() error {
	err := s.micro.Stop()
	for range workers {
		s.workers <- struct{}{}
	}
	return err
}

func (s *Service) handler(empty func() commands.Command) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		s.workers <- struct{}{}
		go func() {
			defer func() { <-s.workers }()
			reply, encoding := s.answer(req, empty())
			s.respond(req, reply, encoding)
		}()
	})
}

// answer decodes a request, submits its command and says what became of it.
func (s *Service) answer(req micro.Request, c commands.Command) (Reply, string) {
	encoding := req.Headers().Get(HeaderContentType)
	switch encoding {
	case "":
		encoding = TypeJSON
	case TypeJSON, TypeMsgpack:
	default:
		return badRequest("%s %q is neither %s nor %s", HeaderContentType, encoding, TypeJSON, TypeMsgpack), TypeJSON
	}
	id, err := ledger.ParseUUID(req.Headers().Get(HeaderCommandID))
	if err != nil || id.IsNil() {
		return badRequest("the header %s must hold a uuid", HeaderCommandID), encoding
	}
	if err := Decode(req.Data(), encoding, c); err != nil {
		return badRequest("%s: %v", c.CommandName(), err), encoding
	}
	ctx, cancel := context.WithTimeout(context.Background(), submitTimeout)
	defer cancel()
	outcome, err := s.submit.Submit(ctx, commands.Submission{
		ID: id, Actor: s.actor, RequestID: req.Headers().Get(HeaderRequestID), Command: c,
	})
	if err != nil {
		return s.failure(err), encoding
	}
	return replyOf(outcome), encoding
}

func replyOf(o commands.Outcome) Reply {
	if o.Rejection != nil {
		return Reply{Rejection: o.Rejection}
	}
	return Reply{
		Sequence: o.Address.Sequence, Index: o.Address.Index, Repeated: o.Repeated,
		Nothing: o.Address.Sequence == 0,
	}
}

func badRequest(format string, args ...any) Reply {
	return Reply{Error: &Error{Code: ErrorBadRequest, Message: fmt.Sprintf(format, args...)}}
}

func (s *Service) failure(err error) Reply {
	for _, retry := range []error{commands.ErrBusy, commands.ErrStopped, commands.ErrNoAnswer, commands.ErrLogUnavailable} {
		if errors.Is(err, retry) {
			return Reply{Error: &Error{Code: ErrorUnavailable, Message: err.Error(), Retry: true}}
		}
	}
	s.log.Error("a command over NATS failed", "error", err)
	return Reply{Error: &Error{Code: ErrorInternal, Message: "the command failed; the server's log says more", Retry: true}}
}

// respond sends the reply. Clients that only look at micro's error headers
// find the code there, too.
func (s *Service) respond(req micro.Request, reply Reply, encoding string) {
	body, err := Encode(reply, encoding)
	if err != nil {
		s.log.Error("a reply cannot be encoded", "error", err)
		return
	}
	headers := micro.Headers{HeaderContentType: {encoding}}
	// Not req.Error: it notes the error for micro's statistics, which is a
	// data race once the handler has returned, as ours has.
	switch {
	case reply.Error != nil:
		headers[micro.ErrorCodeHeader] = []string{statusOf(reply.Error.Code)}
		headers[micro.ErrorHeader] = []string{reply.Error.Code + ": " + oneLine(reply.Error.Message)}
	case reply.Rejection != nil:
		headers[micro.ErrorCodeHeader] = []string{"409"}
		headers[micro.ErrorHeader] = []string{string(reply.Rejection.Code) + ": " + oneLine(reply.Rejection.Message)}
	}
	err = req.Respond(body, micro.WithHeaders(headers))
	if err != nil {
		s.log.Warn("a reply cannot be sent", "error", err)
	}
}

func statusOf(code string) string {
	switch code {
	case ErrorBadRequest:
		return "400"
	case ErrorUnavailable:
		return "503"
	}
	return "500"
}

// Decode reads a command strictly: unknown fields, trailing bytes and wrong
// types are errors.
func Decode(data []byte, encoding string, c any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the body is empty")
	}
	if encoding == TypeMsgpack {
		return decodeMsgpack(data, c)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the command")
	}
	return nil
}

func decodeMsgpack(data []byte, c any) error {
	if err := checkMsgpack(data); err != nil {
		return err
	}
	in := bytes.NewReader(data)
	dec := msgpack.NewDecoder(in)
	dec.SetCustomStructTag("json")
	dec.DisallowUnknownFields(true)
	if err := dec.Decode(c); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "msgpack: "))
	}
	if in.Len() > 0 {
		return errors.New("there is something after the command")
	}
	return nil
}

// Encode writes a reply, or a command, in the given encoding.
func Encode(value any, encoding string) ([]byte, error) {
	if encoding != TypeMsgpack {
		return json.Marshal(value)
	}
	var out bytes.Buffer
	enc := msgpack.NewEncoder(&out)
	enc.SetCustomStructTag("json")
	err := enc.Encode(value)
	return out.Bytes(), err
}

// oneLine makes a text fit for a header.
func oneLine(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}
