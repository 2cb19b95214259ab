package placement_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest/resttest"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// served is the document, as a client reads it.
func served(t *testing.T) map[string]any {
	t.Helper()
	d := openapi.New("Placement", "1", "")
	err := placement.Describe(d)
	text, broken := ledger.PlainJSON(d.Object())
	doc, unread := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	ledgertest.OK(t, errors.Join(err, broken, unread))
	return doc.(map[string]any)
}

// TestOpenAPIRoutes: what the document lists is served, and nothing else is.
func TestOpenAPIRoutes(t *testing.T) {
	_, h := inMemory(t)
	paths := served(t)["paths"].(map[string]any)
	if len(paths) < 15 {
		t.Errorf("only %d paths", len(paths))
	}
	for path, item := range paths {
		var allowed []string
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			_, listed := item.(map[string]any)[strings.ToLower(method)]
			w := send(h, method, pathNames.Replace(path), "{}")
			if answered := w.Code != http.StatusMethodNotAllowed; listed != answered {
				t.Errorf("%s %s: listed %v, answered with %d", method, path, listed, w.Code)
			}
			if listed {
				allowed = append(allowed, method)
			}
		}
		allow := strings.Split(send(h, "PATCH", pathNames.Replace(path), "").Header().Get("Allow"), ", ")
		if a, b := slices.Sorted(slices.Values(allowed)), slices.Sorted(slices.Values(allow)); !slices.Equal(a, b) {
			t.Errorf("%s: %v are listed, but Allow says %v", path, a, b)
		}
	}
}

// ownPatterns are Allot's own, of which a write may ask the leader what it knows.
var ownPatterns = regexp.MustCompile("^/(claims|limits|projects|preferences|topologies)")

// TestOpenAPIAnswers validates real answers, at old and new microversions,
// against the document. On a server that follows, no write asks the leader
// anything before it submits its command, and every read asks once.
func TestOpenAPIAnswers(t *testing.T) {
	_, h := inMemory(t)
	fresh := &asked{}
	h.Fresh = fresh
	doc := served(t)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	ledgertest.OK(t, compiler.AddResource("openapi.json", doc))
	text := commandstest.Must(os.ReadFile("testdata/every_route.txt"))
	paths := doc["paths"].(map[string]any)
	left := make(map[string]bool)
	for path, item := range paths {
		for method := range item.(map[string]any) {
			left[method+" "+path] = method != "parameters"
		}
	}
	for _, x := range resttest.Exchanges(string(text)) {
		method, target := strings.ToLower(x.Method), x.Target
		path := patternOf(paths, target)
		delete(left, method+" "+path)
		versions := []string{"1.39"}
		if method == "get" {
			versions = []string{"1.39", "1.28", "1.12", "1.10", "1.0"}
		}
		for _, version := range versions {
			fresh.times = 0
			w := sendAt(h, version, x.Method, target, x.Body)
			if version != "1.39" && w.Code >= 400 {
				continue // the route is newer
			}
			if (fresh.times == 1) != (method == "get") && w.Code < 400 && !ownPatterns.MatchString(path) {
				t.Errorf("%s %s: %d after %d questions to the leader", x.Method, target, w.Code, fresh.times)
			}
			responses := paths[path].(map[string]any)[method].(map[string]any)["responses"].(map[string]any)
			pointer := "#/components/schemas/PlacementErrors"
			if w.Code < 400 {
				described, known := responses[fmt.Sprint(w.Code)].(map[string]any)
				content, _ := described["content"].(map[string]any)
				if !known || (content == nil) != (w.Body.Len() == 0) {
					t.Errorf("%s %s: %d is in the document: %v, with content %v, answered %q", x.Method, target, w.Code, known, content, w.Body)
					continue
				}
				if content == nil {
					continue
				}
				pointer = content["application/json"].(map[string]any)["schema"].(map[string]any)["$ref"].(string)
			}
			schema, err := compiler.Compile("openapi.json" + pointer)
			ledgertest.OK(t, err)
			answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
			if err == nil {
				err = schema.Validate(answer)
			}
			if err != nil {
				t.Errorf("%s %s at %s: %v\n%s", x.Method, target, version, err, w.Body)
			}
		}
	}
	for operation, isOne := range left {
		if isOne {
			t.Errorf("not tried: %s", operation)
		}
	}
}

// patternOf is the path of a document that a target has: literally, or else with names.
func patternOf(paths map[string]any, target string) string {
	target, _, _ = strings.Cut(target, "?")
	if paths[target] != nil {
		return target
	}
	for path := range paths {
		if regexp.MustCompile("^" + parameter.ReplaceAllString(path, "[^/]+") + "$").MatchString(target) {
			return path
		}
	}
	return ""
}

var parameter = regexp.MustCompile(`\{\w+\}`)
