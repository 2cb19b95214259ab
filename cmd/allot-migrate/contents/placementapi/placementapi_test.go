package placementapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementapi"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const host = "11111111-1111-4111-8111-111111111111"

// service is a Placement with one provider. changes is how often the provider changes
// right after its parts were read.
type service struct {
	changes    int64
	used       int64 // of VCPU, by allocations that are not shown
	generation atomic.Int64
	newest     string
	seen       atomic.Int64 // requests about the provider's inventories
	version    atomic.Value // the last microversion asked for
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if v := r.Header.Get("OpenStack-API-Version"); v != "" {
		s.version.Store(v)
	}
	answer := map[string]string{
		"/": fmt.Sprintf(`{"versions": [{"max_version": "%s"}]}`, s.newest),
		"/resource_providers": fmt.Sprintf(`{"resource_providers": [{"uuid": "%s", "name": "n", "generation": %d,
			"root_provider_uuid": "%s"}]}`, host, s.generation.Load(), host),
		"/resource_classes": `{"resource_classes": [{"name": "VCPU"}]}`,
		"/traits":           `{"traits": []}`,
		"/resource_providers/" + host + "/traits":      `{"traits": []}`,
		"/resource_providers/" + host + "/aggregates":  `{"aggregates": []}`,
		"/resource_providers/" + host + "/allocations": `{"allocations": {}}`,
		"/resource_providers/" + host + "/usages":      fmt.Sprintf(`{"usages": {"VCPU": %d}}`, s.used),
		"/resource_providers/" + host + "/inventories": fmt.Sprintf(
			`{"inventories": {"VCPU": {"total": %d, "max_unit": 1, "allocation_ratio": 1.0}}}`, 1+s.generation.Load()),
		"/allocation_candidates": `{"allocation_requests": [{"allocations": {"` + host + `": {"resources": {"VCPU": 1}}}}]}`,
	}[r.URL.Path]
	switch {
	case answer == "":
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		return
	case strings.HasSuffix(r.URL.Path, "inventories"):
		if s.seen.Add(1) <= s.changes {
			defer s.generation.Add(1)
		}
	case r.URL.Query().Get("resources") == "NONE:1":
		w.WriteHeader(http.StatusBadRequest)
	case r.URL.Query().Get("resources") == "FAIL:1":
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write([]byte(answer)) // the client may be gone
}

func start(t *testing.T, s *service) *placementapi.Source {
	t.Helper()
	if s.newest == "" {
		s.newest = "1.39"
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return &placementapi.Source{URL: server.URL}
}

// TestChanging: what changes while it is read is read again, and what never stands
// still is not imported.
func TestChanging(t *testing.T) {
	t.Parallel()
	for _, changes := range []int64{0, 1, 3} {
		s := &service{changes: changes}
		rows, err := start(t, s).Read(t.Context(), nil)
		ledgertest.OK(t, err)
		if got := rows.Inventories[0].Total; got != 1+changes || rows.Providers[0].Generation.Value != changes {
			t.Errorf("%d changes: a total of %d, generation %d", changes, got, rows.Providers[0].Generation.Value)
		}
	}
	if _, err := start(t, &service{changes: 1000}).Read(t.Context(), nil); !errors.Is(err, services.ErrChanging) {
		t.Error(err)
	}
}

// TestReleasedMeanwhile: a release while a provider is read, which raises no generation, does
// not make its usage one of allocations that are not shown.
func TestReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	s := &service{newest: "1.39"}
	var released atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held, used := `"`+host+`": {"resources": {"VCPU": 4}}`, 4
		switch {
		case strings.HasSuffix(r.URL.Path, "/usages"), strings.HasSuffix(r.URL.Path, host+"/allocations"):
			if released.Swap(true) {
				held, used = "", 0
			}
			_, _ = fmt.Fprintf(w, `{"usages": {"VCPU": %d}, "allocations": {%s}}`, used, held)
		case strings.HasPrefix(r.URL.Path, "/allocations/"):
			_, _ = fmt.Fprint(w, `{"allocations": {}}`)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	rows, err := (&placementapi.Source{URL: server.URL}).Read(t.Context(), nil)
	if err != nil || len(rows.Unseen) > 0 {
		t.Errorf("%v, unseen: %+v", err, rows)
	}
}

// TestOtherServersAreNamed: servers that are no Placement, or too old, are named.
func TestOtherServersAreNamed(t *testing.T) {
	t.Parallel()
	for newest, why := range map[string]string{"1.27": "1.28 is needed", "": "names no versions", "x": "is needed"} {
		s := &service{newest: newest}
		source := start(t, s)
		s.newest = newest
		if newest == "" {
			source.URL += "/somewhere"
			why = "302 Found"
		}
		_, err := source.Read(t.Context(), nil)
		if !errors.Is(err, services.ErrAnswer) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", newest, err, why)
		}
	}
}

// TestCandidates: both sides are asked in one microversion, and a refusal is an
// answer.
func TestCandidates(t *testing.T) {
	t.Parallel()
	old, recent := &service{newest: "1.30"}, &service{}
	a, b := start(t, old), start(t, recent)
	ledgertest.OK(t, placementapi.Same(t.Context(), a, b))
	for _, source := range []*placementapi.Source{a, b} {
		got, err := source.Candidates(t.Context(), "resources=VCPU:1")
		if err != nil || len(got.Requests) != 1 || got.Failure != "" {
			t.Errorf("%+v, %v", got, err)
		}
		for class, want := range map[string]string{"NONE": "Bad Request", "FAIL": "Internal Server Error"} {
			if got, err := source.Candidates(t.Context(), "resources="+class+":1"); err != nil || got.Failure != want {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
	if old.version.Load() != "placement 1.30" || recent.version.Load() != "placement 1.30" {
		t.Errorf("asked in %v and %v", old.version.Load(), recent.version.Load())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Candidates(ended, "resources=VCPU:1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
