package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// generationOf returns the consumer's generation.
func (s *server) generationOf(consumer string) float64 {
	s.T.Helper()
	var held struct {
		Generation float64 `json:"consumer_generation"`
	}
	must(s.T, json.Unmarshal([]byte(s.Must(200, "GET", "/allocations/"+consumer, "")), &held))
	return held.Generation
}

// TestMove moves a ledger from a single server to a cluster, whose first server
// is killed while it fills the log, and back. Sequences, digests and generations
// stay the same.
func TestMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alone := launch(t, filepath.Join(dir, "alone"))
	alone.makeProvider(1000)
	const consumer = "/allocations/aaaaaaaa-0000-4000-8000-00000000000a"
	alone.Must(http.StatusNoContent, "PUT", consumer, allocation())
	generation := alone.generationOf(filepath.Base(consumer))
	for i := range 1500 {
		alone.Must(201, "PUT", fmt.Sprintf("/traits/CUSTOM_%d", i), "")
	}
	alone.Terminate()
	archive := filepath.Join(dir, "archive")
	exported := allot(t, true, "export", "--data", filepath.Join(dir, "alone"), archive)

	r := prepareReplicas(t)
	allot(t, true, "init", "--data", r.data(0), "--from", archive)
	start(t, r.data(0)).Refuses("is to begin a cluster", "--cluster", "allot import")
	for i := range r.list {
		r.begin(i)
	}
	r.list[0].waitLog("filling the log")
	r.lose(0)
	for _, s := range r.list[1:] {
		looks := func() int { return strings.Count(s.Logs.String(), "it has not begun, or is being filled") }
		before, h := looks(), standing{}
		ledgertest.WaitFor(t, "another look at the ledger, or a leader", func() bool {
			_, h = s.standing("/healthz")
			return looks() > before || h.Role == "leader"
		}, func() any { return s.Logs })
		if h.Role == "leader" {
			t.Errorf("it leads before the log is filled: %+v", h)
		}
	}
	r.begin(0)
	r.serve()
	follower := (r.leader() + 1) % 3
	for _, s := range r.list {
		if got := s.generationOf(filepath.Base(consumer)); got != generation {
			t.Errorf("generation %v, not %v", got, generation)
		}
	}
	r.list[follower].Must(201, "PUT", "/traits/CUSTOM_OF_CLUSTER", "")

	back := filepath.Join(dir, "back")
	last := regexp.MustCompile(`1 to (\d+)`).FindStringSubmatch(exported)[1]
	prefix := allot(t, true, "export", "--nats-url", "nats://"+r.nats[follower], "--to", last, back+"1")
	if strings.ReplaceAll(prefix, back+"1", archive) != exported {
		t.Errorf("the cluster's first commits are others:\n%s\n%s", prefix, exported)
	}
	allot(t, true, "export", "--nats-url", "nats://"+r.nats[follower], back)
	allot(t, true, "import", back, "--data", filepath.Join(dir, "again"))
	again := launch(t, filepath.Join(dir, "again"))
	if got := again.generationOf(filepath.Base(consumer)); got != generation {
		t.Errorf("generation %v, not %v", got, generation)
	}
	says(t, again.Must(200, "GET", "/traits", ""), "CUSTOM_OF_CLUSTER")
}
