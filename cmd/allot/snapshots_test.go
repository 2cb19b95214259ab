package main_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/snapshots"
)

// TestReplayCountsForSnapshots: what a start has replayed counts, and a snapshot
// of it comes with the next commit. Before that a start writes none: it may still
// find that it must refuse the log.
func TestReplayCountsForSnapshots(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := launch(t, data, "--pace-snapshot-records", "0", "--pace-snapshot-age", "0s")
	s.makeProvider(10_000)
	for range 20 {
		s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	s.kill()
	s = launch(t, data, "--pace-snapshot-records", "20", "--pace-snapshot-age", "0s")
	if at := newestSnapshot(t, data); at != 0 {
		t.Errorf("the start has left a snapshot at %d", at)
	}
	s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	last := lastSequence(t, s)
	ledgertest.WaitFor(t, "a snapshot", func() bool { return newestSnapshot(t, data) > 0 })
	s.kill()
	atLast(t, data, last)
	s = launch(t, data, "--pace-snapshot-records", "0", "--pace-snapshot-age", "0s")
	s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	last = lastSequence(t, s)
	s.terminate() // a clean stop leaves one of everything
	atLast(t, data, last)
}

// atLast checks that the newest snapshot is of the last commit.
func atLast(t *testing.T, data string, last uint64) {
	t.Helper()
	if at := newestSnapshot(t, data); at != last {
		t.Errorf("the newest snapshot is at %d, not at %d", at, last)
	}
}

// newestSnapshot returns the sequence of the newest whole snapshot; 0: there is
// none.
func newestSnapshot(t *testing.T, data string) uint64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(data, "snapshots", "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	var heads []uint64
	for _, path := range paths {
		var head ledger.Head
		if head, err = snapshots.Position(path); err == nil {
			heads = append(heads, head.Sequence)
		}
	}
	return slices.Max(append(heads, 0))
}

func lastSequence(t *testing.T, s *server) uint64 {
	t.Helper()
	var status struct{ Sequence uint64 }
	if err := json.Unmarshal([]byte(s.must(http.StatusOK, "GET", "/audit/status", "")), &status); err != nil || status.Sequence == 0 {
		t.Fatalf("%+v, %v", status, err)
	}
	return status.Sequence
}
