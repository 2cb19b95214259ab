package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// lose removes what a server can have again: its read models and snapshots.
func lose(t *testing.T, data string) {
	t.Helper()
	for _, name := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// cutFiles cuts the last byte of each file below a folder.
func cutFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return err
		}
		return os.Truncate(path, info.Size()-1)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestArchiveCopies: a server stores copies of State and read models in its archives.
// A restored one starts with them, unless they are damaged, not signed with the key, or
// newer than the moment; one that has lost its own replays a short log. What is read is
// the same each time.
func TestArchiveCopies(t *testing.T) {
	t.Parallel()
	dir, data, metrics := t.TempDir(), t.TempDir(), freeAddress(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"one", "two", "three"} {
		if err := os.Mkdir(file(name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	one := "file://" + file("one")
	base := []string{
		"--archive", one, "--archive", "file://" + file("two"), "--pace-part-records", "10", "--pace-part-age", "1s",
		"--pace-snapshot-records", "10", "--metrics", metrics, "--pace-copy-records", "20",
	}
	flags := append(slices.Clone(base), "--signing-key", file("key"))
	s := launch(t, data, flags...)
	made := 0
	ledgertest.WaitFor(t, "stored copies", func() bool {
		s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_N%d", made), "")
		made++
		m := readMetrics(t, metrics)
		return m["allot_archive_copies_total"] >= 4 && m["allot_archive_copies_sequence"] > 60
	})
	ledgertest.WaitFor(t, "the archive", func() bool { return readMetrics(t, metrics)["allot_archive_lag_commits"] == 0 })
	if m := readMetrics(t, metrics); m["allot_archive_copies_failures_total"] != 0 || m["allot_archive_copies_bytes_total"] == 0 {
		t.Errorf("%v", m)
	}
	status := s.must(200, "GET", "/audit/status", "")
	for _, store := range []string{"log", "read models", "snapshots", "archive " + one} {
		if !strings.Contains(status, `{"name":"`+store+`","bytes":`) {
			t.Errorf("the status does not say how much %s holds: %s", store, status)
		}
	}
	questions := []string{"/resource_classes?at=30", "/resource_classes", "/audit/records?from=1", "/audit/digest"}
	want := make(map[string]string)
	for _, question := range questions {
		want[question] = s.must(200, "GET", question, "")
	}
	check := func(name string, s *server) {
		t.Helper()
		for _, question := range questions {
			if got := s.must(200, "GET", question, ""); got != want[question] {
				t.Errorf("%s: %s was\n%s\nand is\n%s", name, question, want[question], got)
			}
		}
	}
	out := allot(t, true, "backup", "--url", "http://"+s.http, "--to", "file://"+file("three"))
	if !strings.Contains(out, "verified") {
		t.Error(out)
	}
	s.terminate()
	const came, replays = "State and read models have come", "the log is replayed, instead of a copy"
	again := func(name, says, not string, flags ...string) {
		t.Helper()
		lose(t, data)
		s := launch(t, data, flags...)
		check(name, s)
		s.terminate()
		if logs := s.logs.String(); !strings.Contains(logs, says) || strings.Contains(logs, not) {
			t.Errorf("%s: it does not say %q, or says %q:\n%s", name, says, not, logs)
		}
	}
	still := append(slices.Clone(base), "--pace-copy-records", "0") // so that nothing changes in the archives
	again("a replay takes less than a copy", replays, came, append(slices.Clone(still), "--signing-key", file("key"))...)
	restored := func(name, says string, flags ...string) {
		t.Helper()
		into := file(strings.ReplaceAll(name, " ", "_"))
		out := allot(t, true, append([]string{"restore", "--data", into}, flags...)...)
		if !strings.Contains(out, says) {
			t.Errorf("%s: it does not say %q:\n%s", name, says, out)
		}
		if slices.Contains(flags, "--at") {
			launch(t, into).terminate()
			return
		}
		s := launch(t, into)
		check(name, s)
		s.terminate()
	}
	const brought, plainly = "have come from file://", "the first start replays the log"
	restored("restored", brought, "--from", one, "--public-key", key)
	restored("restored over HTTP", plainly, "--from", "file://"+file("three"))
	restored("restored to the past", plainly, "--from", one, "--at", "5")
	cutFiles(t, filepath.Join(file("one"), "copies"))
	restored("restored with damaged copies", plainly, "--from", one)
}
