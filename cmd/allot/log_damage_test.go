package main_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// world is a stopped server's data folder with some commits.
func world(t *testing.T, allocations int, flags ...string) (data string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	s := launch(t, data, flags...)
	s.makeProvider(1000)
	for range allocations {
		s.Must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	s.Terminate()
	return data
}

// copied returns a copy of a data folder, or of a part of it.
func copied(t *testing.T, data string, parts ...string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if len(parts) == 0 {
		parts = []string{"."}
	}
	for _, part := range parts {
		must(t, os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(data, part))))
	}
	return to
}

// blockFile returns the path of the log's first block.
func blockFile(data string) string {
	return filepath.Join(data, "log", "jetstream", "$G", "streams", "ALLOT", "msgs", "1.blk")
}

// rewrite changes a file.
func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	must(t, os.WriteFile(path, change([]byte(read(t, path))), 0o600))
}

// refused checks that a server does not start, prints these words, and changes no byte.
func refused(t *testing.T, what, data string, words ...string) {
	t.Helper()
	t.Log(what)
	launchtest.Refused(t, data, append(words, "To recover")...)
}

// TestDamagedLogIsRefusedAndLeft: after a clean stop and after a kill, with and without read models, a bit flipped in
// the log, or another log in its place, is refused by name. serve, verify, export and replay change no byte.
func TestDamagedLogIsRefusedAndLeft(t *testing.T) {
	t.Parallel()
	clean := world(t, 60, "--pace-snapshot-records", "20")
	killed := copied(t, clean)
	s := launch(t, killed)
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	s.Kill()
	swapped := copied(t, clean)
	replaceTree(t, filepath.Join(world(t, 70), "log"), filepath.Join(swapped, "log"))
	refused(t, "another log", swapped, "digest")
	for name, whole := range map[string]string{"after a clean stop, the log alone": copied(t, clean, "log"), "after a kill": killed} {
		data := copied(t, whole)
		rewrite(t, blockFile(data), func(content []byte) []byte {
			content[len(content)/2] ^= 1
			return content
		})
		refused(t, name+", a bit flipped", data, "damaged at sequence", "allot repair")
		before := launchtest.BytesOf(t, data)
		for _, command := range [][]string{{"verify"}, {"export", filepath.Join(t.TempDir(), "file")}, {"replay"}} {
			allot(t, false, append(command, "--data", data)...)
		}
		if launchtest.BytesOf(t, data) != before {
			t.Errorf("%s: reading commands changed what is on the disk", name)
		}
	}
}

// TestOnlyAnEmptyFolderBegins: a new ledger begins in an empty folder, or by allot init, and nowhere else.
func TestOnlyAnEmptyFolderBegins(t *testing.T) {
	t.Parallel()
	data := world(t, 3)
	for _, left := range []string{"readmodel", "snapshots"} {
		refused(t, "only "+left+" is left", copied(t, data, left))
	}
	strange := t.TempDir()
	write(t, filepath.Join(strange, "notes.txt"), "mine")
	refused(t, "a stranger's file", strange, "allot init")
	allot(t, true, "init", "--data", strange)
	s := launch(t, strange)
	s.makeProvider(5)
	s.Terminate()
	allot(t, false, "init", "--data", strange)
	s = launch(t, strange)
	s.Must(http.StatusOK, "GET", provider, "")
	half := copied(t, world(t, 0), "log")
	stream := filepath.Join(half, "log", "jetstream", "$G", "streams", "ALLOT")
	for _, lost := range []string{"meta.sum", "msgs"} {
		must(t, os.RemoveAll(filepath.Join(stream, lost)))
	}
	allot(t, false, "init", "--data", copied(t, half)) // the high-water mark knows of a commit
	must(t, os.Remove(filepath.Join(half, "log", "high-water")))
	refused(t, "a stream that was being made", half, "allot init")
	allot(t, true, "init", "--data", half)
	launch(t, half).makeProvider(5)
}

