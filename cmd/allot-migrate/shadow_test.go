package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/shadow"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// shadowed is a proxy in front of a Placement, whose part another Allot may take, and an
// Allot.
type shadowed struct {
	*launchtest.Server        // the proxy
	upstream           string // URL of the Placement
	follower           *launchtest.Server
	address            string // for clients
	admin              string
	data               string
	flags              []string
}

func launchShadow(t *testing.T, upstream string, follower *launchtest.Server, flags ...string) *shadowed {
	t.Helper()
	s := &shadowed{
		address: ledgertest.FreeAddress(t), upstream: upstream, follower: follower, data: t.TempDir(),
		admin: ledgertest.FreeAddress(t), flags: flags,
	}
	s.launch(t)
	return s
}

// launch starts the proxy, at the same addresses each time.
func (s *shadowed) launch(t *testing.T) {
	t.Helper()
	s.Server = launchtest.Start(t, s.address, name, []string{"OS_TOKEN=admin"}, append([]string{
		"shadow", "--upstream", s.upstream, "--allot", "http://" + s.follower.HTTP, "--http", s.address, "--admin", s.admin, "--data", s.data,
	}, s.flags...)...)
	ledgertest.WaitFor(t, "the proxy", func() bool {
		answer, err := http.Get("http://" + s.admin + "/shadow")
		return err == nil && answer.Body.Close() == nil
	})
}

func (s *shadowed) status() (status shadow.Status) {
	s.T.Helper()
	text := launchtest.Answer(s.T, http.StatusOK, "GET", "http://"+s.admin+"/shadow", "", nil)
	must(s.T, json.Unmarshal([]byte(text), &status))
	return status
}

// settled waits until the follower has everything, and proves it.
func (s *shadowed) settled(ahead bool) {
	s.T.Helper()
	ledgertest.WaitFor(s.T, "the follower", func() bool {
		status := s.status()
		return status.Comparisons > 0 && status.Queue.Requests == 0 && status.Queue.Missed == 0 &&
			status.UnrepairedCount == 0
	})
	cmd := exec.Command(launchtest.Program(name), "compare", "placement", "--with", s.upstream, "--url", s.follower.HTTP, "--samples", "2")
	cmd.Env = append(os.Environ(), "OS_TOKEN=admin")
	// A repair may raise a generation of the follower more often than the leader's.
	higher := regexp.MustCompile(`^(provider .*, generation: .*|allot-migrate: the server and the Placement are not equal: \d+ differences|)$`)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		explained := ahead && higher.MatchString(strings.TrimSpace(line))
		if err != nil && !explained {
			s.T.Fatalf("%v: %.4000s\n%+v\n%.4000s", err, out, s.status(), s.Logs)
		}
	}
}

// leads changes the lead.
func (s *shadowed) leads(side string) {
	s.T.Helper()
	out := migrate(s.T, true, "shadow", "lead", side, "--admin", s.admin, "--wait", ledgertest.Hang.String())
	says(s.T, out, side+" leads")
}

// checkShadowMetrics: docs/migrate.md names each metric, and comparisons are counted.
func checkShadowMetrics(t *testing.T, s *shadowed) {
	t.Helper()
	text := launchtest.Answer(t, http.StatusOK, "GET", "http://"+s.admin+"/metrics", "", nil)
	says(t, text,
		`allot_shadow_compared_total{kind="write",outcome="same"}`,
		`allot_shadow_compared_total{kind="read",outcome="same"}`,
		`allot_shadow_compared_total{kind="refused",outcome="same"}`, `allot_shadow_repaired_total{outcome="mended"}`,
		`allot_shadow_requests_total{code="204",method="PUT",route="/allocations/*",side="allot"}`)
	page := read(t, "../../docs/migrate.md")
	named := 0
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, "# HELP allot_"); is {
			name, _, _ := strings.Cut(rest, " ")
			if named++; !strings.Contains(page, "| `allot_"+name+"` |") {
				t.Errorf("docs/migrate.md does not name allot_%s", name)
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d metrics", named)
	}
}

