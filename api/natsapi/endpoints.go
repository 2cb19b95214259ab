package natsapi

import (
	"fmt"
	"maps"
	"slices"

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

// endpoint adds an endpoint, which $SRV.INFO shows with the schemas of its bodies.
func (s *Service) endpoint(name, subject string, h micro.Handler, takes bodies) (err error) {
	var metadata map[string]string
	s.bodies[name] = takes
	if s.cfg.Direct { // the library answers INFO
		if metadata, err = takes.schemas(); err != nil {
			return err
		}
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
		if e.Metadata, err = s.bodies[e.Name].schemas(); err != nil {
			return nil, err
		}
	}
	return ledger.PlainJSON(info)
}
