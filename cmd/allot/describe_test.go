package main_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestDescriptions holds what the server says of its doors to the standards
// that it names, and makes clients from it.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	rest := []byte(s.Must(http.StatusOK, "GET", "/openapi.json", ""))
	nats := []byte(s.Must(http.StatusOK, "GET", "/asyncapi.json", ""))
	t.Run("OpenAPI is sound", func(t *testing.T) { lintOpenAPI(t, rest) })
	t.Run("AsyncAPI is sound", func(t *testing.T) { checkAsyncAPI(t, nats) })
	for _, session := range []string{"rest_session.py", "nats_session.py"} {
		t.Run(session, func(t *testing.T) {
			python, err := exec.LookPath("python3")
			if err != nil {
				t.Skip("skipped: there is no python3")
			}
			out, err := exec.Command(python, "testdata/api/"+session, "http://"+s.HTTP, address).CombinedOutput()
			if err != nil || string(out) != "fine\n" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// lintOpenAPI has redocly judge the document by its recommended rules.
func lintOpenAPI(t *testing.T, document []byte) {
	const redocly = "testdata/api/node_modules/.bin/redocly"
	if _, err := os.Stat(redocly); err != nil {
		t.Skip("skipped: redocly is not installed (npm ci in cmd/allot/testdata/api)")
	}
	file := filepath.Join(t.TempDir(), "openapi.json")
	lint := func(document []byte) (string, error) {
		must(t, os.WriteFile(file, document, 0o600))
		cmd := exec.Command(redocly, "lint", file, "--format=github-actions", "--max-problems=1000")
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if said, err := lint(document); err != nil || strings.Contains(said, "::warning") {
		t.Errorf("redocly: %v\n%s", err, said)
	}
	twice := bytes.Replace(document, []byte(`"showProviderUsages"`), []byte(`"showProvider"`), 1)
	if said, err := lint(twice); err == nil {
		t.Errorf("redocly lets two operations have one id:\n%s", said)
	}
}

// checkAsyncAPI compares the document with AsyncAPI's own schema.
func checkAsyncAPI(t *testing.T, document []byte) {
	file, err := os.Open("testdata/api/node_modules/@asyncapi/specs/schemas/3.0.0.json")
	if err != nil {
		t.Skip("skipped: AsyncAPI's schemas are not installed (npm ci in cmd/allot/testdata/api)")
	}
	defer func() { _ = file.Close() }() // it was only read
	source, err := jsonschema.UnmarshalJSON(file)
	must(t, err)
	compiler := jsonschema.NewCompiler()
	must(t, compiler.AddResource("asyncapi.json", source))
	standard, err := compiler.Compile("asyncapi.json")
	must(t, err)
	said, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	must(t, err)
	if err := standard.Validate(said); err != nil {
		t.Errorf("%#v", err)
	}
	said.(map[string]any)["operations"].(map[string]any)["CreateProvider"].(map[string]any)["action"] = "shout"
	if standard.Validate(said) == nil {
		t.Error("AsyncAPI's schema lets any action through")
	}
}
