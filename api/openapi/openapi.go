// Package openapi assembles the descriptions of the REST port's APIs into one
// OpenAPI 3.1 document.
package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/rest"
)

// Object is a JSON object.
type Object = map[string]any

// Media types of bodies.
const (
	JSON  = "application/json"
	Lines = "application/x-ndjson"
	Text  = "text/plain"
	Bytes = "application/octet-stream"
)

// Operation describes a method of a path.
type Operation struct {
	Method string
	// Path has its parameters in braces.
	Path string
	// ID names the operation in clients that are made from the document.
	ID string
	// Summary describes the operation in one line.
	Summary string
	// Tag is the group in which it is shown.
	Tag string
	// Parameters are those of the query and headers. Parameters of the path
	// follow from the path.
	Parameters []Parameter
	// Common names a set of parameters that many operations have: Reads or
	// Writes.
	Common []string
	// Body is a value of the request body's type, or an Object that is its
	// schema; nil: the request has no body.
	Body any
	// Example is an example of a body.
	Example any
	// Status is the status of a success; 0: 200.
	Status int
	// Answer is like Body; nil: the answer has no body.
	Answer any
	// Media is the answer's media type; empty: JSON.
	Media string
	// Open means that the request needs no token.
	Open bool
	// Rule is the policy rule for the operation.
	Rule string
	// Failure is the name of the component that describes failures.
	Failure string
}

// Parameter describes a parameter of a query, or a header.
type Parameter struct {
	Name, In, Means string
	Schema          Object // nil: text
	Required        bool
}

// The parameters that requests to all APIs may have, by name: see common.
var (
	Reads  = []string{"at", "min_sequence", "consistency"}
	Writes = []string{"command_id", "dry_run"}
)

func common() Object {
	header := func(name, means string, schema Object) Object {
		return Object{"name": name, "in": "header", "description": means, "schema": schema}
	}
	text := Object{"type": "string"}
	return Object{
		"at": Object{
			"name": "at", "in": "query", "schema": text,
			"description": "Answer as of a commit's sequence or an RFC 3339 time; also as the header " + rest.AtHeader,
		},
		"min_sequence": header(rest.MinSequenceHeader,
			"Answer with at least this commit, such as one's own last write", Object{"type": "integer", "minimum": 0}),
		"consistency": header(rest.ConsistencyHeader,
			"stale: answer with what this server holds, at once", Object{"type": "string", "enum": []any{rest.Stale}}),
		"command_id": header(rest.CommandIDHeader,
			"Names the command: the same id again gets the first result, and nothing happens twice",
			Object{"type": "string", "format": "uuid"}),
		"dry_run": Object{
			"name": "dry_run", "in": "query", "schema": Object{"type": "string", "enum": []any{"true", "false"}},
			"description": "true: answer what would happen, record nothing",
		},
	}
}

// Document is an OpenAPI document that is being made.
type Document struct {
	info       Object
	paths      Object
	schemas    *asyncapi.Schemas
	components map[string]Object // except schemas, by kind
	tags       []any
	ids        map[string]string // the operations by ID
}

