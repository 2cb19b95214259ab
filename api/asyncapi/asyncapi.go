// Package asyncapi describes what travels over NATS, as AsyncAPI, and the types of all APIs, as JSON
// schemas. Clients do without it.
package asyncapi

import (
	"errors"
	"maps"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
)

type object = map[string]any

// RequestSchema returns the JSON schema of a command or query.
func RequestSchema(request any) *jsonschema.Schema { return schemaOf(request, false) }

// ReplySchema returns the JSON schema of a reply, or of the answer to a query.
func ReplySchema(reply any) *jsonschema.Schema { return schemaOf(reply, true) }

// schemaOf reflects a type as a single, complete schema. Requests permit no other
// fields; replies may get more.
func schemaOf(value any, open bool) *jsonschema.Schema {
	r := reflector(open)
	r.DoNotReference, r.ExpandedStruct = true, true
	s := r.Reflect(value)
	s.Version = ""
	return s
}

// Document returns the AsyncAPI document.
func Document() (map[string]any, error) {
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
				"Times are RFC 3339 text. Integers of the formats int64 and uint64 may be too large for a float64.",
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

func (a asyncAPI) requests() error {
	errs := []error{a.reply("CommandReply", wire.Reply{}), a.reply("BatchReply", wire.BatchReply{})}
	for _, name := range slices.Sorted(maps.Keys(commands.Registry)) {
		errs = append(errs, a.add(request{
			name: name, subject: wire.CommandPrefix + "." + name, summary: "Submit the command " + name,
			body: commands.Registry[name](), headers: "CommandHeaders", reply: "CommandReply",
		}))
	}
	errs = append(errs, a.add(request{
		name: "Batch", subject: wire.BatchSubject, summary: "Submit many commands, each on its own or all or none",
		body: wire.Batch{}, headers: "CommandHeaders", reply: "BatchReply",
	}))
	for _, name := range slices.Sorted(maps.Keys(wire.Queries)) {
		kind := wire.Queries[name]
		errs = append(errs, a.reply(name+"Answer", kind.Answer), a.add(request{
			name: name + "Query", subject: wire.QueryPrefix + "." + name, summary: "Ask the query " + name,
			body: kind.Empty(), headers: "QueryHeaders", reply: name + "Answer",
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
	entry, err := a.schemas.Reply(wire.HistoryEntry{})
	beat, beatErr := a.schemas.Reply(wire.Heartbeat{})
	a.tell("Notice", wire.NoticePrefix+".{of}.{name}", "What a record changed: one message for each thing that it touched", object{
		"payload": entry, "headers": object{"$ref": schemaPath + "NoticeHeaders"},
	})
	a.channels["Notice"].(object)["parameters"] = object{
		"of": object{"enum": []any{
			wire.OfConsumer, wire.OfProvider, wire.OfProject, wire.OfUser, wire.OfNode, wire.OfNodeAllocation, wire.OfChassis,
		}},
		"name": object{"description": "uuid or id; every character but letters, digits, - and _ as %XX"},
	}
	a.tell("Heartbeat", wire.HeartbeatSubject, "How far the ledger is; another mark: notices were left out, read the history",
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
			wire.HeaderContentType: contentType,
			wire.HeaderCommandID:   text("a uuid; required but for dry runs: the same id again gives the first result"),
			wire.HeaderRequestID:   text("kept in the record"),
			wire.HeaderDryRun:      text("true: say what would happen, record nothing"),
			wire.HeaderTraceParent: text(traceParentMeans),
			wire.HeaderTraceState:  text(traceStateMeans),
		}},
		"NoticeHeaders": object{
			"type":        "object",
			"description": "CloudEvents 1.0, binary content mode",
			"properties": object{
				wire.HeaderContentType: object{"const": encoding.TypeJSON}, wire.HeaderEventSpec: object{"const": "1.0"},
				wire.HeaderEventID: text("SEQUENCE.INDEX of the record"), wire.HeaderEventSource: text("/allot/LEDGER"),
				wire.HeaderEventType:    text(wire.NoticeType + "COMMAND"),
				wire.HeaderEventTime:    text("RFC 3339; when the record was decided"),
				wire.HeaderEventSubject: text("OF/NAME"), wire.HeaderNoticeMark: text("changes when notices were left out"),
			},
		},
		"QueryHeaders": object{"type": "object", "properties": object{
			wire.HeaderContentType: contentType,
			wire.HeaderTraceParent: text(traceParentMeans),
			wire.HeaderTraceState:  text(traceStateMeans),
		}},
		"ReplyHeaders": object{"type": "object", "properties": object{
			wire.HeaderContentType:    contentType,
			wire.HeaderSequence:       text("the commit up to which the reply holds: the min_sequence of a query that is to see what led to it"),
			wire.HeaderTraceParent:    text("W3C Trace Context: the server's span, if the request is recorded"),
			"Nats-Service-Error":      text("code and message of a rejection or error"),
			"Nats-Service-Error-Code": text("400, 404, 409 (rejected), 413, 500 or 503"),
		}},
	}
}
