// Package asyncapi describes the NATS door as an AsyncAPI 3.0 document, made
// from the types that travel over it.
package asyncapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

type m = map[string]any

// RequestSchema is the JSON schema of a command or query.
func RequestSchema(request any) *jsonschema.Schema { return schemaOf(request, false) }

// ReplySchema is the JSON schema of a reply to commands.
func ReplySchema() *jsonschema.Schema { return schemaOf(wire.Reply{}, true) }

// BatchReplySchema is the JSON schema of a reply to a batch.
func BatchReplySchema() *jsonschema.Schema { return schemaOf(wire.BatchReply{}, true) }

// AnswerSchema is the JSON schema of the answer to a query.
func AnswerSchema(q wire.Query) (*jsonschema.Schema, error) {
	switch q.(type) {
	case *wire.AllocationsQuery:
		return schemaOf(wire.Answer[wire.Allocations]{}, true), nil
	case *wire.UsagesQuery:
		return schemaOf(wire.Answer[[]wire.Usage]{}, true), nil
	case *wire.ProviderQuery:
		return schemaOf(wire.Answer[wire.Provider]{}, true), nil
	case *wire.NodeQuery:
		return schemaOf(wire.Answer[wire.Node]{}, true), nil
	case *wire.NodeAllocationQuery:
		return schemaOf(wire.Answer[wire.NodeAllocation]{}, true), nil
	case *wire.ChassisQuery:
		return schemaOf(wire.Answer[wire.Chassis]{}, true), nil
	case *wire.HistoryQuery:
		return schemaOf(wire.Answer[wire.History]{}, true), nil
	case *wire.CommitsQuery:
		return schemaOf(wire.Answer[wire.Commits]{}, true), nil
	case *wire.CheckpointQuery:
		return schemaOf(wire.Answer[wire.Checkpoint]{}, true), nil
	case *wire.HoldersQuery:
		return schemaOf(wire.Answer[wire.Holders]{}, true), nil
	case *wire.RejectionsQuery:
		return schemaOf(wire.Answer[[]wire.RejectedCommand]{}, true), nil
	case *wire.CandidatesQuery:
		return schemaOf(wire.Answer[[]wire.Candidate]{}, true), nil
	}
	return nil, fmt.Errorf("asyncapi: query %s has no answer", q.QueryName())
}

// schemaOf reflects a type. Requests are closed; replies may get more fields.
func schemaOf(value any, open bool) *jsonschema.Schema {
	r := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: open,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[ledger.Document]():
				return &jsonschema.Schema{Type: "object"}
			case reflect.TypeFor[wire.Body]():
				return &jsonschema.Schema{Type: "object"}
			case reflect.TypeFor[commands.PatchValue]():
				return &jsonschema.Schema{} // any value
			case reflect.TypeFor[wire.Instant]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer", Minimum: "0"}}}
			case reflect.TypeFor[ledger.UUID]():
				return &jsonschema.Schema{Type: "string", Format: "uuid"}
			case reflect.TypeFor[time.Time]():
				return &jsonschema.Schema{Type: "string", Format: "date-time"}
			}
			return nil
		},
	}
	s := r.Reflect(value)
	s.Version = ""
	return s
}

