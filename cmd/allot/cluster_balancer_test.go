package main_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHAProxy uses docs/deploy/haproxy.cfg as it is, but for the addresses: while
// the replicas behind it are stopped and started one after the other, and while the
// leader is killed and nobody leads for seconds, no write of clients that never ask
// twice fails.
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
	socket := filepath.Join(t.TempDir(), "socket")
	control := file + ".control"
	if err := os.WriteFile(control, []byte("global\n    stats socket "+socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := exec.Command(program, "-db", "-f", file, "-f", control)
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
	restart := func(i int, same string) {
		r.begin(i, "--http", same)
		r.list[i].http = same
		r.list[i].waitReady()
		waitFor(t, "HAProxy's sight of the server", func() bool { return proxyTakes(t, socket, i+1) })
		r.waitCurrent()
	}
	for i, s := range r.list {
		s.terminate()
		restart(i, s.http)
	}
	writes.again.Store(true)
	killed := r.leader()
	same := r.list[killed].http
	r.lose(killed)
	r.leader()
	restart(killed, same)
	writes.end(t)
	r.waitCurrent()
	for _, s := range r.list {
		writes.holds(t, s)
	}
	if t.Failed() {
		t.Logf("HAProxy:\n%s", output)
	}
}

// proxyTakes reports whether HAProxy sends requests to a server, as its socket tells.
func proxyTakes(t *testing.T, socket string, server int) bool {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "show stat\n"); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(conn).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	status := slices.Index(table[0], "status")
	for _, row := range table[1:] {
		if row[0] == "allot" && row[1] == fmt.Sprintf("allot-%d", server) {
			return row[status] == "UP"
		}
	}
	t.Fatalf("HAProxy does not know of server %d: %v", server, table)
	return false
}
