package natsapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

func (s *Service) addEndpoints() error {
	reply := wire.ReplySchema()
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		empty := commands.Registry[name]
		if err := s.endpoint(wire.CommandPrefix, name, s.command(empty), wire.RequestSchema(empty()), reply); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		q := wire.Queries[name]()
		answer, err := wire.AnswerSchema(q)
		if err == nil {
			err = s.endpoint(wire.QueryPrefix, name, s.query(wire.Queries[name]), wire.RequestSchema(q), answer)
		}
		if err != nil {
			return err
		}
	}
	return s.endpointAt("batch", wire.BatchSubject, s.batch(), wire.RequestSchema(wire.Batch{}), wire.BatchReplySchema())
}

// endpoint adds an endpoint, which $SRV.INFO shows with the schemas of its
// bodies.
func (s *Service) endpoint(prefix, name string, h micro.Handler, request, reply any) error {
	return s.endpointAt(strings.TrimPrefix(prefix, "allot.")+"-"+name, prefix+"."+name, h, request, reply)
}

func (s *Service) endpointAt(name, subject string, h micro.Handler, request, reply any) error {
	metadata := make(map[string]string, 2)
	for key, schema := range map[string]any{"request_schema": request, "reply_schema": reply} {
		encoded, err := ledger.PlainJSON(schema)
		if err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}
		metadata[key] = string(encoded)
	}
	err := s.micro.AddEndpoint(name, h,
		micro.WithEndpointMetadata(metadata),
		micro.WithEndpointSubject(subject),
		micro.WithEndpointPendingLimits(pendingMessages, pendingBytes))
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", name, err)
	}
	return nil
}
