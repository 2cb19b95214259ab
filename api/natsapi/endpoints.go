package natsapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// bodies are empty values of what an endpoint takes and answers.
type bodies struct{ request, reply any }

func (s *Service) addEndpoints() error {
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		empty := commands.Registry[name]
		takes := bodies{empty(), wire.Reply{}}
		if err := s.endpoint("command-"+name, wire.CommandPrefix+"."+name, s.command(empty), takes); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		kind := wire.Queries[name]
		takes := bodies{kind.Empty(), kind.Answer}
		if err := s.endpoint("query-"+name, wire.QueryPrefix+"."+name, s.query(kind.Empty), takes); err != nil {
			return err
		}
	}
	return s.endpoint("batch", wire.BatchSubject, s.batch(), bodies{wire.Batch{}, wire.BatchReply{}})
}

// fromAny begins the subjects on which requests of all clients come in.
const fromAny = wire.DoorPrefix + ".*."

// endpoint adds an endpoint, which $SRV.INFO shows with the schemas of its bodies.
func (s *Service) endpoint(name, subject string, h micro.Handler, takes bodies) (err error) {
	var metadata map[string]string
	s.bodies[name] = takes
	if s.cfg.Direct { // the library answers INFO
		if metadata, err = takes.schemas(); err != nil {
			return err
		}
	}
	if !s.cfg.Direct {
		subject = fromAny + subject
	}
	err = s.micro.AddEndpoint(name, h,
		micro.WithEndpointMetadata(metadata),
		micro.WithEndpointSubject(subject),
		micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", name, err)
	}
	return nil
}

func (b bodies) schemas() (map[string]string, error) {
	request, err := ledger.PlainJSON(asyncapi.RequestSchema(b.request))
	if err != nil {
		return nil, fmt.Errorf("schema of %T: %w", b.request, err)
	}
	reply, err := ledger.PlainJSON(asyncapi.ReplySchema(b.reply))
	if err != nil {
		return nil, fmt.Errorf("schema of %T: %w", b.reply, err)
	}
	return map[string]string{"request_schema": string(request), "reply_schema": string(reply)}, nil
}

// describe makes the answer to INFO. Schemas take longer than all else at a start, and few
// clients ask for them, so they are made here.
func (s *Service) describe() (_ []byte, err error) {
	info := s.micro.Info()
	for i := range info.Endpoints {
		e := &info.Endpoints[i]
		e.Subject = strings.TrimPrefix(e.Subject, fromAny)
		if e.Metadata, err = s.bodies[e.Name].schemas(); err != nil {
			return nil, err
		}
	}
	return ledger.PlainJSON(info)
}

// The library answers requests for discovery on micro.APIPrefix by itself, one after the
// other, without shares for clients. Those of clients with an account come here, where they
// wait for their turn like all other requests.

// answerDiscovery answers clients that have an account of their own.
func (s *Service) answerDiscovery() error {
	if s.cfg.Direct {
		return nil
	}
	pings := s.inTurn(Name{KindDiscovery, "ping"}, maxQueryBytes, maxQueryBytes, s.discovered)
	others := s.inTurn(Name{KindDiscovery, "describe"}, maxQueryBytes, never, s.discovered)
	sub, err := s.nc.Subscribe(fromAny+micro.APIPrefix+".>", func(m *nats.Msg) {
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
	_, asked := s.split(subject)
	tokens := strings.Split(strings.TrimPrefix(asked, micro.APIPrefix+"."), ".")
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

// statsOf are a service's figures, with the subjects that clients know.
func statsOf(service micro.Service) micro.Stats {
	stats := service.Stats()
	for _, e := range stats.Endpoints {
		e.Subject = strings.TrimPrefix(e.Subject, fromAny)
	}
	return stats
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
		body, err = ledger.PlainJSON(statsOf(s.micro))
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