// New begins a document.
func New(title, version, description string) *Document {
	return &Document{
		info: Object{
			"title": title, "version": version, "description": description,
			"license": Object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		paths: Object{}, schemas: asyncapi.NewSchemas(), ids: make(map[string]string),
		components: map[string]Object{
			"parameters": common(), "responses": {},
			"securitySchemes": {"token": Object{"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
		},
	}
}

// Tag describes a group of operations.
func (d *Document) Tag(name, description string) {
	d.tags = append(d.tags, Object{"name": name, "description": description})
}

// Failure describes failures, for operations to name.
func (d *Document) Failure(name, description, media string, body any) error {
	schema, err := d.schema(body, d.schemas.Reply)
	d.components["responses"][name] = Object{
		"description": description,
		"content":     Object{media: Object{"schema": schema}},
	}
	return err
}

// Add adds operations.
func (d *Document) Add(operations ...Operation) error {
	var errs []error
	for _, op := range operations {
		described, err := d.describe(&op)
		if err != nil {
			errs = append(errs, fmt.Errorf("openapi: %s %s: %w", op.Method, op.Path, err))
			continue
		}
		errs = append(errs, d.Put(op.Method, op.Path, described))
	}
	return errors.Join(errs...)
}

// Put adds an operation that is described. No other operation may have its place or ID.
func (d *Document) Put(method, path string, described Object) error {
	where := method + " " + path
	id, _ := described["operationId"].(string)
	if other, taken := d.ids[id]; taken || id == "" {
		return fmt.Errorf("openapi: %s has the id %q, which is empty or that of %s", where, id, other)
	}
	d.ids[id] = where
	item, known := d.paths[path].(Object)
	if !known {
		item = Object{}
		if parameters := pathParameters(path); parameters != nil {
			item["parameters"] = parameters
		}
		d.paths[path] = item
	}
	if _, twice := item[strings.ToLower(method)]; twice {
		return fmt.Errorf("openapi: %s is described twice", where)
	}
	item[strings.ToLower(method)] = described
	return nil
}

// pathParameters describes the parameters of a path, such as {uuid}; nil: it has
// none.
func pathParameters(path string) (list []any) {
	for segment := range strings.SplitSeq(path, "/") {
		if name, is := strings.CutPrefix(segment, "{"); is {
			list = append(list, Object{
				"name": strings.TrimSuffix(name, "}"),
				"in":   "path", "required": true, "schema": Object{"type": "string"},
			})
		}
	}
	return list
}

func (d *Document) describe(op *Operation) (Object, error) {
	answered, err := d.answer(op)
	if err != nil {
		return nil, err
	}
	failed := Object{"$ref": "#/components/responses/" + op.Failure}
	status := op.Status
	if status == 0 {
		status = http.StatusOK
	}
	described := Object{
		"operationId": op.ID, "summary": op.Summary, "tags": []any{op.Tag},
		"responses": Object{fmt.Sprint(status): answered, "4XX": failed, "5XX": failed},
	}
	if op.Open {
		described["security"] = []any{}
	}
	if op.Rule != "" {
		described["x-allot-policy"] = op.Rule
	}
	parameters := describeParameters(op.Parameters)
	for _, name := range op.Common {
		parameters = append(parameters, Object{"$ref": "#/components/parameters/" + name})
	}
	if parameters != nil {
		described["parameters"] = parameters
	}
	if op.Body == nil {
		return described, nil
	}
	schema, err := d.schema(op.Body, d.schemas.Request)
	if err != nil {
		return nil, err
	}
	media := Object{"schema": schema}
	if op.Example != nil {
		media["example"] = op.Example
	}
	described["requestBody"] = Object{"required": true, "content": Object{JSON: media}}
	return described, nil
}

func (d *Document) answer(op *Operation) (Object, error) {
	answered := Object{"description": http.StatusText(max(op.Status, http.StatusOK))}
	if op.Answer == nil {
		return answered, nil
	}
	schema, err := d.schema(op.Answer, d.schemas.Reply)
	if err != nil {
		return nil, err
	}
	media := op.Media
	if media == "" {
		media = JSON
	}
	answered["content"] = Object{media: Object{"schema": schema}}
	return answered, nil
}

// schema returns the schema of a type, or one that was made by hand.
func (d *Document) schema(body any, of func(any) (map[string]any, error)) (any, error) {
	if made, byHand := body.(Object); byHand {
		return made, nil
	}
	return of(body)
}

func describeParameters(parameters []Parameter) (list []any) {
	for _, p := range parameters {
		schema := p.Schema
		if schema == nil {
			schema = Object{"type": "string"}
		}
		list = append(list, Object{
			"name": p.Name, "in": p.In, "description": p.Means, "required": p.Required, "schema": schema,
		})
	}
	return list
}

// Schema names a schema that was made by hand, and returns a reference to it.
func (d *Document) Schema(name string, schema Object) Object {
	d.schemas.Add(name, schema)
	return Object{"$ref": "#/components/schemas/" + name}
}

// Object returns the whole document.
func (d *Document) Object() Object {
	components := Object{"schemas": d.schemas.Components()}
	for kind, named := range d.components {
		components[kind] = named
	}
	return Object{
		"openapi": "3.1.0", "info": d.info, "servers": []any{Object{"url": "/"}},
		"security": []any{Object{"token": []any{}}}, "tags": d.tags, "paths": d.paths, "components": components,
	}
}
