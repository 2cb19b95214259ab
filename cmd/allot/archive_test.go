package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/archive/bucket/buckettest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestArchive: a server archives everything, in both of its archives. Each alone verifies with the public key, and the
// ledger comes back from it, and from a backup that is taken over HTTP, as it was, at its end and at any moment.
// TestArchiveInBucket kills the server.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir, data, metrics := t.TempDir(), t.TempDir(), freeAddress(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	one, two, backup := "file://"+file("one"), "file://"+file("two"), "file://"+file("three")
	for _, name := range []string{"one", "two", "three"} {
		must(t, os.Mkdir(file(name), 0o750))
	}
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	s := launch(t, data, "--signing-key", file("key"), "--archive", one, "--archive", two, "--pace-part-records", "20",
		"--pace-part-age", "2s", "--metrics", metrics)
	backUp := func(wants ...string) {
		t.Helper()
		says(t, allot(t, true, "backup", "--url", "http://"+s.HTTP, "--to", backup), wants...)
	}
	makeClasses := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			s.Must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_%d", i), "")
		}
	}
	makeClasses(0, 50)
	backUp(", in 1 parts")
	makeClasses(50, 150)
	moment := time.Now()
	makeClasses(150, 151)
	sequence := 0
	ledgertest.WaitFor(t, "the archive", func() bool {
		m := readMetrics(t, metrics)
		sequence = int(m["allot_log_sequence"])
		return m["allot_archive_lag_commits"] == 0 && m["allot_archive_parts"] > 6 && sequence >= 152
	})
	if m := readMetrics(t, metrics); m["allot_archive_failures_total"] != 0 || m["allot_archive_faulty"] != 0 {
		t.Errorf("%v", m)
	}
	want := fmt.Sprintf("up to sequence %d", sequence)
	for _, url := range []string{one, two} {
		out := allot(t, true, "verify", "--archive", url, "--public-key", key, "--state", file("state"))
		says(t, out, want, "vouches for everything "+want)
	}
	for range 2 { // only what is new is added, and the second time there is nothing to do
		backUp(want, ", in 2 parts")
	}
	s.Terminate()
	says(t, allot(t, true, "verify", "--archive", backup, "--public-key", key), "checkpoints  2 good")
	replayed := allot(t, true, "replay", "--data", data)
	for name, url := range map[string]string{"back": one, "other": backup} {
		out := allot(t, true, "restore", "--from", url, "--data", file(name), "--public-key", key)
		says(t, out, "vouches, by the digest chain")
		if out := allot(t, true, "replay", "--data", file(name)); same(out) != same(replayed) {
			t.Errorf("restored:\n%s\nand it was:\n%s", out, replayed)
		}
	}
	if out := allot(t, true, "replay", "--archive", two); same(out) != same(replayed) {
		t.Errorf("the archive:\n%s\nand it was:\n%s", out, replayed)
	}
	// The class of the last command is not there, and those before it are.
	from := []string{"restore", "--from", one, "--data", file("then"), "--at", moment.UTC().Format(time.RFC3339Nano), "--public-key"}
	other := strings.TrimSpace(allot(t, true, "signing-key", "other.example", file("other key")))
	says(t, allot(t, false, append(from, other)...), "nothing was changed")
	allot(t, true, append(from, key)...)
	then := launch(t, file("then"))
	then.Must(200, "GET", "/resource_classes/CUSTOM_149", "")
	then.Must(404, "GET", "/resource_classes/CUSTOM_150", "")
}

// same is what two replays of one log have in common.
func same(replayed string) string {
	var list []string
	for _, line := range strings.Split(replayed, "\n") {
		if !strings.HasPrefix(line, "records") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

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
