package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// clusterStatus is a server's answer about its cluster.
type clusterStatus struct {
	Leader  string
	Term    uint64
	Members []struct {
		Name, Role, HTTP string
		Lag              *uint64 `json:"lag_commits"`
		Whole            bool
	}
	Stream struct {
		Leader string
		Others []struct {
			Name             string
			Current, Offline bool
			Lag              uint64
		}
	}
}

// current reports whether all servers hold everything, according to one.
func (s *server) current() (clusterStatus, error) {
	var told clusterStatus
	_, out, err := s.Call("GET", "/cluster", "", "")
	if err == nil {
		err = json.Unmarshal([]byte(out), &told)
	}
	if err != nil || told.Leader == "" || told.Stream.Leader == "" || len(told.Members) != 3 || len(told.Stream.Others) != 2 {
		return told, fmt.Errorf("%w: %s", err, out)
	}
	for _, m := range told.Members {
		if m.Role == "away" || m.Lag == nil || *m.Lag > 0 || !m.Whole {
			return told, fmt.Errorf("not all members hold everything: %s", out)
		}
	}
	for _, p := range told.Stream.Others {
		if !p.Current || p.Offline || p.Lag > 0 {
			return told, fmt.Errorf("not all servers hold the stream: %s", out)
		}
	}
	return told, nil
}

// waitCurrent waits until all servers hold everything.
func (r *replicas) waitCurrent() {
	r.t.Helper()
	r.leader()
	var err error
	ledgertest.WaitFor(r.t, "all servers to hold everything", func() bool {
		_, err = r.list[0].current()
		return err == nil
	}, func() any { return err })
}

// waitLog waits until a line of a server's log has some words.
func (s *server) waitLog(words string) {
	s.T.Helper()
	ledgertest.WaitFor(s.T, fmt.Sprintf("a line that says %q", words),
		func() bool { return strings.Contains(s.Logs.String(), words) }, func() any { return s.Logs })
}

// waitReady waits until a server is ready.
func (s *server) waitReady() {
	s.T.Helper()
	ledgertest.WaitFor(s.T, "a server that is ready", func() bool {
		select {
		case <-s.Exited:
			s.T.Fatalf("it has ended:\n%s", s.Logs)
		default:
		}
		status, _ := s.standing("/readyz")
		return status == 200
	}, func() any { return s.Logs })
}

// TestBeginningBesideALedger: a server whose disk was lost, and on whose new one
// allot init was run, takes part in nothing of the ledger that the others have:
// JetStream never begins there, also while one of them is away. With leave to rejoin
// it is filled, and gets State and read models from another one.
func TestBeginningBesideALedger(t *testing.T) {
	t.Parallel()
	r := launchReplicas(t)
	leader := r.leader()
	victim, other := (leader+1)%3, (leader+2)%3
	r.list[other].Must(201, "PUT", "/traits/CUSTOM_KEPT", "")
	r.list[victim].Terminate()
	must(t, os.RemoveAll(r.data(victim)))
	allot(t, true, "init", "--data", r.data(victim))
	never := func() {
		t.Helper()
		if _, err := os.Stat(filepath.Join(r.data(victim), "log", "jetstream")); err == nil {
			t.Error("JetStream has begun there")
		}
	}
	r.begin(victim)
	r.list[victim].Refuses("have a ledger already", "allot init", "nothing was changed", filepath.Join(r.data(victim), "log"))
	never()

	// Without a quorum no server can say which ledger it is; it waits, and does not vote.
	r.lose(other)
	r.lose(leader)
	r.begin(victim)
	r.list[victim].waitLog("0 of 2 other servers answer")
	ledgertest.WaitFor(t, "/readyz to say that no other server answers", func() bool {
		_, body, err := r.list[victim].Call("GET", "/readyz", "", "")
		return err == nil && strings.Contains(body, "0 of 2 other servers answer")
	}, func() any { return r.list[victim].Logs })
	r.begin(other)
	r.list[victim].waitLog("has commits, and does not know yet of which ledger")
	if status, h := r.list[other].standing("/readyz"); status == 200 {
		t.Errorf("one of three is ready: %+v", h)
	}
	never()
	r.begin(leader)
	r.list[victim].Refuses("have a ledger already")
	never()

	must(t, os.RemoveAll(r.data(victim)))
	r.begin(victim) // which does not know that its log is lost, and not on a disk that is not mounted
	r.list[victim].Refuses("which has none", "nothing was changed", "allot cluster rejoin --data")
	allot(t, true, "cluster", "rejoin", "--data", r.data(victim))
	r.begin(victim, "--pace-copy-needed")
	r.serve()
	for _, s := range r.list {
		s.Must(204, "GET", "/traits/CUSTOM_KEPT", "")
	}
	r.list[victim].waitLog("State and read models have come")
	digests := make(map[string]bool)
	ledgertest.WaitFor(t, "one digest", func() bool {
		clear(digests)
		for _, s := range r.list {
			digests[s.Must(200, "GET", "/audit/digest", "")] = true
		}
		return len(digests) == 1
	}, func() any { return digests })
}
