package main_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// binary is the built program that these tests run.
var binary string

func TestMain(m *testing.M) {
	cleanup := launchtest.Setup("allot")
	if err := os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50"); err != nil { // spans need not wait for others
		panic(err)
	}
	binary = launchtest.Program("allot")
	code := m.Run()
	cleanup()
	os.Exit(code)
}

var (
	must   = ledgertest.OK
	says   = launchtest.Says
	read   = launchtest.Read
	write  = launchtest.Write
	output = launchtest.Output
	sendTo = launchtest.Send

	freeAddress = ledgertest.FreeAddress
)

// keystoneAllot is the account that servers have in a keystonetest.Server.
var keystoneAllot = keystonetest.User{
	Name: "allot", Password: "secret", ID: "u-allot", Project: "service", Roles: []string{"service"},
}

// server is a running "allot serve".
type server struct{ *launchtest.Server }

// launch starts a server on a data folder and waits until it serves.
func launch(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	return &server{launchtest.Launch(t, data, flags...)}
}

// tellsIfFailed has a test that fails tell what a server logged at last.
func (s *server) tellsIfFailed(name string) {
	s.T.Cleanup(func() {
		if s.T.Failed() {
			logs := s.Logs.String()
			s.T.Logf("%s, at last:\n%s", name, logs[max(0, len(logs)-4000):])
		}
	})
}

// hang is the time after which something counts as never coming.
const hang = ledgertest.Hang

func start(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	return &server{launchtest.Serve(t, data, flags...)}
}

// begin starts a command that will answer at an address.
func begin(t *testing.T, address string, cmd *exec.Cmd) *server {
	t.Helper()
	return &server{launchtest.Begin(t, address, cmd)}
}

// dial connects to NATS until the test ends. What the server refuses later is
// not printed.
func dial(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(options, quiet)...)
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// unguarded runs the binary with NATS open to every client.
type unguarded struct {
	*server
	nats string
}

func launchUnguarded(t *testing.T, flags ...string) *unguarded {
	t.Helper()
	address := freeAddress(t)
	return &unguarded{launch(t, t.TempDir(), append(flags, "--nats", address)...), address}
}

// connect connects without credentials.
func (u *unguarded) connect() *nats.Conn {
	u.T.Helper()
	return dial(u.T, "nats://"+u.nats)
}

// times is how often a fault is injected: a few times with the other tests, and
// as often as docs/reliability.md says with "make faults".
func times(few, many int) int {
	switch {
	case os.Getenv("ALLOT_FAULTS") != "":
		return many
	case testing.Short():
		return max(1, few/4)
	}
	return few
}

// tell prints a row of the table in docs/reliability.md.
func tell(t *testing.T, fault string, injected int, outcome string) {
	t.Helper()
	t.Logf("FAULT | %s | %d | %s |", fault, injected, outcome)
}

// replaceTree copies a file or folder in the place of another.
func replaceTree(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	output(t, exec.Command("cp", "-a", from, to))
}
