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
	"sync"
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
	ledgertest.WaitFor(t, "HAProxy", func() bool {
		status, _, err := proxy.Call("PUT", "/traits/CUSTOM_FIRST", "", "")
		return err == nil && status < http.StatusMultipleChoices
	})
	writes := startLoad(proxy)
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

// load is clients that write until it is ended, each one request after the other. It notes
// requests that were not answered as they should be.
type load struct {
	stop  chan struct{}
	idle  sync.WaitGroup
	mu    sync.Mutex
	made  []string // traits whose making was acknowledged; guarded by mu
	wrong []string // answers other than success; guarded by mu
}

// writePause is how often a client writes at most: the test is about what happens
// meanwhile, and not about how many they are.
const writePause = 50 * time.Millisecond

func startLoad(to *server) *load {
	l := &load{stop: make(chan struct{})}
	for range 4 {
		l.idle.Go(func() {
			pace := time.NewTicker(writePause)
			defer pace.Stop()
			for l.write(to, pace.C) {
			}
		})
	}
	return l
}

// write sends a write until it is answered: a server that finds no leader in time answers 503, and its client sends it
// again. It reports whether the clients go on.
func (l *load) write(to *server, pace <-chan time.Time) bool {
	name := "CUSTOM_" + strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "_"))
	for again := false; ; again = true {
		select {
		case <-l.stop:
			return false
		case <-pace:
		}
		status, _, err := to.Call("PUT", "/traits/"+name, "", "")
		if err == nil && status == http.StatusServiceUnavailable {
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil && (status == http.StatusCreated || again && status == http.StatusNoContent) {
			l.made = append(l.made, name)
		} else {
			l.wrong = append(l.wrong, fmt.Sprintf("%s: %d, %v", name, status, err))
		}
		return true
	}
}

// end stops the clients, and fails the test if any request was refused.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.idle.Wait()
	if len(l.wrong) > 0 {
		t.Errorf("%d of %d writes failed, such as %s", len(l.wrong), len(l.made)+len(l.wrong), l.wrong[0])
	}
}

// holds checks that a replica has everything that was acknowledged.
func (l *load) holds(t *testing.T, s *server) {
	t.Helper()
	traits := s.Must(200, "GET", "/traits", "")
	for _, name := range l.made {
		if !strings.Contains(traits, `"`+name+`"`) {
			t.Fatalf("%s was acknowledged, and is not there", name)
		}
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
