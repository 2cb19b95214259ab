package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// binary is the built program that these tests run.
var binary string

func TestMain(m *testing.M) {
	cleanup := launchtest.Setup("allot")
	binary = launchtest.Program("allot")
	code := m.Run()
	cleanup()
	os.Exit(code)
}

// keystoneAccount is the account that servers have in a keystonetest.Server.
var keystoneAccount = []string{"OS_USERNAME=allot", "OS_PASSWORD=secret", "OS_PROJECT_NAME=service"}

// server is a running "allot serve".
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	http string
	logs *ledgertest.Output

	exited chan struct{} // closed when the process has ended
	exit   error         // its result; read it after exited
}

// freeAddress returns a free address, and never the same one again.
func freeAddress(t *testing.T) string {
	t.Helper()
	return ledgertest.FreeAddress(t)
}

// launch starts a server on a data folder and waits until it serves.
func launch(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	s := start(t, data, flags...)
	if !s.waitServing() {
		t.Fatalf("the server does not serve:\n%s", s.logs)
	}
	return s
}

// flagFile writes a file of flags, for --config.
func flagFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "allot.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tail is the end of a long text.
func tail(text string, size int) string { return text[max(0, len(text)-size):] }

// startLimit is how long a start may take.
const startLimit = hang

// waitServing waits until the server answers. It returns false if the server
// exits.
func (s *server) waitServing() (serves bool) {
	s.t.Helper()
	ledgertest.WaitFor(s.t, "the server to serve or to exit", func() bool {
		if resp, err := http.Get("http://" + s.http + "/"); err == nil {
			_ = resp.Body.Close()
			serves = resp.StatusCode == http.StatusOK
		}
		select {
		case <-s.exited:
			return true
		default:
			return serves
		}
	}, func() any { return s.logs })
	return serves
}

// settle waits until no allocation waits for a node.
func (s *server) settle() {
	s.t.Helper()
	ledgertest.WaitFor(s.t, "nodes for all allocations", func() bool {
		return !strings.Contains(s.mustMetal(200, "GET", "/allocations", ""), `"allocating"`)
	})
}

func start(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	return startProgram(t, binary, nil, data, flags...)
}

// startProgram is start for a program that was built otherwise, and variables of its
// environment.
func startProgram(t *testing.T, program string, env []string, data string, flags ...string) *server {
	t.Helper()
	s := &server{t: t, http: freeAddress(t), logs: new(ledgertest.Output), exited: make(chan struct{})}
	s.cmd = exec.Command(program, append([]string{"serve", "--data", data, "--http", s.http, "--nats", ""}, flags...)...)
	s.cmd.Env = slices.Concat(os.Environ(), keystoneAccount, env)
	s.cmd.Stdout, s.cmd.Stderr = s.logs, s.logs
	s.run()
	return s
}

// run starts the process and kills it at the end of the test.
func (s *server) run() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		s.exit = s.cmd.Wait()
		close(s.exited)
	}()
	s.t.Cleanup(s.end)
}

// end ends a process that its test no longer needs. Only a process that exits by
// itself writes its coverage.
func (s *server) end() {
	if launchtest.Coverage != "" && s.cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-s.exited:
		case <-time.After(hang):
		}
	}
	s.kill()
}

// wait returns the process's result.
func (s *server) wait() error {
	<-s.exited
	return s.exit
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
}

// sendTo sends a request with some headers, and returns the status and the body
// of its answer.
func sendTo(method, url, body string, headers map[string]string) (int, string, error) {
	return launchtest.Send(method, url, body, headers)
}

// call sends a request as the administrator at the newest microversion.
func (s *server) call(method, path, commandID, body string) (int, string, error) {
	headers := map[string]string{
		"X-Auth-Token": "admin", "OpenStack-API-Version": "placement latest", "Allot-Command-Id": commandID,
	}
	if body != "" {
		headers["Content-Type"] = "application/json"
	}
	return sendTo(method, "http://"+s.http+path, body, headers)
}

func (s *server) must(want int, method, path, body string) string {
	s.t.Helper()
	status, answer, err := s.call(method, path, "", body)
	if err != nil || status != want {
		s.t.Fatalf("%s %s: %d %s, %v; want %d", method, path, status, answer, err, want)
	}
	return answer
}

// mustStale reads what may be old.
func (s *server) mustStale(path string) string {
	s.t.Helper()
	status, answer, err := sendTo("GET", "http://"+s.http+path, "", map[string]string{
		"X-Auth-Token": "admin", "OpenStack-API-Version": "placement latest", "Allot-Consistency": "stale",
	})
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("GET %s, which may be old: %d %s, %v", path, status, answer, err)
	}
	return answer
}

// dial connects to NATS until the test ends. What the server refuses later is
// not printed.
func dial(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(options, quiet)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// unguarded runs the binary with NATS open to every client.
type unguarded struct {
	*server
	nats string
}

func launchUnguarded(t *testing.T) *unguarded {
	t.Helper()
	address := freeAddress(t)
	return &unguarded{launch(t, t.TempDir(), "--nats", address), address}
}

// connect connects without credentials.
func (u *unguarded) connect() *nats.Conn {
	u.t.Helper()
	return dial(u.t, "nats://"+u.nats)
}
