package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth/keystonetest"
)

// costlyQuery asks for one more provider than a tree has, each for a group of its
// own: all orders of them are tried, and none fits.
func costlyQuery(children int) string {
	var q strings.Builder
	q.WriteString("/allocation_candidates?group_policy=isolate")
	for i := range children + 1 {
		fmt.Fprintf(&q, "&resources%d=VCPU:1", i+1)
	}
	return q.String()
}

// makeWideTree makes a provider with children, each with VCPUs.
func (s *server) makeWideTree(admin map[string]string, children int) {
	s.t.Helper()
	must := func(method, path, body string) {
		s.t.Helper()
		if status, text := s.send(method, path, body, admin); status >= 300 {
			s.t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
	}
	root := "aaaaaaaa-0000-4000-8000-000000000000"
	must("POST", "/resource_providers", `{"name":"root","uuid":"`+root+`"}`)
	for i := range children {
		id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i+1)
		must("POST", "/resource_providers", `{"name":"`+id+`","uuid":"`+id+`","parent_provider_uuid":"`+root+`"}`)
		must(
			"PUT", "/resource_providers/"+id+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":8}}}`,
		)
	}
}

// asks sends a request, and returns the status and the time that it took.
func (s *server) asks(ctx context.Context, path, token string) (int, time.Duration, http.Header) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+path, nil)
	if err != nil {
		s.t.Error(err)
		return 0, 0, nil
	}
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	begun := time.Now()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, nil // the test has ended
	}
	_, _ = io.Copy(io.Discard, answer.Body) // cut off at worst
	_ = answer.Body.Close()                 // nothing was written
	return answer.StatusCode, time.Since(begun), answer.Header
}

// latencies returns the times of n searches of a well-behaved client, in order.
func (s *server) latencies(n int, token string) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		var status int
		status, list[i], _ = s.asks(context.Background(), "/allocation_candidates?resources=VCPU:1&limit=5", token)
		if status != http.StatusOK {
			s.t.Errorf("the well-behaved client: %d", status)
		}
	}
	slices.Sort(list)
	return list
}

// measured are the medians and the 99th percentiles of rounds, each in order.
type measured struct{ half, most []time.Duration }

func (m *measured) add(latencies []time.Duration) {
	m.half = append(m.half, latencies[len(latencies)/2])
	m.most = append(m.most, latencies[len(latencies)*99/100])
	slices.Sort(m.half)
	slices.Sort(m.most)
}

// floods asks again and again, as soon as a refused client may.
func (s *server) floods(ctx context.Context, path, token string) {
	for ctx.Err() == nil {
		status, _, header := s.asks(ctx, path, token)
		switch {
		case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		case status != 0 && status != http.StatusBadRequest:
			s.t.Errorf("a costly search: %d", status)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestCostlySearches: a hundred costly searches of one user at once hold up nobody
// else: another client's searches take, by the median, at most twice as long as
// without them.
func TestCostlySearches(t *testing.T) {
	const children, rounds, requests = 12, 11, 60
	keystone := keystonetest.Start(t,
		keystonetest.User{Name: "allot", Password: "secret", ID: "u-allot", Project: "service", Roles: []string{"service"}},
		keystonetest.User{Name: "nova", ID: "nova", Project: "service", Roles: []string{"service", "admin"}},
		keystonetest.User{Name: "mallory", ID: "mallory", Project: "m", Roles: []string{"service"}},
	)
	s := launch(
		t, t.TempDir(), "--keystone-url", keystone.URL, "--keystone-username", "allot", "--config", keystonePassword(t),
	)
	nova, mallory := keystone.Token("nova"), keystone.Token("mallory")
	s.makeWideTree(map[string]string{"X-Auth-Token": nova}, children)
	s.latencies(requests, nova) // warm up
	before := s.peakRSS()

	var quiet, attacked measured
	for range rounds {
		quiet.add(s.latencies(requests, nova))
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { s.floods(ctx, costlyQuery(children), mallory) })
	}
	for range rounds {
		attacked.add(s.latencies(requests, nova))
	}
	stop()
	all.Wait()
	t.Logf("beside costly searches %v, without %v", attacked.most, quiet.most)
	// The slowest searches, which are logged, also depend on the machine's other
	// programs.
	if quiet, attacked := quiet.half[rounds/2], attacked.half[rounds/2]; attacked > 2*quiet {
		t.Errorf("beside costly searches half of another's take more than %v instead of %v", attacked, quiet)
	}
	if growth := s.peakRSS() - before; growth > 64<<20 {
		t.Errorf("the memory grew by %d MiB", growth>>20)
	}
}
