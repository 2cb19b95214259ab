package main_test

import (
	"os"
	"path/filepath"
	"testing"
)

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
	r.list[victim].refuses("have a ledger already", "allot init", "nothing was changed", filepath.Join(r.data(victim), "log"))
	never()

	// Without a quorum no server can say which ledger it is; it waits, and does not vote.
	r.lose(other)
	r.lose(leader)
	r.begin(victim)
	r.list[victim].waitLog("0 of 2 other servers answer")
	r.list[victim].waitAnswer("/readyz", "0 of 2 other servers answer")
	r.begin(other)
	r.list[victim].waitLog("has commits, and does not know yet of which ledger")
	if status, h := r.list[other].standing("/readyz"); status == 200 {
		t.Errorf("one of three is ready: %+v", h)
	}
	never()
	r.begin(leader)
	r.list[victim].refuses("have a ledger already")
	never()

	must(t, os.RemoveAll(r.data(victim)))
	r.begin(victim) // which does not know that its log is lost, and not on a disk that is not mounted
	r.list[victim].refuses("which has none", "nothing was changed", "allot cluster rejoin --data")
	allot(t, true, "cluster", "rejoin", "--data", r.data(victim))
	r.begin(victim, "--pace-copy-needed")
	r.serve()
	for _, s := range r.list {
		s.Must(204, "GET", "/traits/CUSTOM_KEPT", "")
	}
	r.list[victim].waitLog("State and read models have come")
	r.sameDigest()
}
