package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// realCloud is OpenStack's Placement on MariaDB, an Allot with what was imported from it, and
// the proxy in front of both.
type realCloud struct {
	*shadowed
	placement *realPlacement
	database  *placementdbtest.Server
	ledger    string // folder of Allot
}

// newCloud skips the test where Placement or MariaDB is missing.
func newCloud(t *testing.T, flags ...string) *realCloud {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: it starts a database server and a Placement")
	}
	c := &realCloud{database: placementdbtest.MariaDB(t), ledger: filepath.Join(t.TempDir(), "data")}
	c.placement = newRealPlacement(t, c.database, "placement")
	c.placement.url = c.placement.Serve(t)
	c.placement.fill()
	migrate(t, true, "import", "placement", "--from-file", c.placement.Config(), "--data", c.ledger)
	c.shadowed = launchShadow(t, c.placement.url, launchtest.Launch(t, c.ledger), flags...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.8000s", c.Logs)
		}
	})
	c.settled(false)
	return c
}

// asPlacementBears is the pause of 4 clients that Placement keeps up with on two cores: with
// more, the longer Allot leads the longer it takes until Placement may lead again.
const asPlacementBears = 50 * time.Millisecond

// roomy gives the hosts room for the load, through the proxy.
func (c *realCloud) roomy() {
	c.T.Helper()
	for i := range realHosts {
		path := "/resource_providers/" + realID(2, i)
		generation := numberAt(c.T, c.Must(200, "GET", path, ""), "generation")
		c.Must(200, "PUT", path+"/inventories", fmt.Sprintf(
			`{"resource_provider_generation": %d, "inventories": {"VCPU": {"total": 1000000}}}`, generation))
	}
}

// placementServes waits until Placement itself answers what it reads from its database.
func (c *realCloud) placementServes() {
	c.T.Helper()
	ledgertest.WaitFor(c.T, "Placement", func() bool {
		for range 20 { // some of its threads may still have a connection to the database that has ended
			status, _, err := launchtest.Send("GET", c.placement.url+"/resource_providers/"+realID(2, 0)+"/inventories", "",
				map[string]string{"X-Auth-Token": "admin"})
			if err != nil || status != http.StatusOK {
				return false
			}
		}
		return true
	})
}

func (c *realCloud) killAllot() {
	c.follower.Kill()
	outage()
	c.follower = launchtest.Resume(c.T, c.ledger, c.follower.HTTP)
}

func (c *realCloud) stopAllot() {
	if err := c.follower.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		c.T.Fatal(err)
	}
	outage()
	if err := c.follower.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		c.T.Fatal(err)
	}
}

func (c *realCloud) killPlacement() {
	c.placement.Process.Kill()
	outage()
	c.placement.Process.Start()
	c.placementServes()
}

func (c *realCloud) restartMariaDB() {
	c.database.Process.Stop()
	outage()
	c.database.Process.Start()
	c.placementServes()
}

func (c *realCloud) killProxy() {
	c.Kill()
	c.launch(c.T)
}

// outage is how long a fault lasts. It is no synchronisation: any time must do.
func outage() {
	lasts := time.Second
	if os.Getenv("ALLOT_FAULTS") == "all" {
		lasts *= 5
	}
	time.Sleep(lasts)
}

// TestShadowFaultsRealPlacement injects faults under load while OpenStack's Placement leads,
// and while Allot does. No request fails but those that the leader alone would not have
// answered, and in the end the contents are equal.
func TestShadowFaultsRealPlacement(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") == "" {
		t.Skip("skipped: it takes minutes; ALLOT_FAULTS=all runs it, TestShadowFaults a part of it")
	}
	t.Parallel()
	c := newCloud(t)
	c.roomy()
	const rounds = 10
	faults := []struct {
		name  string
		does  func()
		fails string // whose clients miss it: the leader's name, or "proxy"
	}{
		{"Allot is killed", c.killAllot, "allot"},
		{"Allot is stopped", c.stopAllot, ""}, // those who wait get their answers
		{"Placement is killed", c.killPlacement, "placement"},
		{"MariaDB is restarted", c.restartMariaDB, "placement"},
		{"the proxy is killed", c.killProxy, "proxy"},
	}
	for round := range rounds {
		for _, lead := range []string{"placement", "allot"} {
			w := c.load(4, asPlacementBears)
			for _, fault := range faults {
				w.more(20)
				before := w.excused.Load()
				w.excuse.Store(fault.fails == lead || fault.fails == "proxy")
				began := time.Now()
				fault.does()
				w.more(8) // those that were under way have their answers
				w.excuse.Store(false)
				t.Logf("FAULT round %d, %s leads, %s: %d requests excused, within %v", round+1, lead, fault.name,
					w.excused.Load()-before, time.Since(began).Round(time.Millisecond))
			}
			w.ended()
			c.settled(true)
			next := map[string]string{"placement": "allot", "allot": "placement"}[lead]
			c.leads(next)
		}
	}
	c.settled(true)
}

// TestShadowLoadGenerator changes the lead to and fro under the load generator, whose
// requests all succeed, on OpenStack's Placement. Afterwards the contents are equal, and
// each side goes on alone: only the address changes.
func TestShadowLoadGenerator(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") != "all" {
		t.Skip("skipped: it takes minutes; ALLOT_FAULTS=all runs it")
	}
	source, err := filepath.Abs("../../../shared/loadgen")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(source); err != nil {
		t.Skip("skipped: no load generator beside the project")
	}
	t.Parallel()
	generator := filepath.Join(t.TempDir(), "loadgen")
	build := exec.Command("go", "build", "-o", generator, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := newCloud(t)
	run := func(url, label string, args ...string) {
		cmd := exec.Command(generator, append([]string{"-url", url, "-providers", "20", "-label", label}, args...)...)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || strings.Contains(string(out), `"errors"`) || !strings.Contains(string(out), `"ops"`) {
			t.Errorf("%s: a request has failed, or none was sent: %v", label, err)
		}
	}
	through := "http://" + c.HTTP
	run(through, "setup", "-s", "setup")
	var changed atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !changed.Load() { // Placement may take long to catch up with what Allot took
			run(through, "through the proxy", "-s", "mixed", "-c", "1", "-d", "5s", "-retries", "100")
		}
	}()
	t.Cleanup(func() { changed.Store(true); <-ended })
	for _, side := range []string{"allot", "placement"} {
		time.Sleep(time.Second) // some load before each change; any time must do
		c.leads(side)
	}
	changed.Store(true)
	<-ended
	c.settled(true)
	c.Terminate() // without the proxy each side serves the same clients
	run(c.placement.url, "Placement alone", "-s", "mixed", "-c", "2", "-d", "2s")
	run("http://"+c.follower.HTTP, "Allot alone", "-s", "mixed", "-c", "2", "-d", "2s")
}
