package main_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHAProxy uses docs/deploy/haproxy.cfg as it is, but for the addresses: while the
// replicas behind it are stopped and started one after the other, and while the leader is
// killed and no server leads for seconds, no write of clients that never ask twice fails,
// or finds that it was there before.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	r := launchReplicas(t)
	proxy, socket := launchProxy(t, []string{r.list[0].HTTP, r.list[1].HTTP, r.list[2].HTTP})
	address := proxy.HTTP
	ledgertest.WaitFor(t, "HAProxy", func() bool {
		status, err := putTrait(address, "CUSTOM_FIRST")
		return err == nil && status < http.StatusMultipleChoices
	})
	writes := startLoad(address, address, address, address)
	restart := func(i int, same string) {
		r.begin(i, "--http", same)
		r.list[i].HTTP = same
		r.list[i].waitReady()
		ledgertest.WaitFor(t, "HAProxy's sight of the server", func() bool { return proxySays(t, socket, i+1) == "UP" })
		r.waitCurrent()
	}
	for i, s := range r.list {
		s.Terminate()
		restart(i, s.HTTP)
	}
	killed := r.leader()
	same := r.list[killed].HTTP
	r.lose(killed)
	r.leader()
	restart(killed, same)
	writes.end(t)
	r.waitCurrent()
	for _, s := range r.list {
		writes.holds(t, s)
	}
	if t.Failed() {
		t.Logf("HAProxy:\n%s", proxy.Logs)
	}
}

// launchProxy starts HAProxy with docs/deploy/haproxy.cfg before servers, until the
// test ends. It returns the socket that controls it, too.
func launchProxy(t *testing.T, servers []string) (proxy *server, socket string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("skipped: haproxy is not installed")
	}
	config := read(t, "../../docs/deploy/haproxy.cfg")
	address, socket := freeAddress(t), filepath.Join(t.TempDir(), "socket")
	pairs := []string{"bind :8778", "bind " + address}
	for i, server := range servers {
		pairs = append(pairs, fmt.Sprintf("allot-%d.example:8778", i+1), server)
	}
	text := strings.NewReplacer(pairs...).Replace(config)
	if strings.Contains(text, "example") || !strings.Contains(text, address) {
		t.Fatalf("the addresses were not replaced:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	write(t, file, text)
	control := file + ".control"
	write(t, control, "global\n    stats socket "+socket+"\n")
	return begin(t, address, exec.Command(program, "-db", "-f", file, "-f", control)), socket
}

// proxySays returns what HAProxy's socket says of a server: UP, DOWN, or on its way.
func proxySays(t *testing.T, socket string, server int) string {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	must(t, err)
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "show stat\n"); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(conn).ReadAll()
	must(t, err)
	status := slices.Index(table[0], "status")
	for _, row := range table[1:] {
		if row[0] == "allot" && row[1] == fmt.Sprintf("allot-%d", server) {
			return row[status]
		}
	}
	t.Fatalf("HAProxy does not know of server %d: %v", server, table)
	return ""
}

// TestHostileNetworkConfigs: what docs/deploy has for hostile networks is what HAProxy and
// nftables read.
func TestHostileNetworkConfigs(t *testing.T) {
	t.Parallel()
	for file, check := range map[string][]string{
		"haproxy-hostile.cfg": {"haproxy", "-c", "-f"}, "nftables.conf": {"nft", "-c", "-f"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(check[0])
			if err != nil {
				t.Skipf("skipped: no %s", check[0])
			}
			out, err := exec.Command(program, append(check[1:], "../../docs/deploy/"+file)...).CombinedOutput()
			if strings.Contains(string(out), "Operation not permitted") {
				t.Skipf("skipped: %s needs rights", check[0])
			}
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
