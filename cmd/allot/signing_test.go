package main_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSignedCheckpoints: an auditor who has kept a checkpoint can check later
// what happened to the log, offline and with only the public key.
func TestSignedCheckpoints(t *testing.T) {
	t.Parallel()
	dir, data, address := t.TempDir(), t.TempDir(), freeAddress(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	allot(t, false, "signing-key", "operator.example", file("key"))
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
	allot(t, true, "export", file("whole"), "--nats-url", "nats://"+address)
	s.Kill()
	allot(t, true, "verify", "--archive", file("whole"), "--public-key", key)
	allot(t, false, "verify", "--archive", file("whole"), "--public-key", other)
	says(t, allot(t, false, "verify", "--data", data, "--public-key", key), "no signed checkpoint")
	allot(t, true, "verify", "--data", data)
	allot(t, true, "sign", "--data", data, "--signing-key", file("key"))
	allot(t, true, "verify", "--data", data, "--public-key", key)
	allot(t, true, "export", file("part"), "--data", data, "--from", "5")
	says(t, allot(t, true, "verify", "--archive", file("part"), "--public-key", key), "one vouches")
	allot(t, true, "import", file("whole"), "--data", file("imported"))
	allot(t, true, "verify", "--data", file("imported"), "--public-key", key)
}
