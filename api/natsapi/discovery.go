package natsapi

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// The library answers requests for discovery on micro.APIPrefix by itself, one
// after the other, whoever sends how many of them. So the embedded NATS server
// passes those of clients on to wire.DiscoveryPrefix instead, where they wait for
// their turn like all other requests. An external server does not.

// describe is what a request for all but a sign of life is called.
var describe = Name{KindDiscovery, "describe"}

// answerDiscovery answers clients of the embedded NATS server.
func (s *Service) answerDiscovery() error {
	pings := s.inTurn(Name{KindDiscovery, "ping"}, s.queue, maxQueryBytes, maxQueryBytes, s.discovered)
	others := s.inTurn(describe, s.costly, maxQueryBytes, never, s.discovered)
	sub, err := s.nc.Subscribe(wire.DiscoveryPrefix+".>", func(m *nats.Msg) {
		r := &message{m}
		switch verb, known := s.verbOf(m.Subject); {
		case !known:
			s.look(r)
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
	if s.floods.cutOff != nil {
		return sub.SetPendingLimits(noLimit, noLimit) // as those of endpoints
	}
	return nil
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

// discovered answers a request for discovery that has begun.
func (s *Service) discovered(r *request) {
	defer r.done()
	verb, _ := s.verbOf(r.Subject())
	if verb != micro.PingVerb && s.described.count(r.client, r.came) > mostDescribed {
		s.refuseLater(r)
		return
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

// message is a NATS message as the library's handlers get it.
type message struct{ msg *nats.Msg }

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

func (m *message) RespondJSON(value any, opts ...micro.RespondOpt) error {
	data, err := ledger.PlainJSON(value)
	if err != nil {
		return err
	}
	return m.Respond(data, opts...)
}

func (m *message) Error(code, description string, data []byte, opts ...micro.RespondOpt) error {
	return m.Respond(data, append(opts, micro.WithHeaders(micro.Headers{
		micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {description},
	}))...)
}

// Came is how many messages have come for this door. The library's own answers are
// to nobody where clients are watched.
func (s *Service) Came() int {
	// Stats waits for whoever publishes, and the library counts what comes atomically.
	return int(atomic.LoadUint64(&s.nc.InMsgs) - s.before)
}

// Unseen is how many of them it has not looked at.
func (s *Service) Unseen() int {
	seen := s.seen.Load() // before those that have come: what is looked at has come
	return s.Came() - int(seen)
}

// caught is told when few messages are unseen.
type caught struct {
	most int
	told chan struct{}
}

// Caught returns a channel that is closed as soon as most messages or fewer are
// unseen. One goroutine waits at a time.
func (s *Service) Caught(most int) <-chan struct{} {
	c := &caught{most: most, told: make(chan struct{})}
	s.caught.Store(c)
	s.tellCaught() // the last one may have been looked at before
	return c.told
}

// tellCaught tells whoever waits for few messages to be unseen.
func (s *Service) tellCaught() {
	if c := s.caught.Load(); c != nil && s.Unseen() <= c.most && s.caught.CompareAndSwap(c, nil) {
		close(c.told)
	}
}