// worker is a client that allocates, reads generations, allocates again and releases, as
// the load generator does. No request may fail, unless it is excused.
type worker struct {
	s        *shadowed
	to       *launchtest.Server // the proxy's address, whichever process has it
	pause    time.Duration
	requests atomic.Int64
	failed   atomic.Int64
	excuse   atomic.Bool // Placement alone would not answer now either
	excused  atomic.Int64
	end      func() // stops the clients, once
	all      sync.WaitGroup
}

// load runs clients until ended is called. They pause after each request.
func (s *shadowed) load(clients int, pause time.Duration) *worker {
	stop := make(chan struct{})
	w := &worker{s: s, to: &launchtest.Server{T: s.T, HTTP: s.HTTP}, pause: pause}
	w.end = sync.OnceFunc(func() { close(stop); w.all.Wait() })
	s.T.Cleanup(w.end)
	for i := range clients {
		w.all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					if w.failed.Load() > 0 {
						return // more of it says no more
					}
					w.round(uuid.NewString(), i+n)
				}
			}
		})
	}
	return w
}

func (w *worker) round(consumer string, n int) {
	host := rand.IntN(realHosts)
	body := func(amount int, generation string) string {
		return fmt.Sprintf(`{"allocations": {"%s": {"resources": {"VCPU": %d}}}, "project_id": "load", "user_id": "load",
			"consumer_type": "INSTANCE", "consumer_generation": %s}`, realID(2, host), amount, generation)
	}
	path := "/allocations/" + consumer
	if _, ok := w.call(http.StatusNoContent, "PUT", path, body(1, "null")); !ok {
		return
	}
	answer, ok := w.call(http.StatusOK, "GET", path, "")
	if !ok {
		return
	}
	var held struct {
		Generation json.Number `json:"consumer_generation"`
	}
	if err := json.Unmarshal([]byte(answer), &held); err != nil {
		w.failed.Add(1)
		w.to.T.Errorf("%s: %v", answer, err)
	}
	if _, ok := w.call(http.StatusNoContent, "PUT", path, body(2, held.Generation.String())); ok && n%16 != 0 { // some stay
		w.call(http.StatusNoContent, "DELETE", path, "")
	}
}

func (w *worker) call(want int, method, path, body string) (answer string, ok bool) {
	time.Sleep(w.pause)
	excused := w.excuse.Load()
	status, answer, err := w.to.Call(method, path, "", body)
	w.requests.Add(1)
	switch {
	case err == nil && status == want:
		return answer, true
	case excused || w.excuse.Load():
		w.excused.Add(1)
		time.Sleep(20 * time.Millisecond) // as a client would
	default:
		w.failed.Add(1)
		w.to.T.Errorf("%s %s: %d %s, %v", method, path, status, answer, err)
	}
	return answer, false
}

// more waits until the clients have sent more requests.
func (w *worker) more(n int64) {
	w.to.T.Helper()
	until := w.requests.Load() + n
	ledgertest.WaitFor(w.to.T, "requests", func() bool { return w.requests.Load() >= until || w.failed.Load() > 0 })
}

func (w *worker) ended() {
	w.to.T.Helper()
	w.end()
	w.to.T.Logf("%d requests, %d failed, %d were excused", w.requests.Load(), w.failed.Load(), w.excused.Load())
}

