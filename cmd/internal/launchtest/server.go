package launchtest

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// Server is a running process that answers over HTTP.
type Server struct {
	T    *testing.T
	Cmd  *exec.Cmd
	HTTP string // HOST:PORT
	Logs *ledgertest.Output

	exited chan struct{} // closed when the process has ended
	exit   error         // its result; read it after exited
}

// Launch starts allot serve on a data folder, and waits until it serves.
func Launch(t *testing.T, data string, flags ...string) *Server {
	t.Helper()
	return Resume(t, data, ledgertest.FreeAddress(t), flags...)
}

// Resume is Launch at an address.
func Resume(t *testing.T, data, address string, flags ...string) *Server {
	t.Helper()
	s := serve(t, data, address, flags...)
	ledgertest.WaitFor(t, "the server to serve", func() bool {
		select {
		case <-s.exited:
			t.Fatalf("the server does not serve:\n%s", s.Logs)
		default:
		}
		resp, err := http.Get("http://" + s.HTTP + "/")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, func() any { return s.Logs })
	return s
}

func serve(t *testing.T, data, address string, flags ...string) *Server {
	t.Helper()
	args := append([]string{"serve", "--data", data, "--http", address, "--nats", ""}, flags...)
	return Start(t, address, "allot", nil, args...)
}

// Start starts a program that will answer at an address, with variables in its
// environment, until the test ends.
func Start(t *testing.T, address, program string, env []string, args ...string) *Server {
	t.Helper()
	s := &Server{T: t, HTTP: address, Logs: new(ledgertest.Output), exited: make(chan struct{})}
	s.Cmd = exec.Command(Program(program), args...)
	s.Cmd.Env = append(os.Environ(), env...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Logs, s.Logs
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.exit = s.Cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.end)
	return s
}

// Refused checks that no server starts on a folder, that it prints these words, and
// changes no byte.
func Refused(t *testing.T, data string, words ...string) {
	t.Helper()
	before := BytesOf(t, data)
	s := serve(t, data, ledgertest.FreeAddress(t))
	<-s.exited
	if s.exit == nil {
		t.Error("the server ended well")
	}
	for _, word := range append(words, "nothing was changed") {
		if !strings.Contains(s.Logs.String(), word) {
			t.Errorf("the message does not say %q:\n%s", word, s.Logs)
		}
	}
	if BytesOf(t, data) != before {
		t.Error("a refusal changed what is on the disk")
	}
}

// end ends a process that its test no longer needs. Only a process that exits by
// itself writes its coverage.
func (s *Server) end() {
	if Coverage != "" && s.Cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-s.exited:
		case <-time.After(ledgertest.Hang):
		}
	}
	s.Kill()
}

// Kill ends the process at once.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill() // it may have ended already
	<-s.exited
}

// Terminate stops the process as its operator would.
func (s *Server) Terminate() {
	s.T.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.T.Fatal(err)
	}
	<-s.exited
	if s.exit != nil {
		s.T.Fatalf("%v\n%s", s.exit, s.Logs)
	}
}

// Call sends a request as the administrator at the newest microversion.
func (s *Server) Call(method, path, commandID, body string) (int, string, error) {
	headers := map[string]string{
		"X-Auth-Token": "admin", "OpenStack-API-Version": "placement latest", "Allot-Command-Id": commandID,
	}
	if body != "" {
		headers["Content-Type"] = "application/json"
	}
	return Send(method, "http://"+s.HTTP+path, body, headers)
}

// Must is Call for an answer with a status.
func (s *Server) Must(want int, method, path, body string) string {
	s.T.Helper()
	status, answer, err := s.Call(method, path, "", body)
	if err != nil || status != want {
		s.T.Fatalf("%s %s: %d %s, %v; want %d", method, path, status, answer, err, want)
	}
	return answer
}

// Eventually reads something that may be answered with 404 or 503 for a while.
func (s *Server) Eventually(path string) (answer string) {
	s.T.Helper()
	ledgertest.WaitFor(s.T, path, func() bool {
		status, text, err := s.Call("GET", path, "", "")
		if err != nil {
			s.T.Fatalf("%s: %v\n%s", path, err, s.Logs)
		}
		answer = text
		return status == http.StatusOK
	})
	return answer
}
