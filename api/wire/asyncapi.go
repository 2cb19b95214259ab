package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
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
	answer, err := answerTo(q)
	if err != nil {
		return nil, err
	}
	return schemaOf(answer, true), nil
}

// answerTo is an empty answer to a query.
func answerTo(q Query) (any, error) {
	switch q.(type) {
	case *AllocationsQuery:
		return Answer[Allocations]{}, nil
	case *UsagesQuery:
		return Answer[[]Usage]{}, nil
	case *ProviderQuery:
		return Answer[Provider]{}, nil
	case *NodeQuery:
		return Answer[Node]{}, nil
	case *NodeAllocationQuery:
		return Answer[NodeAllocation]{}, nil
	case *ChassisQuery:
		return Answer[Chassis]{}, nil
	case *HistoryQuery:
		return Answer[History]{}, nil
	case *CommitsQuery:
		return Answer[Commits]{}, nil
	case *CheckpointQuery:
		return Answer[Checkpoint]{}, nil
	case *ConsumptionQuery:
		return Answer[Consumption]{}, nil
	case *HoldersQuery:
		return Answer[Holders]{}, nil
	case *RejectionsQuery:
		return Answer[[]RejectedCommand]{}, nil
	case *CandidatesQuery:
		return Answer[[]Candidate]{}, nil
	case *CapacityQuery:
		return Answer[Capacity]{}, nil
	}
	return nil, fmt.Errorf("wire: query %s has no answer", NameOf(q))
}

// schemaOf reflects a type as a single, complete schema. Requests permit no other
// fields; replies may get more.
func schemaOf(value any, open bool) *jsonschema.Schema {
	r := reflector(open)
	r.DoNotReference, r.ExpandedStruct = true, true
	s := r.Reflect(value)
	s.Version = ""
	return s
}

// AsyncAPI returns the AsyncAPI document.
func AsyncAPI() (map[string]any, error) {
	a := asyncAPI{channels: object{}, operations: object{}, schemas: NewSchemas()}
	if err := errors.Join(a.requests(), a.notices()); err != nil {
		return nil, err
	}
	for name, schema := range headerSchemas() {
		a.schemas.Add(name, schema)
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Allot over NATS", "version": "1",
			"description": "Request and reply. Bodies are JSON or msgpack with the same keys; in msgpack, uuids may be 16 bytes. " +
				"Times are RFC 3339 text.",
			"license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"servers": object{"ledger": object{
			"host": "127.0.0.1:4222", "protocol": "nats",
			"description": "Where allot serve --nats listens; the default is shown. Users are those of --nats-users.",
		}},
		"defaultContentType": encoding.TypeJSON,
		"channels":           a.channels,
		"operations":         a.operations,
		"components":         object{"schemas": a.schemas.Components()},
	}, nil
}

// asyncAPI is the part of the document that is made from the types of messages.
type asyncAPI struct {
	channels, operations object
	schemas              *Schemas
}

// requests describes commands, batches and queries.
func (a asyncAPI) requests() error {
	errs := []error{a.reply("CommandReply", Reply{}), a.reply("BatchReply", BatchReply{})}
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		errs = append(errs, a.add(request{
			name: name, subject: CommandPrefix + "." + name, summary: "Submit the command " + name,
			body: commands.Registry[name](), headers: "CommandHeaders", reply: "CommandReply",
		}))
	}
	errs = append(errs, a.add(request{
		name: "Batch", subject: BatchSubject, summary: "Submit many commands, each on its own or all or none",
		body: Batch{}, headers: "CommandHeaders", reply: "BatchReply",
	}))
	for _, name := range slices.Sorted(maps.Keys(Queries)) {
		q := Queries[name]()
		answer, err := answerTo(q)
		errs = append(errs, err, a.reply(name+"Answer", answer), a.add(request{
			name: name + "Query", subject: QueryPrefix + "." + name, summary: "Ask the query " + name,
			body: q, headers: "QueryHeaders", reply: name + "Answer",
		}))
	}
	return errors.Join(errs...)
}

// reply describes what comes back on the client's own subject.
func (a asyncAPI) reply(name string, body any) error {
	payload, err := a.schemas.Reply(body)
	a.channels[name] = object{"address": nil, "messages": object{"reply": object{
		"headers": object{"$ref": schemaPath + "ReplyHeaders"}, "payload": payload,
	}}}
	return err
}

