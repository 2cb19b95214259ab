package natsapi

import (
	"context"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
)

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
	if s.observe == nil && r.ended == nil {
		return
	}
	outcome := OutcomeUnsent
	if err == nil {
		outcome = outcomes[headers.Get(micro.ErrorCodeHeader)]
	}
	if s.observe != nil {
		s.observe(r.name, outcome, s.now().Sub(r.came))
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
