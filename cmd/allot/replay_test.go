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
// must answer as the first one did, including generations. An auditor who has kept a checkpoint
// can check meanwhile what happened to the log, offline and with only the public key.
func TestReplayElsewhere(t *testing.T) {
	t.Parallel()
	address, data, dir := freeAddress(t), t.TempDir(), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	other := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("other")))
	// With a snapshot the log is signed, too, maybe after the last command.
	// Without one, commits before a kill stay unsigned.
	s := busy(t, data, "--signing-key", file("key"), "--nats", address, "--pace-snapshot-records", "0", "--pace-snapshot-age", "0s")
	ask := func(good bool, args ...string) string {
		t.Helper()
		return allot(t, good, append(args, "--url", s.HTTP)...)
	}
	ask(true, "checkpoint", "--public-key", key, "--out", file("first"))
	ask(false, "checkpoint", "--public-key", other)
	s.Must(204, "DELETE", "/allocations/22222222-2222-4222-8222-000000000001", "")
	says(t, ask(true, "checkpoint", "--public-key", key, "--since", file("first")), "and 1 more")
	evidence := ask(true, "prove", "5.0")
	write(t, file("evidence"), evidence)
	says(t, allot(t, true, "check-proof", file("evidence"), "--public-key", key), `"sequence":5,"index":0`)
	allot(t, false, "check-proof", file("evidence"), "--public-key", other)
	write(t, file("evidence"), strings.Replace(evidence, `"number":4`, `"number":5`, 1))
	allot(t, false, "check-proof", file("evidence"), "--public-key", key)
	ask(false, "prove", "999.0")
	ask(false, "prove", "5")

	remote := []string{"--nats-url", "nats://" + address}
	out := ask(true, append([]string{"replay", "--compare"}, remote...)...)
	says(t, out, "the server has the same")
	state := stateDigest.FindStringSubmatch(out)[1]
	past := ask(true, "log", "--at", "3", "--json")
	if n := strings.Count(past, "\n"); n != 3 || strings.Contains(past, `"sequence":4`) {
		t.Errorf("as of sequence 3 there are %d records:\n%s", n, past)
	}
	allot(t, true, append([]string{"export", file("whole")}, remote...)...)
	allot(t, true, append([]string{"export", file("lines"), "--json"}, remote...)...)
	links := regexp.MustCompile(`http://127.0.0.1:\d+`)
	answers := func(s *server) string {
		text := s.Must(200, "GET", "/allocations/22222222-2222-4222-8222-000000000007", "") + s.Must(200, "GET", provider+"/usages", "")
		return text + links.ReplaceAllString(s.mustMetal(200, "GET", "/allocations?fields=uuid,node_uuid,created_at,extra", ""), "")
	}
	want := answers(s)
	s.Kill()
	whole := read(t, file("whole"))
	write(t, file("damaged"), whole[:len(whole)/2])
	says(t, allot(t, false, "verify", "--archive", file("damaged")), "damaged")
	allot(t, false, "import", file("damaged"), "--data", file("never"))
	if _, err := os.Stat(file("never")); err == nil {
		t.Error("an import of a damaged file wrote something")
	}
	out = allot(t, true, "replay", "--archive", file("whole"), "--into", file("replayed"))
	if got := stateDigest.FindStringSubmatch(out)[1]; got != state {
		t.Errorf("replayed from the file the State has digest %s, from the server %s", got, state)
	}
	verify := func(good bool, args ...string) string {
		t.Helper()
		return allot(t, good, append([]string{"verify", "--public-key"}, args...)...)
	}
	verify(true, key, "--archive", file("whole"))
	verify(false, other, "--archive", file("whole"))
	says(t, verify(false, key, "--data", data), "no signed checkpoint")
	says(t, allot(t, true, "verify", "--data", data), "log          good", "read models  good")
	allot(t, true, "sign", "--data", data, "--signing-key", file("key"))
	verify(true, key, "--data", data)
	allot(t, true, "export", file("part"), "--data", data, "--from", "5")
	says(t, verify(true, key, "--archive", file("part")), "one vouches")
	imported := file("imported")
	allot(t, true, "import", file("whole"), "--data", imported)
	allot(t, false, "import", file("whole"), "--data", imported)
	allot(t, false, "import", file("part"), "--data", file("elsewhere"))
	verify(true, key, "--data", imported)
	if got := answers(launch(t, imported)); got != want {
		t.Errorf("elsewhere the answers are\n%s\nand were\n%s", got, want)
	}
}
