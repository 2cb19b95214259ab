package main_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

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

// TestHAProxyWithoutLeader: a write whose server is lost is answered by another one, to which it
// comes under the same id, although no server's reads are up to date, as in a slow change of leaders.
func TestHAProxyWithoutLeader(t *testing.T) {
	t.Parallel()
	var behind atomic.Bool // whether no reads are up to date
	var tried sync.Map     // paths and ids that have come
	arrived, lost, answered := make(chan struct{}, 1), make(chan struct{}), make(chan string)
	replica := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get("Allot-Command-Id")
		_, again := tried.LoadOrStore(r.URL.Path+text, true)
		id, err := uuid.Parse(text)
		switch {
		case r.URL.Path == "/readyz" && behind.Load() && r.FormValue("for") == "reads":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path != "/held":
		case !again:
			arrived <- struct{}{}
			<-lost
			panic(http.ErrAbortHandler)
		case err != nil || id.Version() != 7 || time.Since(time.Unix(id.Time().UnixTime())).Abs() > time.Minute:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	var addresses []string
	for range 3 {
		s := httptest.NewServer(replica)
		t.Cleanup(s.Close)
		addresses = append(addresses, s.Listener.Addr().String())
	}
	proxy, socket := launchProxy(t, addresses)
	put := func(path string) string {
		status, _, err := sendTo(http.MethodPut, "http://"+proxy.HTTP+path, "", nil)
		return fmt.Sprint(status, " ", err)
	}
	ledgertest.WaitFor(t, "HAProxy", func() bool { return put("/") == "200 <nil>" })
	go func() { answered <- put("/held") }()
	<-arrived
	behind.Store(true)
	for i := range addresses {
		ledgertest.WaitFor(t, "HAProxy's sight of the change", func() bool { return proxySays(t, socket, i+1) == "DOWN" })
	}
	close(lost)
	if got := <-answered; got != "200 <nil>" {
		t.Errorf("a write whose server was lost: %s\n%s", got, proxy.Logs)
	}
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
