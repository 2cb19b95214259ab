package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// allot runs a command of the binary, which must succeed or fail, as wanted.
func allot(t *testing.T, good bool, args ...string) string {
	t.Helper()
	return launchtest.Run(t, good, "allot", nil, args...)
}

// busy runs a server with some history and snapshots.
func busy(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	s := launch(t, data, append([]string{"--pace-snapshot-records", "5"}, flags...)...)
	s.makeProvider(100)
	s.makeNode("n1", "bm")
	s.mustMetal(201, "POST", "/allocations", `{"resource_class":"bm","name":"a1"}`)
	for i := range 20 {
		s.Must(204, "PUT", fmt.Sprintf("/allocations/22222222-2222-4222-8222-%012d", i), allocation())
	}
	ledgertest.WaitFor(t, "a node for the allocation", func() bool {
		return !strings.Contains(s.mustMetal(200, "GET", "/allocations", ""), `"allocating"`)
	})
	return s
}

var stateDigest = regexp.MustCompile(`state +([0-9a-f]{64})`)

// TestReplayElsewhere exports the log of a running server, compares a replay with
// the server, imports the log into a new folder and runs a server there, which
// must answer as the first one did, including generations.
func TestReplayElsewhere(t *testing.T) {
	t.Parallel()
	address, data, dir := freeAddress(t), t.TempDir(), t.TempDir()
	s := busy(t, data, "--nats", address)
	remote := []string{"--nats-url", "nats://" + address}
	out := allot(t, true, append([]string{"replay", "--compare", "--url", s.HTTP}, remote...)...)
	says(t, out, "the server has the same")
	state := stateDigest.FindStringSubmatch(out)[1]
	past := allot(t, true, "log", "--url", s.HTTP, "--at", "3", "--json")
	if n := strings.Count(past, "\n"); n != 3 || strings.Contains(past, `"sequence":4`) {
		t.Errorf("as of sequence 3 there are %d records:\n%s", n, past)
	}
	whole, part := filepath.Join(dir, "whole"), filepath.Join(dir, "part")
	allot(t, true, append([]string{"export", whole}, remote...)...)
	allot(t, true, append([]string{"export", part, "--from", "3", "--to", "7"}, remote...)...)
	allot(t, true, append([]string{"export", filepath.Join(dir, "lines"), "--json"}, remote...)...)
	answers := func(s *server) string {
		return s.Must(200, "GET", "/allocations/22222222-2222-4222-8222-000000000007", "") +
			s.Must(
				200, "GET", provider+"/usages", "",
			) + s.mustMetal(200, "GET", "/allocations?fields=uuid,node_uuid,created_at,extra", "")
	}
	links := regexp.MustCompile(`http://127.0.0.1:\d+`)
	want := links.ReplaceAllString(answers(s), "")
	s.Kill()
	damaged := filepath.Join(dir, "damaged")
	replaceTree(t, whole, damaged)
	rewrite(t, damaged, func(content []byte) []byte { return content[:len(content)/2] })
	says(t, allot(t, false, "verify", "--archive", damaged), "damaged")
	allot(t, false, "import", damaged, "--data", filepath.Join(dir, "never"))
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("an import of a damaged file wrote something")
	}
	out = allot(t, true, "replay", "--archive", whole, "--into", filepath.Join(dir, "replayed"))
	if got := stateDigest.FindStringSubmatch(out)[1]; got != state {
		t.Errorf("replayed from the file the State has digest %s, from the server %s", got, state)
	}
	out = allot(t, true, "verify", "--data", data)
	says(t, out, "log          good", "snapshots    ", "read models  good")
	imported := filepath.Join(dir, "imported")
	allot(t, true, "import", whole, "--data", imported)
	allot(t, false, "import", whole, "--data", imported)
	allot(t, false, "import", part, "--data", filepath.Join(dir, "elsewhere"))
	allot(t, false, "import", whole, "--data", data)
	allot(t, true, "verify", "--data", imported)
	second := launch(t, imported)
	if got := links.ReplaceAllString(answers(second), ""); got != want {
		t.Errorf("elsewhere the answers are\n%s\nand were\n%s", got, want)
	}
}