// TestShadowFaults: no request fails while the follower is killed, stopped, or too slow for
// the queue; and once it is back it has everything. A leader that is away is named.
func TestShadowFaults(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	a, b := launchtest.Launch(t, first), launchtest.Launch(t, second)
	play(t, "roomy.txt", a.HTTP)
	s := launchShadow(t, "http://"+a.HTTP, b, "--queue-bytes", "65536")
	s.settled(false)
	w := s.load(4, 0)
	w.more(100)
	b.Kill()
	w.more(300) // more than the queue holds
	if status := s.status(); status.Queue.Missed == 0 || status.Unreachable["allot"] == "" {
		t.Errorf("the queue has held everything, so the test tests less than it says: %+v", status.Queue)
	}
	says(t, migrate(t, false, "shadow", "lead", "allot", "--admin", s.admin, "--wait", "1s"), "allot")
	s.follower = launchtest.Resume(t, second, b.HTTP)
	w.more(100)
	must(t, s.follower.Cmd.Process.Signal(syscall.SIGSTOP))
	w.more(300)
	must(t, s.follower.Cmd.Process.Signal(syscall.SIGCONT))
	w.more(100)
	w.ended()
	s.settled(true)
	a.Kill()
	status, answer, err := s.Call("PUT", "/traits/CUSTOM_LATE", "", "")
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(answer, "(placement) does not answer") {
		t.Errorf("%d %s, %v", status, answer, err)
	}
	launchtest.Resume(t, first, a.HTTP)
	s.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_LATE", "")
	s.settled(true)
}

// TestShadowLead changes the lead to and fro under load. No request fails, and the contents are equal afterwards.
// A restart goes on with who led last, and changes that as at any time. What changes behind the proxy is found.
func TestShadowLead(t *testing.T) {
	t.Parallel()
	a, b := launchtest.Launch(t, t.TempDir()), launchtest.Launch(t, t.TempDir())
	play(t, "roomy.txt", a.HTTP)
	s := launchShadow(t, "http://"+a.HTTP, b)
	s.settled(false)
	a.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_BEHIND", "") // the next comparison is due in an hour
	w := s.load(4, 0)
	for _, side := range []string{"allot", "placement", "allot"} {
		w.more(100)
		s.leads(side)
		s.Must(http.StatusNoContent, "GET", "/traits/CUSTOM_BEHIND", "")
		if got := s.status().Lead; got != side {
			t.Errorf("%s leads, and not %s", got, side)
		}
	}
	w.more(100)
	w.ended()
	s.settled(true)
	s.Terminate()
	s.launch(t)
	if lead := s.status().Lead; lead != "allot" {
		t.Error(lead)
	}
	allocate := func(n int) {
		t.Helper()
		s.Must(http.StatusNoContent, "PUT", "/allocations/"+realID(7, n), fmt.Sprintf(`{"allocations": {"%s": {"resources": {"VCPU": 1}}},
			"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": null}`, realID(2, 1)))
	}
	allocate(7)
	s.Terminate()
	a.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_MEANWHILE", "") // while the proxy is down: the leader decides
	s.flags = []string{"--lead", "placement", "--compare-every", "1s"}
	s.launch(t)
	ledgertest.WaitFor(t, "the other one to lead", func() bool { return s.status().Lead == "placement" })
	a.Must(http.StatusNotFound, "GET", "/traits/CUSTOM_MEANWHILE", "")
	s.Must(http.StatusNoContent, "DELETE", "/allocations/"+realID(7, 7), "")
	s.settled(true)

	allocate(1)
	allocate(2)
	s.Must(http.StatusNotFound, "DELETE", "/traits/CUSTOM_NONE", "")
	s.Must(http.StatusNoContent, "GET", "/traits/CUSTOM_BEHIND", "")
	compared := func() bool {
		counts := s.status().Compared
		return counts["refused"]["same"] > 0 && counts["read"]["same"] > 0
	}
	ledgertest.WaitFor(t, "a refusal and an answer to be compared", compared, func() any { return s.status().Compared })
	s.settled(true)
	found := s.status().BehindBack
	a.Must(http.StatusNoContent, "DELETE", "/allocations/"+realID(7, 1), "")
	a.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_LATER", "")
	b.Must(http.StatusNoContent, "DELETE", "/allocations/"+realID(7, 2), "")
	b.Must(http.StatusCreated, "PUT", "/resource_classes/CUSTOM_BEHIND", "")
	ledgertest.WaitFor(t, "what changed behind the proxy", func() bool { return s.status().BehindBack >= found+4 })
	s.settled(true)
	s.Must(http.StatusNoContent, "GET", "/traits/CUSTOM_LATER", "")
	checkShadowMetrics(t, s)
}

