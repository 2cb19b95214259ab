package shadow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// service is a Placement with traits and nothing else.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	traits map[string]bool
	seen   []*http.Request

	// before may answer instead. It is called without the lock.
	before func(w http.ResponseWriter, r *http.Request) (answered bool)
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{traits: make(map[string]bool)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r)
	before := s.before
	s.mu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name, is := strings.CutPrefix(r.URL.Path, "/traits/")
	switch {
	case r.URL.Path == "/":
		_, _ = io.WriteString(w, `{"versions": [{"max_version": "1.39"}]}`)
	case !is || r.Method == http.MethodGet && !s.traits[name]:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPut:
		s.traits[name] = true
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete:
		delete(s.traits, name)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *service) has(trait string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traits[trait]
}

// refuses has a service answer some requests with a status.
func (s *service) refuses(status int, these func(*http.Request) bool) {
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		refused := these(r)
		if refused {
			http.Error(w, "no", status)
		}
		return refused
	}
}

// later is how much was missed, and how much is looked at later.
func later(s *Shadow) (missing, unsure int) {
	s.queue.mu.Lock()
	unsure = len(s.queue.unsure)
	s.queue.mu.Unlock()
	return s.queue.length().missing, unsure
}

// requests are those that were seen, as "METHOD PATH?QUERY".
func (s *service) requests() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		all = append(all, r.Method+" "+r.URL.RequestURI())
	}
	return all
}

// between makes a proxy between two services, and a server for its clients.
func between(
	t *testing.T, lead Side, placement, allot *service, change ...func(*Config),
) (*Shadow, *httptest.Server) {
	t.Helper()
	config := Config{
		Lead: lead, Remember: func(Side) error { return nil }, CompareReads: true, QueueBytes: 1 << 20,
		Contents: func(context.Context, Side, func(done, total uint64)) (*contents.Plan, error) {
			return new(contents.Plan), nil
		},
		SwitchWithin: time.Minute, Logger: slog.New(slog.DiscardHandler), Bodies: fair.NewPool(),
	}
	for side, of := range map[Side]*service{Placement: placement, Allot: allot} {
		target := ledgertest.Must(url.Parse(of.URL))
		own := ledgertest.Must(services.New(side.String(), of.URL, "own-token", nil))
		config.Peers[side] = Peer{
			URL: target, Clients: new(http.Transport),
			Writes: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute},
			Own:    own,
		}
	}
	for _, f := range change {
		f(&config)
	}
	s := New(config)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	t.Cleanup(func() { stop(); <-ended })
	clients := httptest.NewServer(s)
	t.Cleanup(clients.Close)
	return s, clients
}

// ask sends a client's request.
func ask(t *testing.T, method, address, body string, header http.Header) (*http.Response, string) {
	t.Helper()
	req := ledgertest.Must(http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body)))
	for name, values := range header {
		req.Header[name] = values
	}
	answer, err := http.DefaultTransport.RoundTrip(req)
	ledgertest.OK(t, err)
	text, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return answer, string(text)
}

func wants(t *testing.T, status int, method, address, body string) *http.Response {
	t.Helper()
	answer, text := ask(t, method, address, body, nil)
	if answer.StatusCode != status {
		t.Fatalf("%s %s: %s %s, want %d", method, address, answer.Status, text, status)
	}
	return answer
}

func settledQueue(s *Shadow) func() bool {
	return func() bool {
		left := s.queue.length()
		return left.entries == 0 && left.missing == 0 && s.Status().Comparisons > 0
	}
}

