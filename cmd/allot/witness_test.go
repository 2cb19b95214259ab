package main_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/mod/sumdb/note"
	_ "modernc.org/sqlite"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// foreignProgram returns a program that .ci/run installs from .ci/witness.
func foreignProgram(t *testing.T, name string) string {
	t.Helper()
	if program, err := exec.LookPath(name); err == nil {
		return program
	}
	home, err := os.UserHomeDir()
	program := filepath.Join(home, "go", "bin", name)
	if _, missing := os.Stat(program); err != nil || missing != nil {
		t.Skipf("skipped: there is no %s: (cd .ci/witness && GOBIN=~/go/bin go install ./readtiles filippo.io/torchwood/cmd/litewitness)", name)
	}
	return program
}

// litewitness is a witness that is not ours.
type litewitness struct {
	*server
	vkey, url string
}

// startLitewitness starts one that knows a log by its public key.
func startLitewitness(t *testing.T, origin, logKey string) *litewitness {
	t.Helper()
	program, dir := foreignProgram(t, "litewitness"), t.TempDir()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	socket, fingerprint := keptByAgent(t, private)
	address := freeAddress(t)
	db := filepath.Join(dir, "witness.db")
	w := &litewitness{url: "http://" + address, server: begin(t, address, exec.Command(program, "-name", "witness.example",
		"-db", db, "-ssh-agent", socket, "-listen", address, "-key", fingerprint))}
	ledgertest.WaitFor(t, "litewitness to serve", func() bool {
		answer, err := http.Get(w.url)
		return err == nil && answer.Body.Close() == nil
	}, func() any { return w.Logs })
	plain, err := note.NewEd25519VerifierKey("witness.example", public)
	must(t, err)
	w.vkey, err = cosignature.VKeyToCosignatureV1(plain)
	must(t, err)
	base, err := sql.Open("sqlite", db)
	must(t, err)
	nothing := sha256.Sum256(nil)
	_, err = base.Exec("INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", origin,
		base64.StdEncoding.EncodeToString(nothing[:]))
	must(t, err)
	_, err = base.Exec("INSERT INTO key (origin, key) VALUES (?, ?)", origin, logKey)
	must(t, err)
	must(t, base.Close())
	return w
}

// keptByAgent has an SSH agent keep a key.
func keptByAgent(t *testing.T, private ed25519.PrivateKey) (socket, fingerprint string) {
	t.Helper()
	keys := agent.NewKeyring()
	must(t, keys.Add(agent.AddedKey{PrivateKey: private}))
	public := ledgertest.Must(ssh.NewPublicKey(private.Public()))
	dir, err := os.MkdirTemp("", "w") // the path of a socket is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it is in the folder for such things
	listener := ledgertest.Must(net.Listen("unix", filepath.Join(dir, "a")))
	t.Cleanup(func() { _ = listener.Close() }) // nothing is kept of it
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keys, conn) }() // the witness ends it
		}
	}()
	return listener.Addr().String(), ssh.FingerprintSHA256(public)
}

// TestForeignWitness: a witness that is not ours cosigns what a server signs, a reader of tiles
// that is not ours demands it, and a server with the same key and another history gets nothing.
func TestForeignWitness(t *testing.T) {
	t.Parallel()
	const origin = "log.example/allot"
	dir, data := t.TempDir(), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	key := strings.TrimSpace(allot(t, true, "signing-key", origin, file("key")))
	w := startLitewitness(t, origin, key)
	other := strings.TrimSpace(allot(t, true, "signing-key", "other.example", file("other")))
	otherWitness := ledgertest.Must(cosignature.VKeyToCosignatureV1(other))
	flags := []string{"--signing-key", file("key"), "--witness", w.vkey + " " + w.url}
	s := busy(t, data, flags...)
	witnessed := func(args ...string) []string { return append(args, "--public-key", key, "--witness", w.vkey) }
	ask := func(s *server, good bool, args ...string) string {
		t.Helper()
		return allot(t, good, append(args, "--url", s.HTTP)...)
	}
	ask(s, true, witnessed("checkpoint", "--out", file("first"))...)
	write(t, file("evidence"), ask(s, true, "prove", "5.0"))
	allot(t, true, witnessed("check-proof", file("evidence"))...)
	says(t, allot(t, false, "check-proof", file("evidence"), "--public-key", key, "--witness", w.vkey, "--witness", otherWitness),
		"1 of 2, and 2 are needed; it lacks other.example")
	allot(t, true, "check-proof", file("evidence"), "--public-key", key, "--witness", w.vkey, "--witness", otherWitness, "--quorum", "1")
	allot(t, false, "check-proof", file("evidence"), "--witness", w.vkey)
	allot(t, false, "check-proof", file("evidence"), "--public-key", key, "--quorum", "1")
	write(t, file("past"), ask(s, true, "prove", "5.0", "--at", "6"))
	says(t, allot(t, false, witnessed("check-proof", file("past"))...), "it lacks witness.example")
	says(t, s.Must(200, "GET", "/readyz", ""), `"checkpoints":"ok"`)
	tiles, policy := "http://"+s.HTTP+"/audit/tiles", "log "+key+"\nwitness w "+w.vkey+"\nquorum w\n"
	reads := func(policy string, since ...string) *exec.Cmd {
		return exec.Command(foreignProgram(t, "readtiles"), append([]string{tiles, "admin", policy}, since...)...)
	}
	fields := strings.Fields(output(t, reads(policy)))
	s.Must(201, "PUT", "/traits/CUSTOM_TILED", "")
	output(t, reads(policy, fields...))
	if out, err := reads(strings.Replace(policy, "log ", "log x", 1)).CombinedOutput(); err == nil {
		t.Errorf("another log is read, too: %s", out)
	}
	s.Must(204, "DELETE", "/allocations/22222222-2222-4222-8222-000000000001", "")
	ask(s, true, witnessed("checkpoint", "--since", file("first"), "--out", file("second"))...)
	s.Terminate()
	allot(t, true, witnessed("verify", "--data", data)...)

	// The operator forgets what came after the first commit, and goes on otherwise.
	allot(t, true, "export", file("begin"), "--data", data, "--to", "1")
	allot(t, true, "import", file("begin"), "--data", file("forked"))
	fork := busy(t, file("forked"), flags...)
	for i := range 10 { // it is longer than what it forgot, also where that had a commit more
		fork.Must(201, "PUT", fmt.Sprint("/traits/CUSTOM_FORKED_", i), "")
	}
	says(t, fork.Must(503, "GET", "/audit/checkpoint", ""), "witness.example: ", "history")
	says(t, fork.Must(200, "GET", "/readyz", ""), "witness.example: ")
	fork.Must(503, "GET", "/audit/proof/record?record=5.0", "")
	fork.Must(200, "GET", "/audit/checkpoint?at=6", "")
	fork.Terminate()
	allot(t, true, "verify", "--data", file("forked"), "--public-key", key)
	says(t, allot(t, false, witnessed("verify", "--data", file("forked"))...), "it lacks witness.example")
	says(t, allot(t, false, witnessed("verify", "--data", file("forked"), "--since", file("first"))...),
		"the log gives")

	// A server goes on from the checkpoint that it kept, also while no witness answers.
	s.Again()
	w.Kill()
	if !s.Serves() {
		t.Fatal(s.Logs)
	}
	s.Must(200, "POST", "/resource_providers", `{"name":"unwitnessed"}`)
	says(t, s.Must(503, "GET", "/audit/checkpoint", ""), "0 of 1, and 1 are needed: witness.example: ")
}
