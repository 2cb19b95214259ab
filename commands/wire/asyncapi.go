package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

type object = map[string]any

// RequestSchema returns the JSON schema of a command or query.
func RequestSchema(request any) *jsonschema.Schema { return schemaOf(request, false) }

// ReplySchema returns the JSON schema of a reply to commands.
func ReplySchema() *jsonschema.Schema { return schemaOf(Reply{}, true) }

// BatchReplySchema returns the JSON schema of a reply to a batch.
func BatchReplySchema() *jsonschema.Schema { return schemaOf(BatchReply{}, true) }

// AnswerSchema returns the JSON schema of the answer to a query.
func AnswerSchema(q Query) (*jsonschema.Schema, error) {
	switch q.(type) {
	case *AllocationsQuery:
		return schemaOf(Answer[Allocations]{}, true), nil
	case *UsagesQuery:
		return schemaOf(Answer[[]Usage]{}, true), nil
	case *ProviderQuery:
		return schemaOf(Answer[Provider]{}, true), nil
	case *NodeQuery:
		return schemaOf(Answer[Node]{}, true), nil
	case *NodeAllocationQuery:
		return schemaOf(Answer[NodeAllocation]{}, true), nil
	case *ChassisQuery:
		return schemaOf(Answer[Chassis]{}, true), nil
	case *HistoryQuery:
		return schemaOf(Answer[History]{}, true), nil
	case *CommitsQuery:
		return schemaOf(Answer[Commits]{}, true), nil
	case *CheckpointQuery:
		return schemaOf(Answer[Checkpoint]{}, true), nil
	case *HoldersQuery:
		return schemaOf(Answer[Holders]{}, true), nil
	case *RejectionsQuery:
		return schemaOf(Answer[[]RejectedCommand]{}, true), nil
	case *CandidatesQuery:
		return schemaOf(Answer[[]Candidate]{}, true), nil
	}
	return nil, fmt.Errorf("wire: query %s has no answer", q.QueryName())
}

// schemaOf reflects a type. Requests permit no other fields; replies may get
// more.
func schemaOf(value any, open bool) *jsonschema.Schema {
	r := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, ExpandedStruct: true, AllowAdditionalProperties: open,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[ledger.Document]():
				return &jsonschema.Schema{Type: "object"}
			case reflect.TypeFor[Body]():
				return &jsonschema.Schema{Type: "object"}
			case reflect.TypeFor[commands.PatchValue]():
				return &jsonschema.Schema{} // any value
			case reflect.TypeFor[Instant]():
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

// AsyncAPI returns the AsyncAPI document.
func AsyncAPI() (map[string]any, error) {
	a := asyncAPI{channels: object{}, operations: object{}}
	if err := a.requests(); err != nil {
		return nil, err
	}
	a.notices()
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Allot over NATS", "version": "1",
			"description": "Request and reply. Bodies are JSON or msgpack with the same keys; in msgpack, uuids may be 16 bytes. Times are RFC 3339 text.",
		},
		"defaultContentType": TypeJSON,
		"channels":           a.channels,
		"operations":         a.operations,
		"components":         object{"schemas": headerSchemas()},
	}, nil
}

// asyncAPI is the part of the document that is made from the types of messages.
type asyncAPI struct{ channels, operations object }

// requests describes commands, batches and queries.
func (a asyncAPI) requests() error {
	ofCommands := []any{object{"$ref": "#/components/schemas/CommandHeaders"}}
	ofQueries := []any{object{"$ref": "#/components/schemas/QueryHeaders"}}
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		a.add(CommandPrefix+"."+name, name, "Submit the command "+name,
			RequestSchema(commands.Registry[name]()), ReplySchema(), ofCommands)
	}
	a.add(BatchSubject, "Batch", "Submit many commands, each on its own or all or none",
		RequestSchema(Batch{}), BatchReplySchema(), ofCommands)
	for _, name := range slices.Sorted(maps.Keys(Queries)) {
		q := Queries[name]()
		answer, err := AnswerSchema(q)
		if err != nil {
			return err
		}
		a.add(QueryPrefix+"."+name, name+"Query", "Ask the query "+name, RequestSchema(q), answer, ofQueries)
	}
	return nil
}