// request is a command, batch or query as the document shows it.
type request struct {
	name, subject, summary string
	body                   any
	headers, reply         string // the names of what describes them
}

func (a asyncAPI) add(r request) error {
	payload, err := a.schemas.Request(r.body)
	a.channels[r.name] = object{"address": r.subject, "messages": object{"request": object{
		"headers": object{"$ref": schemaPath + r.headers}, "payload": payload,
	}}}
	a.operations[r.name] = object{
		"action": "receive", "summary": r.summary,
		"channel":  object{"$ref": "#/channels/" + r.name},
		"messages": []any{object{"$ref": "#/channels/" + r.name + "/messages/request"}},
		"reply": object{
			"channel": object{"$ref": "#/channels/" + r.reply},
			"address": object{"location": "$message.header#/Nats-Reply", "description": "NATS's own reply subject"},
		},
	}
	return err
}

// notices describes messages without a request.
func (a asyncAPI) notices() error {
	entry, err := a.schemas.Reply(HistoryEntry{})
	beat, beatErr := a.schemas.Reply(Heartbeat{})
	a.tell("Notice", NoticePrefix+".{of}.{name}", "What a record changed: one message for each thing that it touched", object{
		"payload": entry, "headers": object{"$ref": schemaPath + "NoticeHeaders"},
	})
	a.channels["Notice"].(object)["parameters"] = object{
		"of":   object{"enum": []any{OfConsumer, OfProvider, OfProject, OfUser, OfNode, OfNodeAllocation, OfChassis}},
		"name": object{"description": "uuid or id; every character but letters, digits, - and _ as %XX"},
	}
	a.tell("Heartbeat", HeartbeatSubject, "How far the ledger is; another mark: notices were left out, read the history",
		object{"payload": beat})
	return errors.Join(err, beatErr)
}

func (a asyncAPI) tell(name, subject, summary string, message object) {
	a.channels[name] = object{"address": subject, "messages": object{"notice": message}}
	a.operations[name] = object{
		"action": "send", "summary": summary, "channel": object{"$ref": "#/channels/" + name},
		"messages": []any{object{"$ref": "#/channels/" + name + "/messages/notice"}},
	}
}

// What the headers of W3C Trace Context are for.
const (
	traceParentMeans = "W3C Trace Context: the trace that the request belongs to; the reply has the server's span, if it is recorded"
	traceStateMeans  = "W3C Trace Context: passed on with traceparent"
)

func headerSchemas() object {
	text := func(description string) object { return object{"type": "string", "description": description} }
	contentType := object{"type": "string", "enum": []any{encoding.TypeJSON, encoding.TypeMsgpack}, "default": encoding.TypeJSON}
	return object{
		"CommandHeaders": object{"type": "object", "properties": object{
			HeaderContentType: contentType,
			HeaderCommandID:   text("a uuid; required but for dry runs: the same id again gives the first result"),
			HeaderRequestID:   text("kept in the record"),
			HeaderDryRun:      text("true: say what would happen, record nothing"),
			HeaderTraceParent: text(traceParentMeans),
			HeaderTraceState:  text(traceStateMeans),
		}},
		"NoticeHeaders": object{
			"type":        "object",
			"description": "CloudEvents 1.0, binary content mode",
			"properties": object{
				HeaderContentType: object{"const": encoding.TypeJSON}, HeaderEventSpec: object{"const": "1.0"},
				HeaderEventID: text("SEQUENCE.INDEX of the record"), HeaderEventSource: text("/allot/LEDGER"),
				HeaderEventType: text(NoticeType + "COMMAND"), HeaderEventTime: text("RFC 3339; when the record was decided"),
				HeaderEventSubject: text("OF/NAME"), HeaderNoticeMark: text("changes when notices were left out"),
			},
		},
		"QueryHeaders": object{"type": "object", "properties": object{
			HeaderContentType: contentType,
			HeaderTraceParent: text(traceParentMeans),
			HeaderTraceState:  text(traceStateMeans),
		}},
		"ReplyHeaders": object{"type": "object", "properties": object{
			HeaderContentType:         contentType,
			HeaderSequence:            text("the commit up to which the reply holds: the min_sequence of a query that is to see what led to it"),
			HeaderTraceParent:         text("W3C Trace Context: the server's span, if the request is recorded"),
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
