package ironicapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicapi"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const rack = "11111111-aaaa-4111-8111-111111111111"

func nodeID(i int) string { return fmt.Sprintf("22222222-aaaa-4222-8222-%012d", i) }

// service is an Ironic with three nodes, which it lists two at a time. changes is how often
// a node changes right after it was read.
type service struct {
	changes int64
	version string
	status  int
	odd     string // a member of the nodes
	seen    atomic.Int64
}

func (s *service) node(i int, changed int64) string {
	class := "baremetal"
	if i == 0 {
		class = fmt.Sprintf("class-%d", changed)
	}
	return fmt.Sprintf(`{"uuid": %q, "name": null, "driver": "ipmi", "resource_class": %q, "chassis_uuid": %q, "provision_state": "available",
		"power_state": "power off", "maintenance": false, "properties": {"cpus": "4"}, "extra": {}, "driver_info": {}, "instance_info": {},
		"traits": ["CUSTOM_A"], "created_at": "2024-01-02T00:00:00+00:00", "updated_at": null, "retired": false, "automated_clean": null,
		"boot_interface": "ipxe", "links": [], "target_power_state": null%s}`, nodeID(i), class, rack, s.odd)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	if r.Header.Get("X-OpenStack-Ironic-API-Version") != "latest" {
		http.Error(w, "no version", http.StatusNotAcceptable)
		return
	}
	w.Header().Set("X-OpenStack-Ironic-API-Version", s.version)
	var answer string
	switch marker := r.URL.Query().Get("marker"); {
	case r.URL.Path == "/v1/chassis/detail":
		answer = fmt.Sprintf(`{"chassis": [{"uuid": %q, "description": "rack", "extra": {"row": 4}, "created_at": "2024-01-01T00:00:00+00:00"}]}`, rack)
	case r.URL.Path == "/v1/nodes/detail" && marker == "":
		changed := min(s.seen.Add(1), s.changes)
		answer = fmt.Sprintf(`{"nodes": [%s, %s], "next": "http://elsewhere.example/v1/nodes"}`, s.node(0, changed), s.node(1, 0))
	case r.URL.Path == "/v1/nodes/detail" && marker == nodeID(1):
		answer = fmt.Sprintf(`{"nodes": [%s]}`, s.node(2, 0))
	case r.URL.Path == "/v1/allocations":
		answer = fmt.Sprintf(`{"allocations": [{"uuid": "33333333-aaaa-4333-8333-333333333333", "state": "active", "node_uuid": %q,
			"resource_class": "baremetal", "traits": ["CUSTOM_A"], "candidate_nodes": [], "extra": {"k": 1}, "name": "a"}]}`, nodeID(2))
	default:
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		return
	}
	_, _ = w.Write([]byte(answer)) // the client may be gone
}

func read(t *testing.T, s *service, path string) (*contents.Rows, error) {
	t.Helper()
	if s.version == "" {
		s.version = "1.82"
	}
	server := httptest.NewServer(s)
	defer server.Close()
	return (&ironicapi.Source{URL: server.URL + path}).Read(t.Context(), nil)
}

// TestRead: all pages are read, from this server alone, and what a ledger has no place for is
// named.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/v1", "/v1/"} {
		rows, err := read(t, &service{odd: `, "from_the_future": 1`}, path)
		ledgertest.OK(t, err)
		rows.ReadAt = 1
		plan, report, err := contents.Make(rows)
		if err != nil || plan == nil || rows.Schema != "API 1.82" {
			t.Fatal(err, report, rows.Schema)
		}
		ledgertest.Same(t, "testdata/plan.txt", placementdbtest.Dump(t, plan))
		if lost := strings.Join(rows.Unkept, "\n"); lost != "nodes: from_the_future, target_power_state" {
			t.Errorf("not kept: %s", lost)
		}
	}
}

// TestChanging: what changes while it is read is read again, and what never stands still is
// not imported.
func TestChanging(t *testing.T) {
	t.Parallel()
	rows, err := read(t, &service{changes: 3}, "")
	if err != nil || rows.Nodes[0].ResourceClass != "class-3" {
		t.Errorf("%v %+v", err, rows)
	}
	if _, err := read(t, &service{changes: 1000}, ""); !errors.Is(err, services.ErrChanging) {
		t.Error(err)
	}
}

// TestOtherServersAreNamed: servers that are no Ironic, too old, or refuse, are named.
func TestOtherServersAreNamed(t *testing.T) {
	t.Parallel()
	for why, row := range map[string]struct {
		service *service
		path    string
	}{
		"1.52 is needed":               {&service{version: "1.46"}, ""},
		`of version "none"`:            {&service{version: "none"}, ""},
		"302 Found":                    {&service{}, "/elsewhere"},
		"the token is wrong":           {&service{status: http.StatusUnauthorized}, ""},
		"the address of Ironic's API?": {&service{status: http.StatusNotFound}, ""},
		"503 Service Unavailable":      {&service{status: http.StatusServiceUnavailable}, ""},
		"name: json: cannot unmarshal": {&service{odd: `, "name": 7`}, ""},
	} {
		_, err := read(t, row.service, row.path)
		if !errors.Is(err, services.ErrAnswer) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", why, err)
		}
	}
}
