package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// documented are the blocks of commands of a document, in order, without the one that sets
// variables, whose names it returns.
func documented(t *testing.T, path string) (blocks, variables []string) {
	t.Helper()
	text := read(t, path)
	fence := regexp.MustCompile("(?ms)^ *```\n(.*?)^ *```$")
	assignment := regexp.MustCompile(`(?m)^([A-Z_]+)=`)
	command := regexp.MustCompile(`^\s*(allot|allot-migrate|placement-manage|mariadb|curl) `)
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch {
		case assignment.MatchString(block[1]):
			for _, name := range assignment.FindAllStringSubmatch(block[1], -1) {
				variables = append(variables, name[1])
			}
		case command.MatchString(block[1]):
			blocks = append(blocks, strings.TrimSpace(block[1]))
		}
	}
	return blocks, variables
}

// documentWorld is what the commands of docs/migrate.md meet.
type documentWorld struct {
	*testing.T
	dir    string
	values map[string]string // of the document's variables
	back   *placementdbtest.Placement
	server *placementdbtest.Server
	serves *exec.Cmd
	proxy  *exec.Cmd
}

// run runs a block as a shell would.
func (w *documentWorld) run(block string) *exec.Cmd {
	cmd := exec.Command("bash", "-euc", block)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(launchtest.Program(name))+":"+os.Getenv("PATH"), "OS_TOKEN=admin",
		"HOME="+w.dir, "ALLOT_NATS="+ledgertest.FreeAddress(w.T)) // the default may be another process's
	for name, value := range w.values {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// stop ends a server that a block has started.
func stop(server **exec.Cmd) {
	if *server != nil {
		_ = (*server).Process.Signal(os.Interrupt) // it may have ended
		_ = (*server).Wait()
		*server = nil
	}
}

// serve runs a block that starts a server, and waits until it answers.
func (w *documentWorld) serve(server **exec.Cmd, block, url string) {
	w.Helper()
	stop(server)
	*server = w.run("exec " + block)
	must(w, (*server).Start())
	ledgertest.WaitFor(w.T, url, func() bool {
		answer, err := http.Get(url)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// TestMigrateDocument runs the commands of docs/migrate.md as they are written, against an
// OpenStack Placement on MariaDB and the database of an Ironic.
func TestMigrateDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it starts a database server and Placements")
	}
	if _, err := exec.LookPath("mariadb"); err != nil {
		t.Skip("skipped: there is no client of MariaDB: apt-get install mariadb-client")
	}
	server := placementdbtest.MariaDB(t)
	p := newRealPlacement(t, server, "now")
	p.url = p.Serve(t)
	p.play("hosts.txt")
	w := &documentWorld{T: t, dir: t.TempDir(), server: server}
	t.Cleanup(func() { stop(&w.serves) })
	t.Cleanup(func() { stop(&w.proxy) })
	server.Create(t, "back")
	w.back = placementdbtest.NewPlacement(t, server.Connection("back"))
	ironic := filepath.Join(w.dir, "ironic.conf")
	w.file("ironic.conf", "[DEFAULT]\n[database]\nconnection = sqlite:///"+ironicdbtest.SQLite(t)+"\n")
	address, _ := placementdbtest.FreePort(t)
	proxy, _ := placementdbtest.FreePort(t)
	admin, _ := placementdbtest.FreePort(t)
	w.values = map[string]string{
		"PLACEMENT": p.url, "PLACEMENT_CONF": p.Config(), "IRONIC_CONF": ironic, "ALLOT": address,
		"DATA": filepath.Join(w.dir, "allot"), "BACK": "set later", "BACK_CONF": w.back.Config(),
		"PROXY": proxy, "PROXY_ADMIN": admin,
	}
	blocks, variables := documented(t, "../../docs/migrate.md")
	for _, name := range variables {
		if w.values[name] == "" {
			t.Errorf("the document's variable %s has no value here", name)
		}
	}
	if len(variables) != len(w.values) || len(blocks) < 19 {
		t.Fatalf("the document has the variables %q and %d blocks of commands", variables, len(blocks))
	}
	for _, block := range blocks {
		w.step(block)
	}
}

func (w *documentWorld) file(name, text string) {
	w.Helper()
	write(w, filepath.Join(w.dir, name), text)
}

// step runs one block, and what its reader is told to do beside it.
func (w *documentWorld) step(block string) {
	w.Helper()
	switch {
	case strings.Contains(block, "allot serve"):
		w.serve(&w.serves, block, "http://"+w.values["ALLOT"]+"/readyz")
		return
	case strings.Contains(block, "allot-migrate shadow --upstream"):
		w.serve(&w.proxy, block, "http://"+w.values["PROXY_ADMIN"]+"/shadow")
		return
	case strings.Contains(block, "--into"):
		stop(&w.serves) // the document says so
	case strings.HasPrefix(block, "mariadb"):
		// The tables of another database, and the client's own configuration.
		w.server.Create(w.T, "placement")
		placementdbtest.NewPlacement(w.T, w.server.Connection("placement")).Sync(w.T)
		at, err := url.Parse("//" + w.server.Host)
		must(w, err)
		w.file(".my.cnf", fmt.Sprintf("[client]\nhost=%s\nport=%s\nuser=placement\npassword=%q\n", at.Hostname(), at.Port(), placementdbtest.Password))
	case strings.Contains(block, "--with $BACK"):
		w.values["BACK"] = w.back.Serve(w.T)
	}
	out, err := w.run(block).CombinedOutput()
	if err != nil {
		w.Fatalf("%s: %v\n%s", block, err, out)
	}
	if strings.Contains(block, "compare placement") && !strings.Contains(string(out), "no differences") {
		w.Errorf("%s: %s", block, out)
	}
}