// TestShadowPage looks at the page of the proxy in a browser: who leads, and
// differences with both answers, among them a hostile name.
func TestShadowPage(t *testing.T) {
	t.Parallel()
	const scripts = "../allot/testdata/console"
	launchtest.NeedBrowser(t, scripts)
	a, b := launchtest.Launch(t, t.TempDir()), launchtest.Launch(t, t.TempDir())
	s := launchShadow(t, "http://"+a.HTTP, b)
	s.settled(false)
	hostile := `<img src=x onerror=\"window.pwned=1\">`
	b.Must(http.StatusOK, "POST", "/resource_providers", `{"name": "`+hostile+`"}`)
	s.Must(http.StatusOK, "GET", "/resource_providers", "")
	ledgertest.WaitFor(t, "a difference", func() bool { return len(s.status().Differences) > 0 })
	launchtest.Browse(t, scripts+"/shadow.mjs", "http://"+s.admin, "Placement",
		"GET /resource_providers", "Both answers", "<img src=x", "allot-migrate shadow lead allot", "Everything compared", "different")
	html := map[string]string{"Accept": "text/html"}
	says(t, launchtest.Answer(t, http.StatusOK, "GET", "http://"+s.admin+"/shadow", "", html), "<!doctype html>")
}

// TestShadowRealPlacement has OpenStack's Placement followed, makes Allot lead, and goes
// back, under load.
func TestShadowRealPlacement(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	play(t, "every_route.txt", c.HTTP)
	c.settled(false)
	if differences := c.status().Differences; len(differences) > 0 {
		t.Errorf("%+v", differences)
	}
	play(t, "more_room.txt", c.HTTP)
	w := c.load(2, asPlacementBears)
	for _, side := range []string{"allot", "placement"} {
		w.more(40)
		c.leads(side)
	}
	w.more(20)
	w.ended()
	c.settled(true)
}

// realCloud is OpenStack's Placement on MariaDB, an Allot with what was imported from it, and
// the proxy in front of both.
type realCloud struct {
	*shadowed
	placement *realPlacement
	database  *placementdbtest.Server
	ledger    string // folder of Allot
}

// newCloud skips the test where Placement or MariaDB is missing.
func newCloud(t *testing.T) *realCloud {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: it starts a database server and a Placement")
	}
	c := &realCloud{database: placementdbtest.MariaDB(t), ledger: filepath.Join(t.TempDir(), "data")}
	c.placement = newRealPlacement(t, c.database, "placement")
	c.placement.url = c.placement.Serve(t)
	c.placement.play("hosts.txt")
	migrate(t, true, "import", "placement", "--from-file", c.placement.Config(), "--data", c.ledger)
	c.shadowed = launchShadow(t, c.placement.url, launchtest.Launch(t, c.ledger))
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
	play(t, "more_room.txt", c.HTTP)
	const rounds = 10
	faults := []struct {
		name  string
		does  func()
		fails string // whose clients miss it: the leader's name, or "proxy"
	}{
		{"Allot is killed", func() {
			c.follower.Kill()
			outage()
			c.follower = launchtest.Resume(t, c.ledger, c.follower.HTTP)
		}, "allot"},
		{"Allot is stopped", func() {
			must(t, c.follower.Cmd.Process.Signal(syscall.SIGSTOP))
			outage()
			must(t, c.follower.Cmd.Process.Signal(syscall.SIGCONT))
		}, ""}, // those who wait get their answers
		{"Placement is killed", func() {
			c.placement.Process.Kill()
			outage()
			c.placement.Process.Again()
			c.placementServes()
		}, "placement"},
		{"MariaDB is restarted", func() {
			c.database.Process.Terminate()
			outage()
			c.database.Process.Again()
			c.placementServes()
		}, "placement"},
		{"the proxy is killed", func() {
			c.Kill()
			c.launch(t)
		}, "proxy"},
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
