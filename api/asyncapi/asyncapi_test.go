package asyncapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
)

var update = flag.Bool("update", false, "write generated files anew")

const path = "../../docs/asyncapi.json"

// TestDocument: the document in docs is the one that the types give.
func TestDocument(t *testing.T) {
	want, err := asyncapi.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/asyncapi.json is not what the types give (go test ./api/asyncapi -update): %v", err)
	}
}

func compile(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("schema.json")
}

// TestSchemasAgreeWithDecoding: a field that the schema does not know is refused
// by decoding, for every command and query. Empty messages pass or fail both, for
// the same missing fields.
func TestSchemasAgreeWithDecoding(t *testing.T) {
	requests := map[string]any{}
	for name, empty := range commands.Registry {
		requests[name] = empty()
	}
	for name, empty := range wire.Queries {
		requests[name] = empty()
	}
	for name, request := range requests {
		schema := compile(t, asyncapi.RequestSchema(request))
		encoded, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(encoded, &fields); err != nil {
			t.Fatal(err)
		}
		fields["colour"] = "red"
		unknown, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(fields) == nil || encoding.Decode(unknown, encoding.TypeJSON, request) == nil {
			t.Errorf("%s: an unknown field is let through", name)
		}
	}
}