// TestSignedCheckpointIsHonoured: a log that ends before a checkpoint that this server signed, or differs from it, is
// not served, even if nothing else remembers it.
func TestSignedCheckpointIsHonoured(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	data := world(t, 5, "--signing-key", key)
	earlier := copied(t, data)
	s := launch(t, data, "--signing-key", key)
	for range 5 {
		s.Must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	s.Terminate()
	for what, log := range map[string]string{"an earlier log": earlier, "another log": world(t, 20)} {
		mixed := copied(t, data, "checkpoints")
		must(t, os.CopyFS(filepath.Join(mixed, "log"), os.DirFS(filepath.Join(log, "log"))))
		refused(t, what, mixed, ".checkpoint")
	}
}

// TestRepair takes missing commits from an export or from another server, or cuts, and keeps the old files. Without a
// source it only lists the damage. What it does with each kind of damage is tested where it merges logs.
func TestRepair(t *testing.T) {
	t.Parallel()
	data, dir := world(t, 40, "--pace-snapshot-records", "10"), t.TempDir()
	file := filepath.Join(dir, "file")
	allot(t, true, "export", file, "--data", data)
	want := digestOf(t, data)
	says(t, allot(t, true, "repair", "--data", copied(t, data)), "nothing is wrong")
	nats := freeAddress(t)
	launch(t, copied(t, data), "--nats", nats)
	for name, source := range map[string][]string{"file": {"--archive", file}, "NATS": {"--nats-url", "nats://" + nats}} {
		broken := copied(t, data)
		rewrite(t, blockFile(broken), func(b []byte) []byte { return append(bytes.Clone(b[:len(b)/3]), b[len(b)/2:]...) })
		before := launchtest.BytesOf(t, filepath.Join(broken, "log"))
		allot(t, false, "repair", "--data", broken)
		if launchtest.BytesOf(t, filepath.Join(broken, "log")) != before {
			t.Errorf("%s: telling what is wrong changed it", name)
		}
		allot(t, true, append([]string{"repair", "--data", broken}, source...)...)
		if got := digestOf(t, broken); got != want {
			t.Errorf("%s: repaired, verify says\n%s\nnot\n%s", name, got, want)
		}
		aside, err := filepath.Glob(filepath.Join(broken, "damaged-*", "log"))
		if err != nil || len(aside) != 1 || launchtest.BytesOf(t, aside[0]) != before {
			t.Errorf("%s: what was there is not kept: %v, %v", name, aside, err)
		}
		s := launch(t, broken)
		s.Must(http.StatusOK, "GET", provider, "")
		s.Kill()
	}
	broken := copied(t, data)
	rewrite(t, blockFile(broken), func(b []byte) []byte { b[len(b)*4/5] ^= 1; return b })
	allot(t, false, "repair", "--data", broken, "--cut-after", "40")
	allot(t, true, "repair", "--data", broken, "--cut-after", "10")
	s := launch(t, broken)
	if out := s.Must(http.StatusOK, "GET", "/audit/records", ""); strings.Count(out, "\n") != 10 {
		t.Errorf("after a cut at 10 there are %d records", strings.Count(out, "\n"))
	}
}

// digestOf returns the log's digest, from verify's output.
func digestOf(t *testing.T, data string) string {
	t.Helper()
	return strings.Split(allot(t, true, "verify", "--data", data), "\n")[0]
}

// TestScrubFindsDamage flips a bit on the disk under a running server. The server
// reports it, in its log, its status and its metrics, and goes on.
func TestScrubFindsDamage(t *testing.T) {
	t.Parallel()
	data := world(t, 100, "--pace-snapshot-records", "20")
	metrics := freeAddress(t)
	s := launch(t, data, "--metrics", metrics, "--pace-scrub-every", "10ms")
	found := func() bool {
		_, out, err := s.Call("GET", "/audit/status", "", "")
		return err == nil && strings.Contains(out, "damaged at sequence")
	}
	ledgertest.WaitFor(t, "a first round", func() bool {
		_, out, err := s.Call("GET", "/audit/status", "", "")
		return err == nil && strings.Contains(out, `"scrub"`) && !strings.Contains(out, `"rounds":0`) &&
			!strings.Contains(out, `"rounds": 0`)
	})
	if found() {
		t.Fatal("there is no damage yet")
	}
	rewrite(t, blockFile(data), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	ledgertest.WaitFor(t, "the damage to be found", found)
	if readMetrics(t, metrics)["allot_scrub_damage"] == 0 {
		t.Error("the metrics do not tell")
	}
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
}
