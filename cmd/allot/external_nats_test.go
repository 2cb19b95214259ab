package main_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// natsProgram is the program nats-server, of the release that Allot has in the process.
var natsProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "nats-server")
	out, err := launchtest.Build(path, "github.com/nats-io/nats-server/v2")
	if err != nil {
		return string(out), err
	}
	return path, nil
})

// natsProcess is a NATS server in a process of its own, which can be killed.
type natsProcess struct {
	t       *testing.T
	conf    string // the file's path
	address string
	monitor string // URL
	cmd     *exec.Cmd
}

// startNATSProcess starts a NATS server that syncs every write. more is added to its
// configuration.
func startNATSProcess(t *testing.T, more string) *natsProcess {
	t.Helper()
	n := &natsProcess{t: t, conf: filepath.Join(t.TempDir(), "nats.conf"), address: freeAddress(t)}
	monitor := freeAddress(t)
	n.monitor = "http://" + monitor
	text := fmt.Sprintf("listen: %q\nhttp: %q\njetstream { store_dir: %q, sync_interval: always }\n%s\n",
		n.address, monitor, filepath.Join(t.TempDir(), "store"), more)
	if err := os.WriteFile(n.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start()
	return n
}

// start starts the process.
func (n *natsProcess) start() {
	n.t.Helper()
	program, err := natsProgram()
	if err != nil {
		n.t.Fatalf("%v: %s", err, program)
	}
	n.cmd = exec.Command(program, "-c", n.conf)
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.kill)
	ledgertest.WaitFor(n.t, "the NATS server to listen", func() bool {
		status, _, err := sendTo(http.MethodGet, n.monitor+"/healthz?js-server-only=true", "", nil)
		return err == nil && status == http.StatusOK
	})
}

// kill ends the process as a crash does.
func (n *natsProcess) kill() {
	_ = n.cmd.Process.Kill() // it may have ended already
	_, _ = n.cmd.Process.Wait()
}

// documentedNATS is a NATS server with the documented configuration, or one like it.
type documentedNATS struct {
	*natsProcess
}

// Passwords of the documented configuration.
var documentedUsers = map[string]string{
	"allot-log": "ALLOT_LOG_PASSWORD", "allot-door": "ALLOT_DOOR_PASSWORD", "nova": "NOVA_PASSWORD", "eve": "EVE_PASSWORD",
	"root": "ROOT_PASSWORD",
}

// documentedAccounts are the accounts of the documented configuration, with changes.
func documentedAccounts(t *testing.T, change ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, accounts, found := strings.Cut(string(text), "\naccounts {")
	if !found {
		t.Fatal("no accounts in the documented configuration")
	}
	changed := strings.NewReplacer(change...).Replace(accounts)
	if (len(change) > 0) != (changed != accounts) {
		t.Fatalf("%q changes nothing", change)
	}
	for _, variable := range documentedUsers {
		changed = strings.ReplaceAll(changed, "$"+variable, "secret-"+variable)
	}
	return "max_payload: 8MB\naccounts {" + changed
}

func startDocumented(t *testing.T, change ...string) *documentedNATS {
	t.Helper()
	return &documentedNATS{startNATSProcess(t, documentedAccounts(t, change...))}
}

// as is the URL of a user.
func (d *documentedNATS) as(user string) string {
	return "nats://" + user + ":secret-" + cmp.Or(documentedUsers[user], user) + "@" + d.address
}
