package main_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// apart are three replicas, each in a network namespace of its own; the test sees all of them.
type apart struct {
	*replicas
	spaces, addresses [3]string
}

// ip runs a command of iproute2.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Skipf("skipped: no network namespaces can be made here: ip %s: %v: %s", args, err, out)
	}
}

// launchApart starts three replicas on an empty ledger.
func launchApart(t *testing.T, flags ...string) *apart {
	t.Helper()
	name := "at" + uuid.NewString()[:6]
	r := &apart{replicas: prepareReplicas(t)}
	ip(t, "link add "+name+" type bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() }) // the machine is left as it was
	net := fmt.Sprintf("10.%d.%d.", 128+os.Getpid()%100, os.Getpid()/100%256)
	ip(t, "addr add "+net+"254/24 dev "+name)
	ip(t, "link set "+name+" up")
	for i := range r.spaces {
		r.spaces[i], r.addresses[i] = fmt.Sprint(name, "-", i), fmt.Sprint(net, i+1)
		r.members[i] = r.addresses[i] + ":6222"
		ip(t, "netns add "+r.spaces[i])
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", r.spaces[i]).Run() }) // as above
		ip(t, "link add "+r.spaces[i]+" type veth peer name eth0 netns "+r.spaces[i])
		ip(t, "link set "+r.spaces[i]+" master "+name+" up")
		for _, device := range []string{"lo", "eth0"} {
			ip(t, "-n "+r.spaces[i]+" link set "+device+" up")
		}
		ip(t, "-n "+r.spaces[i]+" addr add "+r.addresses[i]+"/24 dev eth0")
	}
	allot(t, true, "init", "--data", r.data(0))
	for i, space := range r.spaces {
		r.program = filepath.Join(r.dir, "in-"+space)
		script := fmt.Sprintf("#!/bin/sh\nexec ip netns exec %s %s \"$@\"\n", space, binary)
		if err := os.WriteFile(r.program, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		at := r.addresses[i] + ":8778"
		r.begin(i, append(flags, "--http", at, "--nats", "", "--allow-noauth", "--cluster-plaintext",
			"--cluster-http", r.addresses[i]+":6223")...)
		r.list[i].HTTP = at
	}
	for _, s := range r.list {
		s.waitReady()
	}
	return r
}

// cut closes the ways between a replica and the others, or opens them ("add" or "del").
func (r *apart) cut(one int, how string) {
	r.t.Helper()
	for other := range r.spaces {
		if other != one {
			ip(r.t, "-n "+r.spaces[one]+" route "+how+" blackhole "+r.addresses[other]+"/32")
			ip(r.t, "-n "+r.spaces[other]+" route "+how+" blackhole "+r.addresses[one]+"/32")
		}
	}
}

// TestPartition: when the leader is cut off from the others, another one leads and takes
// writes. The one that is cut off answers what may be old, and nothing else. Afterwards all hold
// everything that was acknowledged. make simulate does the same in many more ways, on simulated
// machines; this is the real network.
func TestPartition(t *testing.T) {
	t.Parallel()
	r := launchApart(t, "--pace-cluster-wait", "1s")
	alone := r.leader()
	s, other := r.list[alone], r.list[(alone+1)%3]
	s.Must(http.StatusCreated, "PUT", "/traits/CUSTOM_BEFORE", "")
	l := r.load((alone+1)%3, (alone+2)%3)
	l.goOn(t, 20)
	r.cut(alone, "add")
	ledgertest.WaitFor(t, "a leader of the others", func() bool {
		_, h := other.standing("/healthz")
		return h.Leader != "" && h.Leader != fmt.Sprint(alone+1)
	})
	ledgertest.WaitFor(t, "a write through the others", func() bool {
		status, err := putTrait(http.DefaultClient, other.HTTP, "CUSTOM_BESIDE")
		return err == nil && status == http.StatusCreated
	})
	var h standing
	ledgertest.WaitFor(t, "a replica that is not ready", func() bool {
		status := 0
		status, h = s.standing("/readyz")
		return status == http.StatusServiceUnavailable && h.Reads != "ok" && h.Commands != "ok"
	}, func() any { return h })
	if status, _ := s.standing("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	s.Must(http.StatusServiceUnavailable, "GET", "/traits", "")
	s.Must(http.StatusServiceUnavailable, "PUT", "/traits/CUSTOM_AFTER", "")
	if text := s.mustStale("/traits"); !strings.Contains(text, "CUSTOM_BEFORE") {
		t.Errorf("what may be old is %s", text)
	}
	r.cut(alone, "del")
	s.waitReady()
	l.rest()
	for _, s := range r.list {
		l.holds(t, s)
	}
}