// Document is the AsyncAPI document.
func Document() (map[string]any, error) {
	channels, operations := m{}, m{}
	add := func(subject, name, summary string, request, reply *jsonschema.Schema, headers []any) {
		channels[name] = m{
			"address":  subject,
			"messages": m{"request": m{"headers": m{"type": "object", "properties": m{}, "allOf": headers}, "payload": request}},
		}
		channels[name+"Reply"] = m{"address": nil, "messages": m{"reply": m{
			"headers": m{"$ref": "#/components/schemas/ReplyHeaders"}, "payload": reply,
		}}}
		operations[name] = m{
			"action": "receive", "summary": summary,
			"channel":  m{"$ref": "#/channels/" + name},
			"messages": []any{m{"$ref": "#/channels/" + name + "/messages/request"}},
			"reply": m{
				"channel": m{"$ref": "#/channels/" + name + "Reply"},
				"address": m{"location": "$message.header#/Nats-Reply", "description": "NATS's own reply subject"},
			},
		}
	}
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		add(wire.CommandPrefix+"."+name, name, "Submit the command "+name, RequestSchema(commands.Registry[name]()), ReplySchema(),
			[]any{m{"$ref": "#/components/schemas/CommandHeaders"}})
	}
	add(wire.BatchSubject, "Batch", "Submit many commands, each on its own or all or none", RequestSchema(wire.Batch{}), BatchReplySchema(),
		[]any{m{"$ref": "#/components/schemas/CommandHeaders"}})
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		q := wire.Queries[name]()
		answer, err := AnswerSchema(q)
		if err != nil {
			return nil, err
		}
		add(wire.QueryPrefix+"."+name, name+"Query", "Ask the query "+name, RequestSchema(q), answer,
			[]any{m{"$ref": "#/components/schemas/QueryHeaders"}})
	}
	tell := func(name, subject, summary string, parameters m, payload *jsonschema.Schema, headers m) {
		channel := m{"address": subject, "messages": m{"notice": m{"payload": payload}}}
		if parameters != nil {
			channel["parameters"] = parameters
		}
		if headers != nil {
			channel["messages"].(m)["notice"].(m)["headers"] = headers
		}
		channels[name] = channel
		operations[name] = m{
			"action": "send", "summary": summary, "channel": m{"$ref": "#/channels/" + name},
			"messages": []any{m{"$ref": "#/channels/" + name + "/messages/notice"}},
		}
	}
	tell("Notice", wire.NoticePrefix+".{of}.{name}", "What a record changed: one message for each thing that it touched", m{
		"of":   m{"enum": []any{wire.OfConsumer, wire.OfProvider, wire.OfProject, wire.OfUser, wire.OfNode, wire.OfNodeAllocation, wire.OfChassis}},
		"name": m{"description": "uuid or id; every character but letters, digits, - and _ as %XX"},
	}, schemaOf(wire.HistoryEntry{}, true), m{"$ref": "#/components/schemas/NoticeHeaders"})
	tell("Heartbeat", wire.HeartbeatSubject, "How far the ledger is; another mark: notices were left out, read the history", nil, schemaOf(wire.Heartbeat{}, true), nil)
	text := func(description string) m { return m{"type": "string", "description": description} }
	contentType := m{"type": "string", "enum": []any{wire.TypeJSON, wire.TypeMsgpack}, "default": wire.TypeJSON}
	return m{
		"asyncapi": "3.0.0",
		"info": m{
			"title": "Allot over NATS", "version": "1",
			"description": "Request and reply. Bodies are JSON or msgpack with the same keys; in msgpack, uuids may be 16 bytes. Times are RFC 3339 text.",
		},
		"defaultContentType": wire.TypeJSON,
		"channels":           channels,
		"operations":         operations,
		"components": m{"schemas": m{
			"CommandHeaders": m{"type": "object", "properties": m{
				wire.HeaderContentType: contentType,
				wire.HeaderCommandID:   text("a uuid; required but for dry runs: the same id again gives the first result"),
				wire.HeaderRequestID:   text("kept in the record"),
				wire.HeaderDryRun:      text("true: say what would happen, record nothing"),
			}},
			"NoticeHeaders": m{"type": "object", "description": "CloudEvents 1.0, binary content mode", "properties": m{
				wire.HeaderContentType:  m{"const": wire.TypeJSON},
				wire.HeaderEventSpec:    m{"const": "1.0"},
				wire.HeaderEventID:      text("SEQUENCE.INDEX of the record"),
				wire.HeaderEventSource:  text("/allot/LEDGER"),
				wire.HeaderEventType:    text(wire.NoticeType + "COMMAND"),
				wire.HeaderEventTime:    text("RFC 3339; when the record was decided"),
				wire.HeaderEventSubject: text("OF/NAME"),
				wire.HeaderNoticeMark:   text("changes when notices were left out"),
			}},
			"QueryHeaders": m{"type": "object", "properties": m{wire.HeaderContentType: contentType}},
			"ReplyHeaders": m{"type": "object", "properties": m{
				wire.HeaderContentType:    contentType,
				"Nats-Service-Error":      text("code and message of a rejection or error"),
				"Nats-Service-Error-Code": text("400, 404, 409 (rejected), 413, 500 or 503"),
			}},
		}},
	}, nil
}

// Encode is the document as it is kept in docs/asyncapi.json.
func Encode() ([]byte, error) {
	document, err := Document()
	if err != nil {
		return nil, err
	}
	encoded, err := json.MarshalIndent(document, "", " ")
	return append(encoded, '\n'), err
}