// TestHeaders: what is about a connection does not pass the proxy in either direction, the
// client's token goes to both sides, and the proxy's own token is only in its own requests.
func TestHeaders(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	placement.before = func(w http.ResponseWriter, _ *http.Request) bool {
		for name, value := range map[string]string{
			"Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "timeout=5", "X-Kept": "1", "X-Openstack-Request-Id": "req-1",
			"Location": placement.URL + "/traits/CUSTOM_A",
		} {
			w.Header().Set(name, value)
		}
		return false
	}
	s, clients := between(t, Placement, placement, allot)
	header := http.Header{
		"Connection": {"X-One, X-Two"}, "X-One": {"1"}, "X-Two": {"1"}, "Te": {"trailers"}, "Proxy-Authorization": {"secret"},
		"X-Auth-Token": {"client-token"}, "X-Kept": {"1"}, "Openstack-Api-Version": {"placement 1.39"},
	}
	written, _ := ask(t, "PUT", clients.URL+"/placement/traits/CUSTOM_A", "", header)
	answer, _ := ask(t, "GET", clients.URL+"/placement/traits/CUSTOM_A", "", header)
	got := fmt.Sprintf("%d %d", written.StatusCode, answer.StatusCode)
	for _, name := range []string{"X-Hop", "Keep-Alive", "X-Kept", "Location"} {
		got += " " + answer.Header.Get(name)
	}
	if want := "201 204   1 " + clients.URL + "/placement/traits/CUSTOM_A"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	ledgertest.WaitFor(t, "the follower", func() bool { return allot.has("CUSTOM_A") })
	s.queue.miss(resource(kindTrait, "CUSTOM_B"))
	ledgertest.WaitFor(t, "everything", settledQueue(s))
	for name, of := range map[string]*service{"placement": placement, "allot": allot} {
		of.mu.Lock()
		for _, r := range of.seen {
			want := "own-token"
			if r.Header.Get("X-Kept") != "" {
				want = "client-token"
				if r.Header.Get("Openstack-Api-Version") != "placement 1.39" {
					t.Errorf("%s lacks headers: %v", name, r.Header)
				}
			}
			if got := r.Header.Get("X-Auth-Token"); got != want {
				t.Errorf("%s %s %s: the token is %q", name, r.Method, r.URL, got)
			}
			for _, gone := range []string{"X-One", "X-Two", "Te", "Proxy-Authorization"} {
				if r.Header.Get(gone) != "" {
					t.Errorf("%s got %s", name, gone)
				}
			}
		}
		of.mu.Unlock()
	}
}

// TestFollowerRefuses: what the follower refuses though the leader accepted it, or fails
// at, is noted with both answers, and brought in line.
func TestFollowerRefuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusConflict, http.StatusForbidden, http.StatusInternalServerError} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			placement, allot := newService(t), newService(t)
			allot.refuses(status, func(r *http.Request) bool { return r.Header.Get("X-Auth-Token") == "client-token" })
			s, clients := between(t, Placement, placement, allot)
			answer, _ := ask(t, "PUT", clients.URL+"/traits/CUSTOM_A", "", http.Header{"X-Auth-Token": {"client-token"}})
			if answer.StatusCode != http.StatusCreated {
				t.Error(answer.Status)
			}
			ledgertest.WaitFor(t, "the repair", func() bool { return allot.has("CUSTOM_A") })
			found := s.Status().Differences
			if len(found) != 1 || found[0].Leader.Status != http.StatusCreated || found[0].Follower.Status != status {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestLostAnswer: a write without an answer is looked at, now and later, because it may
// have been carried out, or may yet be.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	var cut atomic.Bool
	placement.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !cut.CompareAndSwap(false, true) {
			return false
		}
		placement.mu.Lock()
		placement.traits["CUSTOM_A"] = true
		placement.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	s, clients := between(t, Placement, placement, allot)
	wants(t, http.StatusServiceUnavailable, "PUT", clients.URL+"/traits/CUSTOM_A", "")
	ledgertest.WaitFor(t, "the repair", func() bool { return allot.has("CUSTOM_A") })
	if missing, unsure := later(s); unsure != 1 || missing > 1 {
		t.Errorf("%d things are missed, and %d looked at later", missing, unsure)
	}
}

