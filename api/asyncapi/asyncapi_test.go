package asyncapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// isMade checks that a file is what it is made of, and makes it with -update.
func isMade(t *testing.T, path string, want []byte) {
	t.Helper()
	if ledgertest.Updating() {
		ledgertest.OK(t, os.WriteFile(path, want, 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the source says (go test ./api/asyncapi -update, twice): %v", path, err)
	}
}

// TestDocument: the document in docs is the one that the types give.
func TestDocument(t *testing.T) {
	document, err := asyncapi.Document()
	text, unwritten := json.MarshalIndent(document, "", " ")
	ledgertest.OK(t, errors.Join(err, unwritten))
	isMade(t, "../../docs/asyncapi.json", append(text, '\n'))
}

// through is a value as it is read from JSON.
func through[T any](t *testing.T, value any) (read T) {
	t.Helper()
	text, err := json.Marshal(value)
	ledgertest.OK(t, err)
	ledgertest.OK(t, json.Unmarshal(text, &read))
	return read
}

func compile(t *testing.T, schema any) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	ledgertest.OK(t, compiler.AddResource("schema.json", through[any](t, schema)))
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
	for name, kind := range wire.Queries {
		requests[name] = kind.Empty()
	}
	for name, request := range requests {
		schema := compile(t, asyncapi.RequestSchema(request))
		fields := through[map[string]any](t, request)
		fields["colour"] = "red"
		unknown, err := json.Marshal(fields)
		ledgertest.OK(t, err)
		if schema.Validate(fields) == nil || encoding.Decode(unknown, encoding.TypeJSON, request) == nil {
			t.Errorf("%s: an unknown field is let through", name)
		}
	}
}
