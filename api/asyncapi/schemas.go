package asyncapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

// vocabulary holds the comments about the types of messages, because a program
// cannot read its own source. `go test ./api/asyncapi -update` makes it.
// It is read when it is first needed: most runs of the program never need it.
var vocabulary = sync.OnceValue(func() (v Vocabulary) {
	if err := json.Unmarshal(vocabularyFile, &v); err != nil {
		panic(err) // a mistake in the file
	}
	return v
})

//go:embed vocabulary.json
var vocabularyFile []byte

// Vocabulary describes types, their fields, and the codes of rejections.
type Vocabulary struct {
	// Comments are by PACKAGE.TYPE and PACKAGE.TYPE.FIELD, in Go's names.
	Comments map[string]string `json:"comments"`
	Codes    []CodeMeaning     `json:"codes"`
}

// CodeMeaning is a code of rejections with its meaning, which is empty if the
// code says it all.
type CodeMeaning struct {
	Code  demand.Code `json:"code"`
	Means string      `json:"means,omitempty"`
}

// Schemas collects the JSON schemas of types for an API description: each schema
// is there once, by name, and others refer to it.
type Schemas struct {
	named map[string]any
	types map[string]reflect.Type
}

// NewSchemas returns an empty collection.
func NewSchemas() *Schemas {
	return &Schemas{named: make(map[string]any), types: make(map[string]reflect.Type)}
}

// schemaPath is where AsyncAPI and OpenAPI documents have their schemas.
const schemaPath = "#/components/schemas/"

// Add adds a schema that was made by hand.
func (s *Schemas) Add(name string, schema any) { s.named[name] = schema }

// Components returns the collected schemas by name.
func (s *Schemas) Components() map[string]any { return s.named }

// Request returns the schema of what clients send, which permits no unknown
// members.
func (s *Schemas) Request(value any) (map[string]any, error) { return s.reflect(value, false) }

// Reply returns the schema of what clients get. Newer servers may add members.
func (s *Schemas) Reply(value any) (map[string]any, error) { return s.reflect(value, true) }

func (s *Schemas) reflect(value any, open bool) (map[string]any, error) {
	r := reflector(open)
	r.CommentMap = vocabulary().Comments
	r.Namer = func(t reflect.Type) string { return s.name(t, open) }
	encoded, err := ledger.PlainJSON(r.Reflect(value))
	if err != nil {
		return nil, fmt.Errorf("schema of %T: %w", value, err)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(encoded), `"#/$defs/`, `"`+schemaPath)), &schema); err != nil {
		return nil, fmt.Errorf("schema of %T: %w", value, err)
	}
	if parts, ok := schema["$defs"].(map[string]any); ok {
		for name, part := range parts {
			s.named[name] = enumerate(name, part)
		}
	}
	delete(schema, "$defs")
	delete(schema, "$schema")
	return schema, nil
}

// name gives each type its own name. The schemas for sending and for receiving
// the same type differ, because only the latter permits unknown members.
func (s *Schemas) name(t reflect.Type, open bool) string {
	if t.PkgPath() == "" {
		return t.Name() // Go's own
	}
	name := plainName(t)
	if _, isQuery := reflect.New(t).Interface().(wire.Query); !open && !isQuery {
		if _, isCommand := reflect.New(t).Interface().(commands.Command); !isCommand {
			name += "Input"
		}
	}
	if known, taken := s.types[name]; taken && known != t {
		path := strings.Split(t.PkgPath(), "/")
		of := path[len(path)-1]
		name = strings.ToUpper(of[:1]) + of[1:] + name
	}
	s.types[name] = t
	return name
}

// plainName returns a type's name without packages: Answer[[]wire.Usage] is
// UsageListAnswer.
func plainName(t reflect.Type) string {
	outer, inner, generic := strings.Cut(t.Name(), "[")
	if !generic {
		return outer
	}
	inner = strings.TrimSuffix(inner, "]")
	list := strings.HasPrefix(inner, "[]")
	inner = inner[strings.LastIndexByte(inner, '.')+1:]
	if list {
		inner += "List"
	}
	return inner + outer
}

// enumerated are the members with a fixed list of values, by type and member.
var enumerated = map[string]map[string]func() []any{
	"EventLine":    {"kind": func() []any { return anyOf(ledger.EventKinds()) }},
	"HistoryQuery": {"of": func() []any { return anyOf(wire.Subjects) }},
	"Rejection":    {"code": rejectionCodes},
	"Error":        {"code": func() []any { return anyOf(wire.ErrorCodes) }},
}

// enumerate adds the values of such members to a schema.
func enumerate(name string, schema any) any {
	whole, _ := schema.(map[string]any)
	members, _ := whole["properties"].(map[string]any)
	for member, values := range enumerated[name] {
		one, ok := members[member].(map[string]any)
		if !ok {
			panic("asyncapi: " + name + " has no member " + member) // a mistake in the table above
		}
		one["enum"] = values()
	}
	return schema
}

func rejectionCodes() []any {
	list := make([]any, 0, len(vocabulary().Codes))
	for _, one := range vocabulary().Codes {
		list = append(list, string(one.Code))
	}
	return list
}

func anyOf(values []string) []any {
	list := make([]any, len(values))
	for i, value := range values {
		list[i] = value
	}
	return list
}

// reflector makes schemas. Closed ones permit no unknown members.
func reflector(open bool) *jsonschema.Reflector {
	return &jsonschema.Reflector{
		Anonymous: true, AllowAdditionalProperties: open,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			switch t {
			case reflect.TypeFor[ledger.Document](), reflect.TypeFor[encoding.Body]():
				return &jsonschema.Schema{Type: "object"}
			case reflect.TypeFor[commands.PatchValue]():
				return &jsonschema.Schema{} // any value
			case reflect.TypeFor[demand.SpreadOver]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, {Type: "string"}}}
			case reflect.TypeFor[wire.Instant]():
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer", Minimum: "0"}}}
			case reflect.TypeFor[int64](), reflect.TypeFor[uint64]():
				return &jsonschema.Schema{Type: "integer", Format: t.Name()} // some languages read such numbers inexactly
			case reflect.TypeFor[ledger.UUID]():
				return &jsonschema.Schema{Type: "string", Format: "uuid"}
			case reflect.TypeFor[time.Time]():
				return &jsonschema.Schema{Type: "string", Format: "date-time"}
			}
			return nil
		},
	}
}
