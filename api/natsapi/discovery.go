package natsapi

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// The library answers requests for discovery on micro.APIPrefix by itself, one after the
// other, without shares for clients. So the embedded NATS server passes those of clients
// on to wire.DiscoveryPrefix instead, where they wait for their turn like all other
// requests. An external server does not.

// answerDiscovery answers clients of the embedded NATS server.
func (s *Service) answerDiscovery() error {
	pings := s.inTurn(Name{KindDiscovery, "ping"}, maxQueryBytes, maxQueryBytes, s.discovered)
	others := s.inTurn(Name{KindDiscovery, "describe"}, maxQueryBytes, never, s.discovered)
	sub, err := s.nc.Subscribe(wire.DiscoveryPrefix+".>", func(m *nats.Msg) {
		r := &message{msg: m}
		switch verb, known := s.verbOf(m.Subject); {
		case !known:
		case verb == micro.PingVerb:
			pings.Handle(r)
		default:
			others.Handle(r)
		}
	})
	if err != nil {
		return fmt.Errorf("natsapi: %w", err)
	}
	s.discovery = sub
	return sub.SetPendingLimits(pendingMessages, pendingBytes)
}

// verbOf reads what a request for discovery asks, if it asks this service:
// VERB, VERB.NAME or VERB.NAME.ID.
func (s *Service) verbOf(subject string) (verb micro.Verb, known bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, wire.DiscoveryPrefix+"."), ".")
	for i, mine := range []string{"", ServiceName, s.identity.ID} {
		if i > 0 && len(tokens) > i && tokens[i] != mine {
			return 0, false
		}
	}
	for _, verb := range []micro.Verb{micro.PingVerb, micro.InfoVerb, micro.StatsVerb} {
		if tokens[0] == verb.String() {
			return verb, len(tokens) <= 3
		}
	}
	return 0, false
}

func (s *Service) discovered(r *request) {
	defer s.done(r)
	verb, _ := s.verbOf(r.Subject())
	if verb != micro.PingVerb { // an answer takes as much as a hundred others
		work, err := s.cfg.Fair.Long(s.stopping, r.client)
		if err != nil {
			s.refuse(r, s.failure(r, err))
			return
		}
		defer work.End()
	}
	var body []byte
	var err error
	switch verb {
	case micro.InfoVerb:
		body, err = s.info()
	case micro.StatsVerb:
		body, err = ledger.PlainJSON(s.micro.Stats())
	default:
		body, err = ledger.PlainJSON(micro.Ping{ServiceIdentity: s.identity, Type: micro.PingResponseType})
	}
	s.send(r, body, nil, err)
}

// message is a NATS message as the library's handlers get it. It answers by Respond alone.
type message struct {
	micro.Request
	msg *nats.Msg
}

func (m *message) Data() []byte           { return m.msg.Data }
func (m *message) Headers() micro.Headers { return micro.Headers(m.msg.Header) }
func (m *message) Subject() string        { return m.msg.Subject }
func (m *message) Reply() string          { return m.msg.Reply }

func (m *message) Respond(data []byte, opts ...micro.RespondOpt) error {
	answer := &nats.Msg{Data: data}
	for _, set := range opts {
		set(answer)
	}
	return m.msg.RespondMsg(answer)
}
