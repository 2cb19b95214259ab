package placementdbtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Placement is OpenStack's Placement on a database.
type Placement struct {
	Process *launchtest.Server // once it serves
	dir     string
}

// NewPlacement prepares a Placement, which makes the tables that the database lacks when it
// is served. It skips the test where Placement is not installed.
func NewPlacement(t testing.TB, connection string) *Placement {
	t.Helper()
	if exec.Command("/usr/bin/python3", "-c", "import placement").Run() != nil {
		t.Skip("skipped: OpenStack Placement is not installed: apt-get install python3-placement")
	}
	for _, program := range []string{"uwsgi", "placement-manage"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: there is no %s: apt-get install python3-placement uwsgi-core uwsgi-plugin-python3", program)
		}
	}
	p := &Placement{dir: t.TempDir()}
	for name, text := range map[string]string{
		"placement.conf": fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = %s\n"+
			"sync_on_startup = True\n[oslo_policy]\nenforce_new_defaults = False\nenforce_scope = False\n", connection),
		"app.py": "from placement.wsgi import init_application\napplication = init_application()\n",
	} {
		ledgertest.OK(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
	}
	return p
}

// Sync makes the tables, where the Placement is not served yet.
func (p *Placement) Sync(t testing.TB) {
	t.Helper()
	launchtest.Output(t, exec.Command("placement-manage", "--config-file", p.Config(), "db", "sync"))
}

// Config is the path of placement.conf, which has the address of the database.
func (p *Placement) Config() string { return filepath.Join(p.dir, "placement.conf") }

// Serve starts the service until the test ends, and returns its URL.
func (p *Placement) Serve(t *testing.T) string {
	t.Helper()
	address, _ := FreePort(t)
	log := filepath.Join(p.dir, "uwsgi.log")
	cmd := exec.Command("uwsgi", "--plugin", "python3", "--http-socket", address, "--wsgi-file",
		filepath.Join(p.dir, "app.py"), "--need-app", "--enable-threads", "--threads", "4", "--die-on-term",
		"--buffer-size", "65535", "--post-buffering", "65536", "--disable-logging", "--logto", log)
	cmd.Env = append(os.Environ(), "OS_PLACEMENT_CONFIG_DIR="+p.dir)
	p.Process = start(t, address, cmd, syscall.SIGTERM)
	ledgertest.WaitFor(t, "Placement to answer", func() bool {
		answer, err := http.Get("http://" + address + "/")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, func() any {
		text, err := os.ReadFile(log)
		return fmt.Sprintf("%s, %v", text, err)
	})
	return "http://" + address
}
