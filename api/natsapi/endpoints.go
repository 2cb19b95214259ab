package natsapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// bodies make the schemas of what an endpoint takes and answers.
type bodies func() (request, reply any, err error)

func (s *Service) addEndpoints() error {
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		empty := commands.Registry[name]
		schemas := func() (any, any, error) { return asyncapi.RequestSchema(empty()), asyncapi.ReplySchema(), nil }
		if err := s.endpoint(wire.CommandPrefix, name, s.command(empty), schemas); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		empty := wire.Queries[name]
		schemas := func() (any, any, error) {
			q := empty()
			answer, err := asyncapi.AnswerSchema(q)
			return asyncapi.RequestSchema(q), answer, err
		}
		if err := s.endpoint(wire.QueryPrefix, name, s.query(empty), schemas); err != nil {
			return err
		}
	}
	return s.endpointAt("batch", wire.BatchSubject, s.batch(), func() (any, any, error) {
		return asyncapi.RequestSchema(wire.Batch{}), asyncapi.BatchReplySchema(), nil
	})
}

// endpoint adds an endpoint, which $SRV.INFO shows with the schemas of its
// bodies.
func (s *Service) endpoint(prefix, name string, h micro.Handler, schemas bodies) error {
	return s.endpointAt(strings.TrimPrefix(prefix, "allot.")+"-"+name, prefix+"."+name, h, schemas)
}

func (s *Service) endpointAt(name, subject string, h micro.Handler, schemas bodies) (err error) {
	var metadata map[string]string
	s.schemas[name] = schemas
	if s.direct { // the library answers INFO
		if metadata, err = encode(name, schemas); err != nil {
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

// encode returns the metadata of an endpoint.
func encode(name string, schemas bodies) (map[string]string, error) {
	request, reply, err := schemas()
	metadata := make(map[string]string, 2)
	for key, schema := range map[string]any{"request_schema": request, "reply_schema": reply} {
		encoded, failed := ledger.PlainJSON(schema)
		if err = errors.Join(err, failed); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		metadata[key] = string(encoded)
	}
	return metadata, nil
}

// describe makes the answer to INFO. Schemas take longer than all else at a start, and few
// clients ask for them, so they are made here.
func (s *Service) describe() (_ []byte, err error) {
	info := s.micro.Info()
	for i := range info.Endpoints {
		e := &info.Endpoints[i]
		if e.Metadata, err = encode(e.Name, s.schemas[e.Name]); err != nil {
			return nil, err
		}
	}
	return ledger.PlainJSON(info)
}
