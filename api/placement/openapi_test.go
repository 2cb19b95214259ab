package placement_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/placement"
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
	const p, child = "11111111-1111-4111-8111-111111111111", "33333333-3333-4333-8333-333333333333"
	const provider, kid, consumer = "/resource_providers/" + p, "/resource_providers/" + child, "/allocations/" + consumerA
	allocate := taking(id(p), 1)
	steps := [][3]string{ // a method, a target and a body; those that give nothing are reads
		{"GET", "/", ""},
		{"POST", "/resource_providers", fmt.Sprintf(`{"name":"a","uuid":"%s"}`, p)},
		{"POST", "/resource_providers", fmt.Sprintf(`{"name":"b","uuid":"%s","parent_provider_uuid":"%s"}`, child, p)},
		{"POST", "/resource_providers", `{"name":"a"}`},
		{"PUT", provider, `{"name":"c"}`},
		{"PUT", provider + "/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}`},
		{"POST", provider + "/inventories", `{"resource_class":"DISK_GB","total":5}`},
		{"PUT", provider + "/inventories/DISK_GB", `{"resource_provider_generation":2,"total":6,"allocation_ratio":1.5}`},
		{"PUT", provider + "/aggregates", `{"resource_provider_generation":3,"aggregates":["` + consumerA + `"]}`},
		{"PUT", "/traits/CUSTOM_X", ""}, {"GET", "/traits/CUSTOM_X", ""},
		{"PUT", provider + "/traits", `{"resource_provider_generation":4,"traits":["CUSTOM_X"]}`},
		{"PUT", provider + "/counters", `{"resource_provider_generation":5,"counters":{"SLICE":7,"MODE":1}}`},
		{"PUT", kid + "/counters", `{"resource_provider_generation":0,"draws":{"VCPU":{"SLICE":2,"MODE":"MIG"}}}`},
		{"POST", "/resource_classes", `{"name":"CUSTOM_C"}`}, {"PUT", "/resource_classes/CUSTOM_C", ""},
		{"PUT", consumer, allocate}, {"POST", "/allocations", fmt.Sprintf(`{"%s":%s}`, child, allocate)},
		{"POST", "/reshaper", `{"inventories":{},"allocations":{}}`},
		{"PUT", "/limits", `{"project_id":"p","resource_class":"VCPU","limit":100}`},
		{"PUT", "/projects/p", `{"parent_id":"root"}`}, {"PUT", "/preferences/gold", `{"prefer":{"order":"pack"}}`},
		{"PUT", "/topologies/fabric", `{"levels":["rack"],"members":{"` + child + `":{"level":"rack","name":"r1"}}}`},
		{"POST", "/claims", claim("resources=VCPU:1", `,"alternates":1`)},
		{"POST", "/claims", eitherOf(`[["resources=VCPU:999"],["resources=VCPU:1"]]`, "")},
	}
	for _, target := range []string{
		kid + "/counters", provider + "/counters", "/limits", "/limits/versions?project_id=p&resource_class=VCPU",
		"/preferences", "/preferences/gold", "/topologies", "/topologies/fabric", "/resource_providers", kid,
		provider + "/inventories", provider + "/inventories/VCPU", provider + "/usages", provider + "/aggregates",
		provider + "/allocations", provider + "/traits", "/resource_classes", "/resource_classes/VCPU", "/traits",
		"/usages?project_id=p", consumer, "/allocation_candidates?resources=VCPU:1&explain=true",
		"/allocation_candidates?resources=VCPU:1", "/capacity?resources=VCPU:1&by=aggregate&limit=2",
	} {
		steps = append(steps, [3]string{"GET", target})
	}
	for _, target := range []string{
		consumer, "/allocations/" + child, provider + "/traits", provider + "/inventories/VCPU", provider + "/inventories",
		"/traits/CUSTOM_X", "/topologies/fabric", "/resource_classes/CUSTOM_C", kid,
	} {
		steps = append(steps, [3]string{"DELETE", target})
	}
	paths := doc["paths"].(map[string]any)
	left := make(map[string]bool)
	for path, item := range paths {
		for method := range item.(map[string]any) {
			left[method+" "+path] = method != "parameters"
		}
	}
	for _, step := range steps {
		method, target := strings.ToLower(step[0]), step[1]
		path := patternOf(paths, target)
		delete(left, method+" "+path)
		versions := []string{"1.39"}
		if method == "get" {
			versions = []string{"1.39", "1.28", "1.12", "1.10", "1.0"}
		}
		for _, version := range versions {
			fresh.times = 0
			w := sendAt(h, version, step[0], target, step[2])
			if version != "1.39" && w.Code >= 400 {
				continue // the route is newer
			}
			if (fresh.times == 1) != (method == "get") && w.Code < 400 && !ownPatterns.MatchString(path) {
				t.Errorf("%s: %d after %d questions to the leader", step, w.Code, fresh.times)
			}
			responses := paths[path].(map[string]any)[method].(map[string]any)["responses"].(map[string]any)
			pointer := "#/components/schemas/PlacementErrors"
			if w.Code < 400 {
				described, known := responses[fmt.Sprint(w.Code)].(map[string]any)
				content, _ := described["content"].(map[string]any)
				if !known || (content == nil) != (w.Body.Len() == 0) {
					t.Errorf("%s: %d is in the document: %v, with content %v, answered %q", step, w.Code, known, content, w.Body)
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
				t.Errorf("%s at %s: %v\n%s", step, version, err, w.Body)
			}
		}
	}
	for operation, isOne := range left {
		if isOne {
			t.Errorf("not tried: %s", operation)
		}
	}
}

// id is a text that is a uuid.
type id string

func (i id) String() string { return string(i) }

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
