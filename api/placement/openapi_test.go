package placement_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/commands/commandstest"
)

// served fetches the document as a client does.
func served(t *testing.T, h http.Handler) map[string]any {
	t.Helper()
	w := send(h, "GET", "/openapi.json", "")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v", w.Code, err)
	}
	return doc.(map[string]any)
}

// TestOpenAPIRoutes: what the document lists is served, and nothing else is.
func TestOpenAPIRoutes(t *testing.T) {
	_, h := inMemory(t)
	paths := served(t, h)["paths"].(map[string]any)
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
	doc := served(t, h)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	if err := compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	const p, child, consumer = "11111111-1111-4111-8111-111111111111", "33333333-3333-4333-8333-333333333333", "22222222-2222-4222-8222-222222222222"
	allocate := fmt.Sprintf(
		`{"allocations":{"%s":{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
		p,
	)
	left := make(map[string]bool)
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				left[method+" "+path] = true
			}
		}
	}
	for _, step := range []struct{ method, path, target, body string }{
		{"get", "/", "/", ""}, {"get", "/openapi.json", "/openapi.json", ""},
		{"post", "/resource_providers", "", fmt.Sprintf(`{"name":"a","uuid":"%s"}`, p)},
		{"post", "/resource_providers", "", fmt.Sprintf(`{"name":"b","uuid":"%s","parent_provider_uuid":"%s"}`, child, p)},
		{"post", "/resource_providers", "", `{"name":"a"}`},
		{"put", "/resource_providers/{uuid}", "/resource_providers/" + p, `{"name":"c"}`},
		{"put", "/resource_providers/{uuid}/inventories", "/resource_providers/" + p + "/inventories", `{"resource_provider_generation":0,"inventories":{"VCPU":{"total":4}}}`},
		{"post", "/resource_providers/{uuid}/inventories", "/resource_providers/" + p + "/inventories", `{"resource_class":"DISK_GB","total":5}`},
		{"put", "/resource_providers/{uuid}/inventories/{resource_class}", "/resource_providers/" + p + "/inventories/DISK_GB", `{"resource_provider_generation":2,"total":6,"allocation_ratio":1.5}`},
		{"put", "/resource_providers/{uuid}/aggregates", "/resource_providers/" + p + "/aggregates", fmt.Sprintf(`{"resource_provider_generation":3,"aggregates":["%s"]}`, consumer)},
		{"put", "/traits/{name}", "/traits/CUSTOM_X", ""}, {"get", "/traits/{name}", "/traits/CUSTOM_X", ""},
		{"put", "/resource_providers/{uuid}/traits", "/resource_providers/" + p + "/traits", `{"resource_provider_generation":4,"traits":["CUSTOM_X"]}`},
		{"put", "/resource_providers/{uuid}/counters", "/resource_providers/" + p + "/counters", `{"resource_provider_generation":5,"counters":{"SLICE":7,"MODE":1}}`},
		{"put", "/resource_providers/{uuid}/counters", "/resource_providers/" + child + "/counters", `{"resource_provider_generation":0,"draws":{"VCPU":{"SLICE":2,"MODE":"MIG"}}}`},
		{"get", "/resource_providers/{uuid}/counters", "/resource_providers/" + child + "/counters", ""},
		{"get", "/resource_providers/{uuid}/counters", "/resource_providers/" + p + "/counters", ""},
		{"post", "/resource_classes", "", `{"name":"CUSTOM_C"}`},
		{"put", "/resource_classes/{name}", "/resource_classes/CUSTOM_C", ""},
		{"put", "/allocations/{consumer_uuid}", "/allocations/" + consumer, allocate},
		{"post", "/allocations", "", fmt.Sprintf(`{"%s":%s}`, child, allocate)},
		{"post", "/reshaper", "", `{"inventories":{},"allocations":{}}`},
		{"put", "/limits", "", `{"project_id":"p","resource_class":"VCPU","limit":100}`},
		{"put", "/projects/{project_id}", "/projects/p", `{"parent_id":"root"}`},
		{"get", "/limits", "", ""},
		{"get", "/limits/versions", "/limits/versions?project_id=p&resource_class=VCPU", ""},
		{"put", "/preferences/{name}", "/preferences/gold", `{"prefer":{"order":"pack"}}`},
		{"get", "/preferences", "", ""},
		{"get", "/preferences/{name}", "/preferences/gold", ""},
		{"put", "/topologies/{name}", "/topologies/fabric", `{"levels":["rack"],"members":{"` + child + `":{"level":"rack","name":"r1"}}}`},
		{"get", "/topologies", "", ""},
		{"get", "/topologies/{name}", "/topologies/fabric", ""},
		{"post", "/claims", "", `{"requests":["resources=VCPU:1"],"alternates":1,"consumers":[{
			"consumer_uuid":"` + commandstest.NewID().String() + `","project_id":"p","user_id":"u","consumer_type":"INSTANCE",
			"consumer_generation":null}]}`},
		{"post", "/claims", "", `{"alternatives":[["resources=VCPU:999"],["resources=VCPU:1"]],"consumers":[{
			"consumer_uuid":"` + commandstest.NewID().String() + `","project_id":"p","user_id":"u","consumer_type":"INSTANCE",
			"consumer_generation":null}]}`},
		{"get", "/resource_providers", "", ""}, {"get", "/resource_providers/{uuid}", "/resource_providers/" + child, ""},
		{"get", "/resource_providers/{uuid}/inventories", "/resource_providers/" + p + "/inventories", ""},
		{"get", "/resource_providers/{uuid}/inventories/{resource_class}", "/resource_providers/" + p + "/inventories/VCPU", ""},
		{"get", "/resource_providers/{uuid}/usages", "/resource_providers/" + p + "/usages", ""},
		{"get", "/resource_providers/{uuid}/aggregates", "/resource_providers/" + p + "/aggregates", ""},
		{"get", "/resource_providers/{uuid}/allocations", "/resource_providers/" + p + "/allocations", ""},
		{"get", "/resource_providers/{uuid}/traits", "/resource_providers/" + p + "/traits", ""},
		{"get", "/resource_classes", "", ""}, {"get", "/resource_classes/{name}", "/resource_classes/VCPU", ""},
		{"get", "/traits", "", ""}, {"get", "/usages", "/usages?project_id=p", ""},
		{"get", "/allocations/{consumer_uuid}", "/allocations/" + consumer, ""},
		{"get", "/allocation_candidates", "/allocation_candidates?resources=VCPU:1&explain=true", ""},
		{"get", "/allocation_candidates", "/allocation_candidates?resources=VCPU:1", ""},
		{"get", "/capacity", "/capacity?resources=VCPU:1&by=aggregate&limit=2", ""},
		{"delete", "/allocations/{consumer_uuid}", "/allocations/" + consumer, ""},
		{"delete", "/allocations/{consumer_uuid}", "/allocations/" + child, ""},
		{"delete", "/resource_providers/{uuid}/traits", "/resource_providers/" + p + "/traits", ""},
		{"delete", "/resource_providers/{uuid}/inventories/{resource_class}", "/resource_providers/" + p + "/inventories/VCPU", ""},
		{"delete", "/resource_providers/{uuid}/inventories", "/resource_providers/" + p + "/inventories", ""},
		{"delete", "/traits/{name}", "/traits/CUSTOM_X", ""},
		{"delete", "/topologies/{name}", "/topologies/fabric", ""},
		{"delete", "/resource_classes/{name}", "/resource_classes/CUSTOM_C", ""},
		{"delete", "/resource_providers/{uuid}", "/resource_providers/" + child, ""},
	} {
		target := step.target
		if target == "" {
			target = step.path
		}
		delete(left, step.method+" "+step.path)
		versions := []string{"1.39"}
		if step.method == "get" {
			versions = []string{"1.39", "1.28", "1.12", "1.10", "1.0"}
		}
		for _, version := range versions {
			fresh.times = 0
			w := sendAt(h, version, strings.ToUpper(step.method), target, step.body)
			if version != "1.39" && w.Code >= 400 {
				continue // the route is newer
			}
			if (fresh.times == 1) != (step.method == "get") && w.Code < 400 && !ownPatterns.MatchString(step.path) {
				t.Errorf("%s %s: %d after %d questions to the leader", step.method, target, w.Code, fresh.times)
			}
			operation := doc["paths"].(map[string]any)[step.path].(map[string]any)[step.method].(map[string]any)
			responses := operation["responses"].(map[string]any)
			described, known := responses[fmt.Sprint(w.Code)].(map[string]any)
			pointer := "Errors"
			if w.Code < 400 {
				if !known {
					t.Errorf("%s %s: %d is not in the document", step.method, target, w.Code)
					continue
				}
				content, _ := described["content"].(map[string]any)
				if (content == nil) != (w.Body.Len() == 0) {
					t.Errorf("%s %s: content %v, answered %q", step.method, target, content, w.Body)
					continue
				}
				if content == nil {
					continue
				}
				pointer = content["application/json"].(map[string]any)["schema"].(map[string]any)["$ref"].(string)
				pointer = strings.TrimPrefix(pointer, "#/components/schemas/")
			}
			schema, err := compiler.Compile("openapi.json#/components/schemas/" + pointer)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
			if err == nil {
				err = schema.Validate(answer)
			}
			if err != nil {
				t.Errorf("%s %s at %s: %v\n%s", step.method, target, version, err, w.Body)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("not tried: %v", slices.Collect(maps.Keys(left)))
	}
}
