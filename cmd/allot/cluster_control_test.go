package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// controlled is the program with switches that turn off what makes Allot safe. No
// other build has them.
var controlled = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "allot-control")
	out, err := launchtest.Build(path, "-tags", "allot_control,allot_paces", ".")
	if err != nil {
		return string(out), err
	}
	return path, nil
})

func launchControlled(t *testing.T, env []string, flags ...string) *faultyCluster {
	t.Helper()
	program, err := controlled()
	if err != nil {
		t.Fatalf("%v: %s", err, program)
	}
	return launchFaulty(t, program, env, flags...)
}

// TestClusterControls: without the look at the lease, and without the condition
// of an append, the test of faults finds a fault.
func TestClusterControls(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") == "" {
		t.Skip("skipped: it takes minutes; ALLOT_FAULTS=all runs it")
	}
	for _, control := range []string{"lease", "fencing"} {
		t.Run(control, func(t *testing.T) {
			c := launchControlled(t, []string{"ALLOT_CONTROL=" + control})
			for seed := int64(1); seed <= 5; seed++ {
				var r result
				if control == "lease" {
					r = c.play(seed, 14*time.Second, faultNamed("the leader is cut off from the others"))
				} else {
					r = c.play(seed, 12*time.Second, faultNamed("the leader's process stands still"))
				}
				t.Logf("seed %d: %d answers, %d open: %.300q", seed, r.answered, r.unknown, r.wrong)
				if len(r.wrong) > 0 {
					tell(t, "negative control of replicas: without "+control, int(seed), "found")
					return
				}
			}
			t.Error("nothing is found to be wrong: the test of faults proves nothing")
		})
	}
}

// TestWedgedLog: a log that is silent while its servers say that they are well
// raises an alarm in the server's log, in /readyz of all replicas and in the
// metrics. The alarm ends when the log goes on.
func TestWedgedLog(t *testing.T) {
	if os.Getenv("ALLOT_FAULTS") == "" {
		t.Skip("skipped: it takes a minute of all processors; ALLOT_FAULTS=all runs it")
	}
	withhold := filepath.Join(t.TempDir(), "withhold")
	c := launchControlled(t, []string{"ALLOT_CONTROL_WITHHOLD=" + withhold}, "--pace-cluster-wait", "1s", "--metrics", "127.0.0.1:9778")
	id := uuid.NewString()
	if err := c.makeProvider(id, 10); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(withhold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := repeat(func() time.Duration {
		_, _, _, _ = c.nodes[0].request( // its outcome is checked below
			c.client, 5*time.Second, http.MethodPut, "/traits/CUSTOM_"+strings.ReplaceAll(strings.ToUpper(uuid.NewString()), "-", "_"), "", nil,
		)
		return 100 * time.Millisecond
	})
	defer stop()
	wedged := func() (told int) {
		for _, n := range c.nodes {
			if status, h := n.health("/readyz"); status == http.StatusServiceUnavailable && h.isWedged() {
				told++
			}
		}
		return told
	}
	ledgertest.WaitFor(t, "the alarm", func() bool { return wedged() == 3 })
	leader := c.leader()
	metrics := func() string {
		out, err := exec.Command("ip", "netns", "exec", c.network.space(byte(leader+1)),
			"curl", "-s", "http://127.0.0.1:9778/metrics").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if text := metrics(); !strings.Contains(text, "allot_log_wedged 1") {
		t.Errorf("the metrics do not say so:\n%s", text)
	}
	c.nodes[leader].server().waitLog("the log is wedged")
	if err := os.Remove(withhold); err != nil {
		t.Fatal(err)
	}
	if err := c.ready(); err != nil {
		t.Error(err)
	}
	if text := metrics(); !strings.Contains(text, "allot_log_wedged 0") {
		t.Errorf("the metrics still say so:\n%s", text)
	}
}

// writesBeside requires a write by way of another replica than the one whose disk is full.
func (s *scene) writesBeside(full int) {
	s.t.Helper()
	trait := "/traits/CUSTOM_" + strings.ReplaceAll(strings.ToUpper(uuid.NewString()), "-", "_")
	ledgertest.WaitFor(s.t, "a write beside a full disk", func() bool {
		status, _, _, err := s.nodes[others(full)[0]].request(s.client, time.Minute, http.MethodPut, trait, "", nil)
		return err == nil && (status == http.StatusCreated || status == http.StatusNoContent)
	})
}

// TestFullDiskOfAReplica: a replica whose disk is full is not asked to lead while another one can,
// and a leader whose disk has become full lets another one lead by itself. The others take
// writes meanwhile.
func TestFullDiskOfAReplica(t *testing.T) {
	t.Parallel()
	c := launchFaulty(t, binary, nil)
	s := &scene{faultyCluster: c, leads: c.leader()}
	full := others(s.leads)[0]
	empty := s.fill(s.nodes[full])
	for range 2 {
		s.stepDown(s.nodes[full])
		ledgertest.WaitFor(t, "a leader", func() bool { return c.leader() >= 0 })
		if c.leader() == full {
			t.Error("the replica with the full disk leads")
		}
	}
	s.writesBeside(full)
	empty()
	if err := c.ready(); err != nil {
		t.Fatal(err)
	}
	full = c.leader()
	empty = s.fill(s.nodes[full])
	ledgertest.WaitFor(t, "another leader", func() bool {
		leads := c.leader()
		return leads >= 0 && leads != full
	})
	s.writesBeside(full)
	empty()
	if err := c.ready(); err != nil {
		t.Error(err)
	}
}
