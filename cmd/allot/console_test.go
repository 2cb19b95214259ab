package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// hostileName is a name that a client may give a provider.
const hostileName = `<img src=x onerror="window.pwned=1">"><script>window.pwned=1</script>`

// TestConsole uses the console in a real browser, on a ledger of more than 10,000
// providers with hostile names among them. ALLOT_SCREENSHOTS names a folder for
// screenshots.
func TestConsole(t *testing.T) {
	chromium := "/usr/bin/chromium"
	if _, err := os.Stat(chromium); err != nil {
		t.Skip("skipped: chromium is not installed")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	if _, err := os.Stat("testdata/console/node_modules/playwright-core"); err != nil {
		t.Skip("skipped: playwright-core is not installed (npm ci in cmd/allot/testdata/console)")
	}
	folder := os.Getenv("ALLOT_SCREENSHOTS")
	if folder == "" {
		folder = t.TempDir()
	}
	address, key := freeAddress(t), filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "ops.example", key)
	s := launch(t, t.TempDir(), "--nats", address, "--signing-key", key, "--audit-every", "1s")
	populate(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	browser := exec.CommandContext(ctx, node, "testdata/console/console.mjs", "http://"+s.http, folder)
	out, err := browser.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// populate fills a ledger with what console.mjs looks for.
func populate(t *testing.T, address string) {
	t.Helper()
	nc, err := nats.Connect("nats://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, client.Options{})
	must := func(list ...commands.Command) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.SubmitAtomic(ctx, commandstest.NewID(), list...); err != nil {
			t.Fatal(err)
		}
	}
	hosts := make([]ledger.UUID, 8000)
	for i := range hosts {
		hosts[i] = commandstest.NewID()
	}
	inventories := func(i int) []commands.Inventory {
		return []commands.Inventory{
			{Class: "VCPU", Total: int64(16 + i%48)}, {Class: "MEMORY_MB", Total: 65536, Reserved: 512},
			{Class: "DISK_GB", Total: 2000},
		}
	}
	must(
		&commands.CreateProvider{Provider: hosts[0], Name: "host-00000"},
		&commands.ReplaceInventories{Provider: hosts[0], Inventories: inventories(0)},
	)
	hostile := commandstest.NewID()
	must(
		&commands.CreateProvider{Provider: hostile, Name: hostileName},
		&commands.ReplaceInventories{Provider: hostile, Inventories: inventories(1)},
	)
	for i := range 30 {
		consumer := ledger.UUID{}
		if err := consumer.UnmarshalText(fmt.Appendf(nil, "22222222-2222-4222-8222-%012d", i)); err != nil {
			t.Fatal(err)
		}
		for amount := int64(1); amount < 4; amount++ {
			allocate := commandstest.Allocate(consumer, []ledger.UUID{hosts[0], hostile}[i%2], "MEMORY_MB", 512*amount)
			allocate.Allocations[0].Project, allocate.Allocations[0].AnyGeneration = "<b>project</b>", true
			allocate.Allocations[0].Resources = append(allocate.Allocations[0].Resources, commands.ProviderAllocation{
				Provider: allocate.Allocations[0].Resources[0].Provider, Class: "VCPU", Amount: 1,
			})
			must(allocate)
		}
		if i == 17 {
			must(&commands.ReleaseConsumer{Consumer: consumer})
		}
	}
	var list []commands.Command
	for i, id := range hosts[1:] {
		list = append(list, &commands.CreateProvider{Provider: id, Name: fmt.Sprintf("host-%05d", i+1)})
		if i < 1000 {
			list = append(list, &commands.ReplaceInventories{Provider: id, Inventories: inventories(i)})
		}
	}
	must(list...)
	list = nil
	for i, id := range hosts[:1200] {
		for n := range 2 {
			list = append(
				list,
				&commands.CreateProvider{Provider: commandstest.NewID(), Name: fmt.Sprintf("host-%05d numa%d", i, n), Parent: id},
			)
		}
	}
	must(list...)
}

// TestConsoleFiles: the server serves the page's own files and nothing else, with
// a policy that lets the page use nothing else.
func TestConsoleFiles(t *testing.T) {
	s := launch(t, t.TempDir())
	for path, want := range map[string]int{
		"/console/": 200, "/console/style.css": 200, "/console/js/main.js": 200, "/console/uplot/LICENSE": 200,
		"/console/nothing": 404, "/console/..%2fconsole.go": 404, "/console/js/..%2f..%2fconsole.go": 404,
	} {
		resp, err := http.Get("http://" + s.http + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // nothing was written
		policy := resp.Header.Get("Content-Security-Policy")
		if resp.StatusCode != want || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d, %q", path, resp.StatusCode, policy)
		}
	}
}