// add describes a request and its reply.
func (a asyncAPI) add(subject, name, summary string, request, reply *jsonschema.Schema, headers []any) {
	a.channels[name] = object{"address": subject, "messages": object{"request": object{
		"headers": object{"type": "object", "properties": object{}, "allOf": headers}, "payload": request,
	}}}
	a.channels[name+"Reply"] = object{"address": nil, "messages": object{"reply": object{
		"headers": object{"$ref": "#/components/schemas/ReplyHeaders"}, "payload": reply,
	}}}
	a.operations[name] = object{
		"action": "receive", "summary": summary,
		"channel":  object{"$ref": "#/channels/" + name},
		"messages": []any{object{"$ref": "#/channels/" + name + "/messages/request"}},
		"reply": object{
			"channel": object{"$ref": "#/channels/" + name + "Reply"},
			"address": object{"location": "$message.header#/Nats-Reply", "description": "NATS's own reply subject"},
		},
	}
}

// notices describes messages without a request.
func (a asyncAPI) notices() {
	a.tell("Notice", NoticePrefix+".{of}.{name}", "What a record changed: one message for each thing that it touched", object{
		"payload": schemaOf(HistoryEntry{}, true), "headers": object{"$ref": "#/components/schemas/NoticeHeaders"},
	})
	a.channels["Notice"].(object)["parameters"] = object{
		"of":   object{"enum": []any{OfConsumer, OfProvider, OfProject, OfUser, OfNode, OfNodeAllocation, OfChassis}},
		"name": object{"description": "uuid or id; every character but letters, digits, - and _ as %XX"},
	}
	a.tell("Heartbeat", HeartbeatSubject, "How far the ledger is; another mark: notices were left out, read the history",
		object{"payload": schemaOf(Heartbeat{}, true)})
}

func (a asyncAPI) tell(name, subject, summary string, message object) {
	a.channels[name] = object{"address": subject, "messages": object{"notice": message}}
	a.operations[name] = object{
		"action": "send", "summary": summary, "channel": object{"$ref": "#/channels/" + name},
		"messages": []any{object{"$ref": "#/channels/" + name + "/messages/notice"}},
	}
}

func headerSchemas() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	contentType := object{"type": "string", "enum": []any{TypeJSON, TypeMsgpack}, "default": TypeJSON}
	return object{
		"CommandHeaders": object{"type": "object", "properties": object{
			HeaderContentType: contentType,
			HeaderCommandID:   text("a uuid; required but for dry runs: the same id again gives the first result"),
			HeaderRequestID:   text("kept in the record"),
			HeaderDryRun:      text("true: say what would happen, record nothing"),
		}},
		"NoticeHeaders": object{
			"type":        "object",
			"description": "CloudEvents 1.0, binary content mode",
			"properties": object{
				HeaderContentType: object{"const": TypeJSON}, HeaderEventSpec: object{"const": "1.0"},
				HeaderEventID: text("SEQUENCE.INDEX of the record"), HeaderEventSource: text("/allot/LEDGER"),
				HeaderEventType: text(NoticeType + "COMMAND"), HeaderEventTime: text("RFC 3339; when the record was decided"),
				HeaderEventSubject: text("OF/NAME"), HeaderNoticeMark: text("changes when notices were left out"),
			},
		},
		"QueryHeaders": object{"type": "object", "properties": object{HeaderContentType: contentType}},
		"ReplyHeaders": object{"type": "object", "properties": object{
			HeaderContentType:         contentType,
			"Nats-Service-Error":      text("code and message of a rejection or error"),
			"Nats-Service-Error-Code": text("400, 404, 409 (rejected), 413, 500 or 503"),
		}},
	}
}

// EncodeAsyncAPI returns the document as it is in docs/asyncapi.json.
func EncodeAsyncAPI() ([]byte, error) {
	document, err := AsyncAPI()
	if err != nil {
		return nil, err
	}
	encoded, err := json.MarshalIndent(document, "", " ")
	return append(encoded, '\n'), err
}
