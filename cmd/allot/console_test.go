package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

const scripts = "testdata/console"

// TestConsole uses every page of the console in a real browser, on a ledger of
// real commands with hostile names among them.
func TestConsole(t *testing.T) {
	t.Parallel()
	s, address := startForBrowser(t)
	browse(t, "fill.mjs", "http://"+s.HTTP, "48")
	reserve(t, s, address)
	browse(t, "console.mjs", "http://"+s.HTTP)
}

// TestConsoleManyProviders uses the console with 22,000 providers: what a page
// holds does not grow with them.
func TestConsoleManyProviders(t *testing.T) {
	t.Parallel()
	s, address := startForBrowser(t)
	makeMany(t, address, 22_000)
	browse(t, "many.mjs", "http://"+s.HTTP)
}

// TestConsoleOfReplicas: the overview of every server says who leads, who follows
// and who is away.
func TestConsoleOfReplicas(t *testing.T) {
	t.Parallel()
	launchtest.NeedBrowser(t, scripts)
	r := launchReplicas(t)
	leader := r.leader()
	follower, lost := (leader+1)%3, (leader+2)%3
	name := func(i int) string { return fmt.Sprint(i + 1) }
	leads, url := name(leader)+" leads term", func(i int) string { return "http://" + r.list[i].HTTP }
	browse(t, "cluster.mjs", url(leader), url(follower), fmt.Sprint(r.list[lost].Cmd.Process.Pid),
		leads+","+name(leader)+" leader,"+name(lost)+" follower", leads+","+name(follower)+" follower,"+name(lost)+" away")
}

// TestConsoleScreenshots makes pictures for the documentation in the folder that
// ALLOT_SCREENSHOTS names: see make screenshots.
func TestConsoleScreenshots(t *testing.T) {
	folder := os.Getenv("ALLOT_SCREENSHOTS")
	if folder == "" {
		t.Skip("skipped: ALLOT_SCREENSHOTS names no folder")
	}
	t.Setenv("ALLOT_DEMO", "true")
	s, address := startForBrowser(t)
	browse(t, "fill.mjs", "http://"+s.HTTP, "960")
	reserve(t, s, address)
	browse(t, "screenshots.mjs", "http://"+s.HTTP, folder)
}

// startForBrowser starts a server, unless there is no browser.
func startForBrowser(t *testing.T) (s *server, natsAddress string) {
	t.Helper()
	launchtest.NeedBrowser(t, scripts)
	natsAddress = freeAddress(t)
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "ops.example", key)
	return launch(t, t.TempDir(), "--nats", natsAddress, "--signing-key", key), natsAddress
}

// browse runs a script of testdata/console.
func browse(t *testing.T, script string, args ...string) {
	t.Helper()
	launchtest.Browse(t, scripts+"/"+script, args...)
}

// submitting returns a function that submits commands over NATS, all or none.
func submitting(t *testing.T, address string) func(...commands.Command) {
	t.Helper()
	c := client.New(dial(t, "nats://"+address), client.Options{})
	return func(list ...commands.Command) {
		t.Helper()
		_, err := c.SubmitAtomic(patiently(t), commandstest.NewID(), list...)
		must(t, err)
	}
}

// reserve makes a reservation that ends soon.
func reserve(t *testing.T, s *server, address string) {
	t.Helper()
	var found struct {
		Providers []struct{ UUID ledger.UUID } `json:"resource_providers"`
	}
	answer := s.Must(http.StatusOK, "GET", "/resource_providers?name=host-040", "")
	if err := json.Unmarshal([]byte(answer), &found); err != nil || len(found.Providers) != 1 {
		t.Fatalf("%s: %v", answer, err)
	}
	allocate := commandstest.Allocate(commandstest.NewID(), found.Providers[0].UUID, "VCPU", 1)
	allocate.Allocations[0].Project = "reserving"
	submitting(t, address)(&commands.Reserve{Allocations: allocate.Allocations, Seconds: 14 * 60})
}

// makeMany makes providers: trees of one, and every hundredth with two below it.
func makeMany(t *testing.T, address string, providers int) {
	t.Helper()
	submit := submitting(t, address)
	const together = 500 // in a commit, and in a message of 128 KiB at most
	var list []commands.Command
	add := func(name string, i int, parent ledger.UUID) ledger.UUID {
		id := commandstest.NewID()
		list = append(
			list, &commands.CreateProvider{Provider: id, Name: name, Parent: parent},
			&commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{{Class: "VCPU", Total: int64(8 + i%56)}}},
		)
		if i%3 > 0 {
			list = append(list, commandstest.Allocate(commandstest.NewID(), id, "VCPU", int64(1+i%8)))
		}
		providers--
		return id
	}
	for i := 0; providers > 0; i++ {
		root := add(fmt.Sprintf("host-%06d", i), i, ledger.UUID{})
		for n := 0; n < 2 && i%100 == 0; n++ {
			add(fmt.Sprintf("host-%06d numa%d", i, n), i, root)
		}
		if len(list) >= together || providers <= 0 {
			submit(list...)
			list = nil
		}
	}
}

// TestConsoleFiles: the server serves the page's own files and nothing else, with
// a policy that lets the page use nothing else.
func TestConsoleFiles(t *testing.T) {
	s := launch(t, t.TempDir())
	for path, want := range map[string]int{
		"/console/": 200, "/console/style.css": 200, "/console/js/main.js": 200, "/console/uplot/LICENSE": 200,
		"/console/nothing": 404, "/console/..%2fconsole.go": 404, "/console/js/..%2f..%2fconsole.go": 404,
	} {
		resp, _, err := launchtest.Exchange("GET", "http://"+s.HTTP+path, "", nil)
		must(t, err)
		policy := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != want || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %q", path, resp.StatusCode, policy)
		}
	}
}
