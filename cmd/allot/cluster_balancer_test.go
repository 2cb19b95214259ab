package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHAProxy uses docs/deploy/haproxy.cfg as it is, but for the addresses: while
// the replicas behind it are stopped and started one after the other, no write of
// clients that never ask twice fails.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("skipped: haproxy is not installed")
	}
	r := launchReplicas(t)
	config, err := os.ReadFile("../../docs/deploy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	pairs := []string{"bind :8778", "bind " + address}
	for i, s := range r.list {
		pairs = append(pairs, fmt.Sprintf("allot-%d.example:8778", i+1), s.http)
	}
	text := strings.NewReplacer(pairs...).Replace(string(config))
	if strings.Contains(text, "example") || !strings.Contains(text, address) {
		t.Fatalf("the addresses were not replaced:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	output := new(ledgertest.Output)
	proxy := exec.Command(program, "-db", "-f", file)
	proxy.Stdout, proxy.Stderr = output, output
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proxy.Process.Kill() // it may have ended
		_ = proxy.Wait()         // with that
	})
	waitFor(t, "HAProxy", func() bool {
		status, err := putTrait(http.DefaultClient, address, "CUSTOM_FIRST")
		return err == nil && status < http.StatusMultipleChoices
	})
	writes := startLoad(address, address, address, address)
	for i := range r.list {
		same := r.list[i].http
		r.list[i].terminate()
		r.begin(i, "--http", same)
		r.list[i].http = same
		r.list[i].waitReady()
	}
	writes.end(t)
	r.waitCurrent()
	for _, s := range r.list {
		writes.holds(t, s)
	}
	if t.Failed() {
		t.Logf("HAProxy:\n%s", output)
	}
}
