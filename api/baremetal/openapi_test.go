package baremetal_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/openapi"
)

// identMissing are methods that need an ident in the path, which Ironic says
// with 400 instead of 405.
var identMissing = map[string]bool{"PATCH /allocations": true, "DELETE /allocations": true}

// TestDescribe: what is described is what the facade does, and nothing else.
func TestDescribe(t *testing.T) {
	d := openapi.New("", "", "")
	if err := baremetal.Describe(d); err != nil {
		t.Fatal(err)
	}
	paths := d.Object()["paths"].(openapi.Object)
	if len(paths) != len(baremetal.Paths) {
		t.Errorf("%d paths are described of %d", len(paths), len(baremetal.Paths))
	}
	w := newWorld(t)
	for _, path := range baremetal.Paths {
		described, _ := paths[baremetal.Prefix+"/v1"+path].(openapi.Object)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			said := described[strings.ToLower(method)] != nil
			does := w.send("latest", "admin", method, "/v1"+path, "{}").Code != http.StatusMethodNotAllowed
			if said != (does && !identMissing[method+" "+path]) {
				t.Errorf("%s %s: the facade has it: %v, described: %v", method, path, does, said)
			}
		}
	}
}