// TestLostAnswerOfAllot: a leading Allot gets the write again, with the same command id, so
// that it carries it out once.
func TestLostAnswerOfAllot(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	var mu sync.Mutex
	var ids []string
	allot.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, r.Header.Get(commandHeader)); len(ids) == 1 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	_, clients := between(t, Allot, placement, allot)
	wants(t, http.StatusCreated, "PUT", clients.URL+"/traits/CUSTOM_A", "")
	ledgertest.WaitFor(t, "Placement", func() bool { return placement.has("CUSTOM_A") })
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 2 || ids[0] == "" || ids[0] != ids[1] {
		t.Error(ids)
	}
}

// TestRehearsals: what Placement refused is rehearsed by Allot. Placement itself, which
// would carry it out, gets nothing that Allot refused.
func TestRehearsals(t *testing.T) {
	t.Parallel()
	for lead, want := range map[Side]string{Placement: "PUT /traits/CUSTOM_A?dry_run=true", Allot: ""} {
		t.Run(lead.String(), func(t *testing.T) {
			t.Parallel()
			services := [2]*service{newService(t), newService(t)}
			services[lead].refuses(http.StatusBadRequest, func(r *http.Request) bool { return r.Method == http.MethodPut })
			s, clients := between(t, lead, services[Placement], services[Allot])
			wants(t, http.StatusBadRequest, "PUT", clients.URL+"/traits/CUSTOM_A", "")
			ledgertest.WaitFor(t, "everything", settledQueue(s))
			got := ""
			for _, request := range services[lead.Other()].requests() {
				if strings.HasPrefix(request, "PUT") {
					got += request
				}
			}
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestRefusedRequests: what the proxy does not serve reaches neither side.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	_, clients := between(t, Placement, placement, allot)
	for _, row := range []struct {
		status       int
		method, path string
		header       http.Header
	}{
		{http.StatusNotFound, "GET", "/audit/records", nil},
		{http.StatusNotFound, "GET", "/placementx/traits", nil},
		{http.StatusNotFound, "PUT", "/traits/..", nil},
		{http.StatusNotFound, "PUT", "/traits/%2e%2e", nil},
		{http.StatusBadRequest, "DELETE", "/traits/CUSTOM_A?dry_run=true", nil},
		{http.StatusBadRequest, "GET", "/traits?at=5", nil},
		{http.StatusBadRequest, "PUT", "/traits/CUSTOM_A", http.Header{"Allot-Command-Id": {guest}}},
	} {
		if answer, text := ask(t, row.method, clients.URL+row.path, "", row.header); answer.StatusCode != row.status {
			t.Errorf("%s %s: %s %s", row.method, row.path, answer.Status, text)
		}
	}
	long, _ := ask(t, "POST", clients.URL+"/allocations", strings.Repeat(" ", maxBody+1), nil)
	if long.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(long.Status)
	}
	untouched(t, placement, allot)
}

// untouched requires that services were asked for their versions alone.
func untouched(t *testing.T, services ...*service) {
	t.Helper()
	for _, s := range services {
		for _, request := range s.requests() {
			if request != "GET /" {
				t.Error(request)
			}
		}
	}
}

// TestSwitchAfterLoss: the lead does not change while something is lost that a comparison
// has not found again.
func TestSwitchAfterLoss(t *testing.T) {
	t.Parallel()
	var loses atomic.Pointer[Shadow]
	s, _ := between(t, Placement, newService(t), newService(t), func(c *Config) {
		c.Contents = func(_ context.Context, side Side, _ func(done, total uint64)) (*contents.Plan, error) {
			if s := loses.Load(); s != nil && side == Allot {
				s.queue.lose() // too late for this comparison
			}
			return new(contents.Plan), nil
		}
	})
	ledgertest.WaitFor(t, "a comparison", settledQueue(s))
	loses.Store(s)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.SwitchTo(ctx, Allot); err == nil || s.Lead() != Placement {
		t.Errorf("%v, and %s leads", err, s.Lead())
	}
}

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
