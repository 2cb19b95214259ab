package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
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

// TestHostileCopy: an archive with a forged copy, which names files outside or a pipe instead of a
// file, is restored and served by a replay of the log; nothing outside is touched, and what is
// wrong is told.
func TestHostileCopy(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	archive, victim := filepath.Join(dir, "archive"), filepath.Join(dir, "victim")
	if err := errors.Join(os.Mkdir(archive, 0o750), os.WriteFile(victim, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	from := "file://" + archive
	s := launch(t, data, "--archive", from, "--pace-part-records", "10", "--pace-part-age", "1s",
		"--pace-snapshot-records", "10", "--pace-copy-records", "10")
	for i := range 30 {
		s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_N%d", i), "")
	}
	manifests := filepath.Join(archive, "copies", "manifests")
	ledgertest.WaitFor(t, "a stored copy", func() bool {
		list, err := os.ReadDir(manifests)
		return err == nil && len(list) > 0
	})
	digest := s.must(200, "GET", "/audit/digest", "")
	s.terminate()
	list, err := os.ReadDir(manifests)
	if err != nil {
		t.Fatal(err)
	}
	name := list[len(list)-1].Name()
	good, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	sums := regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)
	names := regexp.MustCompile(`"name":"MANIFEST[^"]*"`)
	away, err := filepath.Rel(filepath.Join(data, "readmodel", "joining", "parts"), victim)
	if err != nil {
		t.Fatal(err)
	}
	outside := `"../../../../` + filepath.Base(dir) + `/victim"`
	for what, change := range map[string]func(text []byte) []byte{
		"is not a SHA-256 digest": func(text []byte) []byte { return sums.ReplaceAll(text, []byte(`"sha256":"`+away+`"`)) },
		"is no file's name":       func(text []byte) []byte { return names.ReplaceAll(text, []byte(`"name":`+outside)) },
		"no regular file": func(text []byte) []byte {
			for _, found := range sums.FindAll(text, -1) {
				path := filepath.Join(archive, "copies", "files", string(found[len(`"sha256":"`):len(found)-1]))
				if err := os.Remove(path); err == nil { // several files may be the same
					err = syscall.Mkfifo(path, 0o600)
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			return append(text, ' ')
		},
	} {
		if err := os.RemoveAll(manifests); err != nil {
			t.Fatal(err)
		}
		changed := change(slices.Clone(good))
		sum := sha256.Sum256(changed)
		path := filepath.Join(manifests, name[:len(name)-64]+hex.EncodeToString(sum[:]))
		if err := errors.Join(os.Mkdir(manifests, 0o750), os.WriteFile(path, changed, 0o600)); err != nil {
			t.Fatal(err)
		}
		out := allot(t, true, "restore", "--data", filepath.Join(t.TempDir(), "restored"), "--from", from)
		if !strings.Contains(out, "the first start replays the log") || !strings.Contains(out, what) {
			t.Errorf("restore does not say %q:\n%s", what, out)
		}
		lose(t, data)
		s := launch(t, data, "--archive", from, "--pace-copy-records", "0")
		if got := s.must(200, "GET", "/audit/digest", ""); got != digest {
			t.Errorf("the ledger was %s, and is %s", digest, got)
		}
		s.terminate()
		if what != "no regular file" && !strings.Contains(s.logs.String(), what) { // so small a copy is not worth its files
			t.Errorf("the start does not say %q:\n%s", what, s.logs)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%s: outside there is %q, %v", what, text, err)
		}
	}
}
