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

	Exited chan struct{} // closed when the process has ended
	Exit   error         // its result; read it after Exited
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
	if !s.Serves() {
		t.Fatalf("the server does not serve:\n%s", s.Logs)
	}
	return s
}

// Serves waits until the server answers. It returns false if the server exits.
func (s *Server) Serves() (serves bool) {
	s.T.Helper()
	ledgertest.WaitFor(s.T, "the server to serve or to exit", func() bool {
		if resp, err := http.Get("http://" + s.HTTP + "/"); err == nil {
			_ = resp.Body.Close()
			serves = resp.StatusCode == http.StatusOK
		}
		select {
		case <-s.Exited:
			return true
		default:
			return serves
		}
	}, func() any { return s.Logs })
	return serves
}

// Serve is Launch that does not wait.
func Serve(t *testing.T, data string, flags ...string) *Server {
	t.Helper()
	return serve(t, data, ledgertest.FreeAddress(t), flags...)
}

// keystoneAccount is the account that servers have in a keystonetest.Server.
var keystoneAccount = []string{"OS_USERNAME=allot", "OS_PASSWORD=secret", "OS_PROJECT_NAME=service"}

func serve(t *testing.T, data, address string, flags ...string) *Server {
	t.Helper()
	args := append([]string{"serve", "--data", data, "--http", address, "--nats", ""}, flags...)
	return Start(t, address, "allot", keystoneAccount, args...)
}

// Start starts a program that will answer at an address, with variables in its
// environment, until the test ends.
func Start(t *testing.T, address, program string, env []string, args ...string) *Server {
	t.Helper()
	cmd := exec.Command(Program(program), args...)
	cmd.Env = append(os.Environ(), env...)
	return Begin(t, address, cmd)
}

// Begin is Start for a command.
func Begin(t *testing.T, address string, cmd *exec.Cmd) *Server {
	t.Helper()
	s := &Server{T: t, HTTP: address, Logs: new(ledgertest.Output)}
	s.begin(cmd)
	return s
}

// Again starts the process again, which has ended.
func (s *Server) Again() {
	s.T.Helper()
	cmd := exec.Command(s.Cmd.Path, s.Cmd.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.Cmd.Env, s.Cmd.Dir, s.Cmd.SysProcAttr
	s.begin(cmd)
}

// begin starts a process, and kills it at the end of the test.
func (s *Server) begin(cmd *exec.Cmd) {
	s.T.Helper()
	cmd.Stdout, cmd.Stderr = s.Logs, s.Logs
	exited := make(chan struct{})
	s.Cmd, s.Exited = cmd, exited
	ledgertest.OK(s.T, cmd.Start())
	go func() {
		s.Exit = cmd.Wait()
		close(exited)
	}()
	s.T.Cleanup(s.End)
}

// Refuses checks that a server ends by itself, and says why and what to do.
func (s *Server) Refuses(words ...string) {
	s.T.Helper()
	if s.Serves() {
		s.T.Fatalf("it serves:\n%s", s.Logs)
	}
	if s.Wait() == nil {
		s.T.Error("it ended as if all were well")
	}
	Says(s.T, s.Logs.String(), words...)
	if strings.Contains(s.Logs.String(), "panic") {
		s.T.Errorf("the server panics:\n%s", s.Logs)
	}
}

// Refused checks that no server starts on a folder, that it prints these words, and
// changes no byte.
func Refused(t *testing.T, data string, words ...string) {
	t.Helper()
	before := BytesOf(t, data)
	Serve(t, data).Refuses(append(words, "nothing was changed")...)
	if BytesOf(t, data) != before {
		t.Error("a refusal changed what is on the disk")
	}
}

// End ends a process that its test no longer needs. Only a process that exits by
// itself writes its coverage.
func (s *Server) End() {
	if Coverage != "" && s.Cmd.Process.Signal(syscall.SIGTERM) == nil {
		select {
		case <-s.Exited:
		case <-time.After(ledgertest.Hang):
		}
	}
	s.Kill()
}

// Wait waits for the end of the process, and returns its result.
func (s *Server) Wait() error {
	s.T.Helper()
	select {
	case <-s.Exited:
	case <-time.After(ledgertest.Hang):
		s.T.Fatalf("the process does not end:\n%s", s.Logs)
	}
	return s.Exit
}

// Kill ends the process at once.
func (s *Server) Kill() {
	_ = s.Cmd.Process.Kill() // it may have ended already
	<-s.Exited
}

// Terminate stops the process as its operator would.
func (s *Server) Terminate() {
	s.T.Helper()
	ledgertest.OK(s.T, s.Cmd.Process.Signal(syscall.SIGTERM))
	if err := s.Wait(); err != nil {
		s.T.Fatalf("%v\n%s", err, s.Logs)
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
