package shadow

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSeesAll: what is used and not shown is told from what is released, or allocated, while it
// is looked at. A release raises no generation.
func TestSeesAll(t *testing.T) {
	t.Parallel()
	shown := `"` + guest + `": {"resources": {"VCPU": 4}}`
	type moment struct {
		used, generation int
		shown            string
	}
	for name, row := range map[string]struct {
		moments [3]moment // of the three answers, in their order
		want    error
	}{
		"shown":                               {[3]moment{{4, 1, shown}, {4, 1, shown}, {4, 1, shown}}, nil},
		"not shown":                           {[3]moment{{4, 1, ""}, {4, 1, ""}, {4, 1, ""}}, errUnseen},
		"released":                            {[3]moment{{4, 1, shown}, {0, 1, ""}, {0, 1, ""}}, nil},
		"allocated":                           {[3]moment{{0, 1, ""}, {4, 2, shown}, {4, 2, shown}}, errBusy},
		"allocated while usages are added up": {[3]moment{{0, 1, ""}, {4, 1, shown}, {4, 2, shown}}, errBusy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			placement := newService(t)
			var answers atomic.Int64
			placement.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, "/resource_providers/") {
					return false
				}
				now := row.moments[answers.Add(1)-1]
				_, _ = fmt.Fprintf(w, `{"resource_provider_generation": %d, "usages": {"VCPU": %d}, "allocations": {%s}}`,
					now.generation, now.used, now.shown)
				return true
			}
			s, _ := between(t, Placement, placement, newService(t))
			if err := (repairs{s}).seesAll(t.Context(), Placement, host); !errors.Is(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
		})
	}
}
