package main_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger/archive/bucket/buckettest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestArchiveInBucket: in a bucket of S3 a server, killed and started again, archives
// everything. What is there is verified and restored.
func TestArchiveInBucket(t *testing.T) {
	t.Parallel()
	data, metrics, url := t.TempDir(), freeAddress(t), buckettest.URL(buckettest.S3(t), "a")
	flags := []string{
		"--archive", url, "--pace-part-records", "10", "--pace-part-age", "1s", "--pace-copy-records", "20",
		"--pace-snapshot-records", "5", "--metrics", metrics,
	}
	for round := range 2 {
		s := launch(t, data, flags...)
		for i := range 60 {
			s.Must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_R%d_%d", round, i), "")
		}
		if round == 0 {
			s.Kill()
			continue
		}
		ledgertest.WaitFor(t, "the archive", func() bool { return readMetrics(t, metrics)["allot_archive_lag_commits"] == 0 })
		s.Terminate()
	}
	allot(t, true, "verify", "--archive", url)
	replayed := allot(t, true, "replay", "--data", data)
	back := filepath.Join(t.TempDir(), "back")
	allot(t, true, "restore", "--from", url, "--data", back)
	if out := allot(t, true, "replay", "--data", back); same(out) != same(replayed) {
		t.Errorf("restored:\n%s\nand it was:\n%s", out, replayed)
	}
}
