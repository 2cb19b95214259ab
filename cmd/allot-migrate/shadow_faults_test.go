package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
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
	must(c.T, c.follower.Cmd.Process.Signal(syscall.SIGSTOP))
	outage()
	must(c.T, c.follower.Cmd.Process.Signal(syscall.SIGCONT))
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
