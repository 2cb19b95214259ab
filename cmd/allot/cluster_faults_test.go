package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/simulate/judge"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

// faultyCluster is three replicas, each a process with a network, a disk and a
// time since boot of its own.
type faultyCluster struct {
	t       *testing.T
	binary  string
	env     []string
	network *network
	secret  string
	flags   []string
	nodes   [3]*node
	client  *http.Client
}

// node is one of the machines.
type node struct {
	c          *faultyCluster
	i          int
	http       string
	disk       *disk
	boot       time.Duration // how much earlier it was booted than the machine of the test
	process    atomic.Pointer[server]
	supervised atomic.Bool // started again if it ends
}

// launchFaulty starts three replicas of a program on an empty ledger.
func launchFaulty(t *testing.T, program string, env []string, flags ...string) *faultyCluster {
	t.Helper()
	c := &faultyCluster{
		t: t, binary: program, env: env, network: newNetwork(t), secret: filepath.Join(t.TempDir(), "secret"), flags: flags,
		client: &http.Client{Transport: &http.Transport{}},
	}
	if err := os.WriteFile(c.secret, []byte(uuid.NewString()), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		c.nodes[i] = &node{c: c, i: i, http: c.network.address(byte(i+1)) + ":8778", disk: newDisk(t)}
	}
	if err := run(c.binary, "init", "--data", c.nodes[0].data()); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		n.start()
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.keep()
			for _, n := range c.nodes {
				t.Logf("replica %d:\n%s", n.i+1, tail(n.server().logs.String(), 6000))
			}
		}
		c.client.CloseIdleConnections()
	})
	if err := c.ready(); err != nil {
		t.Fatal(err)
	}
	return c
}

// keep keeps the logs and data folders of a failed scenario in a new folder of the one
// that ALLOT_KEEP names.
func (c *faultyCluster) keep() {
	folder := os.Getenv("ALLOT_KEEP")
	if folder == "" {
		return
	}
	folder, err := os.MkdirTemp(folder, "scenario-")
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, n := range c.nodes {
		name := filepath.Join(folder, fmt.Sprint(n.i+1))
		err := errors.Join(
			os.WriteFile(name+".log", []byte(n.server().logs.String()), 0o600),
			os.CopyFS(name, os.DirFS(n.data())),
		)
		if err != nil {
			c.t.Error(err) // a process may write there still
		}
	}
	c.t.Logf("kept in %s", folder)
}

func tail(text string, size int) string { return text[max(0, len(text)-size):] }

func (n *node) data() string { return filepath.Join(n.disk.mount, "data") }

func (n *node) server() *server { return n.process.Load() }

// start starts the replica's process in its namespaces.
func (n *node) start() {
	n.c.t.Helper()
	var members []string
	for i := range n.c.nodes {
		members = append(members, n.c.network.address(byte(i+1))+":6222")
	}
	args := []string{
		"--net=/run/netns/" + n.c.network.space(byte(n.i+1)), // ip netns exec would keep the disks mounted
		"unshare", "--time", "--boottime", fmt.Sprint(int(n.boot.Seconds())), n.c.binary, "serve", "--data", n.data(),
		"--http", n.http, "--nats", "", "--allow-noauth", "--cluster", strings.Join(members, ","),
		"--cluster-name", fmt.Sprint(n.i + 1), "--cluster-listen", members[n.i], "--cluster-secret-file", n.c.secret, "--cluster-plaintext",
		"--cluster-http", n.c.network.address(byte(n.i+1)) + ":6223",
	}
	s := &server{t: n.c.t, http: n.http, logs: new(ledgertest.Output), exited: make(chan struct{})}
	s.cmd = exec.Command("nsenter", append(args, n.c.flags...)...)
	s.cmd.Env = append(os.Environ(), n.c.env...)
	s.cmd.Stdout, s.cmd.Stderr = s.logs, s.logs
	s.run()
	n.process.Store(s)
}

// signal sends the process a signal.
func (n *node) signal(what syscall.Signal) { _ = n.server().cmd.Process.Signal(what) } // the process may have ended

// alive reports whether the process runs, or a supervisor starts it again.
func (n *node) alive() bool {
	select {
	case <-n.server().exited:
		return n.supervised.Load()
	default:
		return true
	}
}

// restart starts a replica that has ended, as on a machine that was booted at
// another time.
func (n *node) restart(random *rand.Rand) {
	n.c.t.Helper()
	n.boot = time.Duration(random.Intn(1_000_000)) * time.Second
	n.start()
}

// health returns a replica's answer at a path.
func (n *node) health(path string) (status int, h standing) {
	status, _, text, err := n.request(n.c.client, 2*time.Second, http.MethodGet, path, "", nil)
	if err == nil {
		err = json.Unmarshal([]byte(text), &h)
	}
	if err != nil {
		return 0, standing{}
	}
	return status, h
}

// recovery is how long a cluster may take until all is well after a fault.
const recovery = 2 * time.Minute

// ready waits until every replica says that it takes reads and commands. If they say that
// the log is wedged, it does once what docs/reliability.md says.
func (c *faultyCluster) ready() error {
	var said []string
	well, helped := time.Now(), false // the log was not wedged
	var failed error
	if ledgertest.Comes(recovery, func() bool {
		said = nil
		wedged := 0
		for _, n := range c.nodes {
			status, h := n.health("/readyz")
			if status != http.StatusOK || h.Leader == "" {
				said = append(said, fmt.Sprintf("replica %d: %d %+v", n.i+1, status, h))
			}
			if h.isWedged() {
				wedged++
			}
			if !n.alive() {
				failed = fmt.Errorf("replica %d has ended by itself: %w:\n%s",
					n.i+1, n.server().wait(), tail(n.server().logs.String(), 2000))
				return true
			}
		}
		if wedged < len(c.nodes) {
			well = time.Now()
		} else if time.Since(well) > afterAlarm && !helped {
			helped = true
			failed = c.unwedge()
		}
		return said == nil || failed != nil
	}) {
		return failed
	}
	return fmt.Errorf("not ready after %v: %s", recovery, strings.Join(said, "; "))
}

// isWedged reports whether a replica says that the log takes no commits.
func (h standing) isWedged() bool {
	return strings.Contains(h.Commands, "though its servers say that they are well")
}

const (
	// afterAlarm is how long an operator takes to see that the log is wedged.
	afterAlarm = 5 * time.Second
	// afterRestart is how long one waits for writes to go on.
	afterRestart = 15 * time.Second
)

// unwedge ends the process of the server that leads the log's stream, and starts it
// again; then those of the other two, if writes do not go on.
func (c *faultyCluster) unwedge() error {
	var status clusterStatus
	out, err := readStatus(c.binary, c.nodes[0].http, &status)
	if err != nil {
		return fmt.Errorf("the log is wedged, and its status is %w: %s", err, out)
	}
	first, err := strconv.Atoi(status.Stream.Leader)
	if err != nil {
		return fmt.Errorf("the log is wedged, and its status does not name the stream's leader: %s", out)
	}
	for _, i := range append([]int{first - 1}, others(first-1)...) {
		c.t.Logf("the log is wedged: replica %d is ended and started again", i+1)
		c.nodes[i].signal(syscall.SIGKILL)
		<-c.nodes[i].server().exited
		c.nodes[i].start()
		if ledgertest.Comes(afterRestart, func() bool {
			status, _ := c.nodes[i].health("/readyz")
			return status == http.StatusOK
		}) {
			return nil
		}
	}
	return nil
}

// leader returns the replica that says that it leads, of those that answer; -1:
// none does.
func (c *faultyCluster) leader() int {
	leads, term := -1, uint64(0)
	for i, n := range c.nodes {
		if _, h := n.health("/healthz"); h.Role == "leader" && h.Term >= term {
			leads, term = i, h.Term
		}
	}
	return leads
}

// makeProvider makes a provider of some VCPUs.
func (c *faultyCluster) makeProvider(id string, vcpus int) error {
	path := "/resource_providers/" + id
	for _, step := range []struct{ method, path, body string }{
		{http.MethodPost, "/resource_providers", fmt.Sprintf(`{"name":%q,"uuid":%q}`, id, id)},
		{http.MethodPut, path + "/inventories",
			fmt.Sprintf(`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":%d}}}`, vcpus)},
	} {
		status, _, text, err := c.nodes[0].request(c.client, time.Minute, step.method, step.path, step.body, nil)
		late := false // a slow disk can take longer than commands wait
		for end := time.Now().Add(hang); err == nil && status == http.StatusServiceUnavailable && time.Now().Before(end); {
			late = true
			status, _, text, err = c.nodes[0].request(c.client, time.Minute, step.method, step.path, step.body, nil)
		}
		done := status == http.StatusOK || late && status == http.StatusConflict // the first request was carried out
		if err != nil || !done {
			return fmt.Errorf("%s %s: %d %s, %w", step.method, step.path, status, text, err)
		}
	}
	return nil
}

// scene is one scenario under way.
type scene struct {
	*faultyCluster
	random *rand.Rand
	leads  int // the leader at the beginning
}

// one is any replica.
func (s *scene) one() *node { return s.nodes[s.random.Intn(3)] }

// follower returns a replica that did not lead.
func (s *scene) follower() *node { return s.nodes[others(s.leads)[s.random.Intn(2)]] }

// clusterFault begins a fault, and returns the function that ends it. Ending it
// does not wait for the recovery.
type clusterFault struct {
	name  string
	begin func(s *scene) (end func())
}

// kill kills replicas, and starts them again at the end.
func (s *scene) kill(nodes ...*node) (end func()) {
	for _, n := range nodes {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range nodes {
		<-n.server().exited
	}
	return func() {
		for _, n := range nodes {
			n.restart(s.random)
		}
	}
}

// pause stops a replica's process for a while.
func (s *scene) pause(n *node) (end func()) {
	n.signal(syscall.SIGSTOP)
	return func() { n.signal(syscall.SIGCONT) }
}

// repeat calls a function again and again until the end.
func repeat(step func() time.Duration) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(step()):
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// fill fills a replica's disk until the end. Its process may end meanwhile, and is started again.
func (s *scene) fill(n *node) (end func()) {
	filler := filepath.Join(n.disk.mount, "filler")
	n.supervised.Store(true)
	logtest.FillUp(s.t, filler, 0)
	quit, ended := make(chan struct{}), make(chan bool)
	go func() {
		again := false
		for {
			select {
			case <-quit:
				ended <- again
				return
			case <-n.server().exited:
				again = true
				n.start()
				time.Sleep(time.Second) // as its supervisor does
			}
		}
	}()
	return func() {
		close(quit)
		again := <-ended
		if err := os.Remove(filler); err != nil {
			s.t.Error(err)
		}
		// It ends by itself, now or soon, if it could not write, and when the watch of its disk finds room.
		ends := strings.Contains(n.server().logs.String(), "Critical write error")
		if again && !ends {
			n.signal(syscall.SIGKILL)
		}
		if again || ends {
			<-n.server().exited
			n.start()
		}
		n.supervised.Store(false)
	}
}

// cutPower cuts the power of some machines, and starts them again at the end.
func (s *scene) cutPower(nodes ...*node) (end func()) {
	for _, n := range nodes {
		n.disk.cut()
	}
	start := s.kill(nodes...)
	return func() {
		for _, n := range nodes {
			n.disk.remount()
		}
		start()
	}
}

// stepDown asks for another leader.
func (s *scene) stepDown(through *node) {
	_ = exec.Command(s.binary, "cluster", "step-down", "--url", "http://"+through.http).Run() // maybe no replica may lead
}

// rolling stops and starts the replicas in order, one after the other.
func (s *scene) rolling() {
	for _, n := range s.nodes {
		n.signal(syscall.SIGTERM)
		<-n.server().exited
		n.restart(s.random)
		if err := s.ready(); err != nil {
			s.t.Error(err)
		}
	}
}

// clusterFaults are all faults.
func clusterFaults() []clusterFault {
	all := []int{0, 1, 2}
	return []clusterFault{
		{"the leader is cut off from the others", func(s *scene) func() {
			s.network.isolate(s.leads)
			return s.network.heal
		}},
		{"a follower is cut off from the others", func(s *scene) func() {
			s.network.isolate(s.follower().i)
			return s.network.heal
		}},
		{"the leader hears the others, and they do not hear it", func(s *scene) func() {
			s.network.between([]int{s.leads}, others(s.leads), link{cut: true})
			return s.network.heal
		}},
		{"the others hear the leader, and it does not hear them", func(s *scene) func() {
			s.network.between(others(s.leads), []int{s.leads}, link{cut: true})
			return s.network.heal
		}},
		{"two replicas do not hear each other, the third hears both", func(s *scene) func() {
			a := s.follower().i
			s.network.between([]int{a}, []int{s.leads}, link{cut: true})
			s.network.between([]int{s.leads}, []int{a}, link{cut: true})
			return s.network.heal
		}},
		{"one replica is cut off and back each 0.5 to 2 s", func(s *scene) func() {
			cut, random := false, rand.New(rand.NewSource(s.random.Int63()))
			end := repeat(func() time.Duration {
				if cut = !cut; cut {
					s.network.isolate(random.Intn(3))
				} else {
					s.network.heal()
				}
				return 500*time.Millisecond + time.Duration(random.Intn(1500))*time.Millisecond
			})
			return func() { end(); s.network.heal() }
		}},
		{"5 % of packets are lost", func(s *scene) func() {
			s.network.between(all, all, link{loss: 0.05})
			return s.network.heal
		}},
		{"packets take 0 to 100 ms, in any order", func(s *scene) func() {
			s.network.between(all, all, link{delay: 50 * time.Millisecond, jitter: 50 * time.Millisecond})
			return s.network.heal
		}},
		{"kill -9 of the leader", func(s *scene) func() { return s.kill(s.nodes[s.leads]) }},
		{"kill -9 of a follower", func(s *scene) func() { return s.kill(s.follower()) }},
		{"kill -9 of both followers", func(s *scene) func() {
			o := others(s.leads)
			return s.kill(s.nodes[o[0]], s.nodes[o[1]])
		}},
		{"kill -9 of the leader and a follower", func(s *scene) func() { return s.kill(s.nodes[s.leads], s.follower()) }},
		{"kill -9 of all", func(s *scene) func() { return s.kill(s.nodes[:]...) }},
		{"power cut of one", func(s *scene) func() { return s.cutPower(s.one()) }},
		{"power cut of all", func(s *scene) func() { return s.cutPower(s.nodes[:]...) }},
		{"the leader's process stands still", func(s *scene) func() { return s.pause(s.nodes[s.leads]) }},
		{"a follower's process stands still", func(s *scene) func() { return s.pause(s.follower()) }},
		{"the leader's process runs a third of the time", func(s *scene) func() {
			n, stopped := s.nodes[s.leads], false
			end := repeat(func() time.Duration {
				if stopped = !stopped; stopped {
					n.signal(syscall.SIGSTOP)
					return 200 * time.Millisecond
				}
				n.signal(syscall.SIGCONT)
				return 100 * time.Millisecond
			})
			return func() { end(); n.signal(syscall.SIGCONT) }
		}},
		{"the leader's disk is full", func(s *scene) func() { return s.fill(s.nodes[s.leads]) }},
		{"a follower's disk is full", func(s *scene) func() { return s.fill(s.follower()) }},
		{"another leader is asked for each 1 to 2 s", func(s *scene) func() {
			random := rand.New(rand.NewSource(s.random.Int63()))
			return repeat(func() time.Duration {
				s.stepDown(s.nodes[random.Intn(3)])
				return time.Second + time.Duration(random.Intn(1000))*time.Millisecond
			})
		}},
		{"each replica is stopped and started in turn", func(s *scene) func() { s.rolling(); return func() {} }},
	}
}

// faultNamed finds a fault by its name.
func faultNamed(name string) clusterFault {
	all := clusterFaults()
	return all[slices.IndexFunc(all, func(f clusterFault) bool { return f.name == name })]
}

// result is the outcome of one scenario.
type result struct {
	fault    string
	wrong    []string
	gap      time.Duration
	answered int
	unknown  int
}

// play injects faults while clients work on all replicas, undoes them, waits
// until all is well, and judges what the clients saw.
func (c *faultyCluster) play(seed int64, length time.Duration, faults ...clusterFault) (r result) {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	r.fault = strings.Join(names, "; ")
	w, err := c.gather(seed, 3, 2*time.Second)
	if err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	w.progress(10, false)
	s := &scene{faultyCluster: c, random: rand.New(rand.NewSource(seed)), leads: max(c.leader(), 0)}
	var ends []func()
	for _, f := range faults {
		ends = append(ends, f.begin(s))
	}
	time.Sleep(length) // a fault ends only with time
	for _, end := range slices.Backward(ends) {
		end()
	}
	if !w.progress(20, true) {
		r.wrong = append(r.wrong, fmt.Sprintf("no write was acknowledged within %v after the fault", recovery))
	}
	w.disperse()
	if err := c.ready(); err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	logged, err := c.agree(w)
	if err != nil {
		r.wrong = append(r.wrong, err.Error())
		return r
	}
	r.wrong = append(r.wrong, w.judge(logged)...)
	r.gap, r.answered, r.unknown = w.gap(), w.answered, w.unknown
	return r
}

// progress waits until this many more writes were acknowledged or, after a fault,
// a process that should run has ended.
func (w *crowd) progress(writes int, faulted bool) bool {
	acked := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.acks)
	}
	want := acked() + writes
	ended := false // the fault ended it, not the test
	return ledgertest.Comes(recovery, func() bool {
		if acked() >= want {
			return true
		}
		ended = faulted && slices.ContainsFunc(w.c.nodes[:], func(n *node) bool { return !n.alive() })
		return ended
	}) && !ended
}

// agree requires the same records and the same digest of all replicas, and no
// provider over its capacity. It returns how often each command is in the log.
func (c *faultyCluster) agree(w *crowd) (map[string]int, error) {
	var texts, digests [3]string
	same := func() bool {
		return texts[0] == texts[1] && texts[1] == texts[2] && digests[0] == digests[1] && digests[1] == digests[2]
	}
	var err error
	if !ledgertest.Comes(recovery, func() bool {
		err = nil
		for i, n := range c.nodes {
			status, _, text, failed := n.request(c.client, time.Minute, http.MethodGet, "/audit/records", "", nil)
			texts[i] = text
			if err = errors.Join(err, failed); status != http.StatusOK {
				err = errors.Join(err, fmt.Errorf("/audit/records: %d %s", status, text))
			}
			status, _, digests[i], failed = n.request(c.client, time.Minute, http.MethodGet, "/audit/digest", "", nil)
			if err = errors.Join(err, failed); status != http.StatusOK {
				err = errors.Join(err, fmt.Errorf("/audit/digest: %d %s", status, digests[i]))
			}
		}
		return err == nil && same()
	}) {
		return nil, fmt.Errorf("the replicas do not agree: %w, digests %q", err, digests)
	}
	logged := make(map[string]int)
	for line := range strings.Lines(texts[0]) {
		var record struct {
			CommandID string `json:"command_id"`
			Error     string `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Error != "" {
			return nil, fmt.Errorf("a record that cannot be read: %s, %w", line, err)
		}
		logged[record.CommandID]++
	}
	for _, g := range w.providers {
		d := judge.Deed{Kind: "used", Provider: g.uuid}
		status, _, text, err := c.nodes[0].request(
			c.client, time.Minute, http.MethodGet, "/resource_providers/"+g.uuid+"/usages", "", nil,
		)
		if err == nil {
			err = d.Understand(status, text, w.capacity)
		}
		if err != nil || d.Output > w.capacity {
			return nil, fmt.Errorf("a provider of %d units: %d are used, %w", w.capacity, d.Output, err)
		}
	}
	return logged, nil
}

// tellClusterFaults prints the outcome of scenarios, by fault, for
// docs/reliability.md.
func tellClusterFaults(t *testing.T, results []result) {
	t.Helper()
	byFault := make(map[string][]result)
	for _, r := range results {
		byFault[r.fault] = append(byFault[r.fault], r)
	}
	var names []string
	for name := range byFault {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var gaps []time.Duration
		answered, unknown, wrong := 0, 0, 0
		for _, r := range byFault[name] {
			gaps = append(gaps, r.gap)
			answered, unknown, wrong = answered+r.answered, unknown+r.unknown, wrong+min(len(r.wrong), 1)
		}
		slices.Sort(gaps)
		outcome := "linearizable, nothing lost, nothing twice"
		if wrong > 0 {
			outcome = fmt.Sprintf("WRONG %d times", wrong)
		}
		t.Logf("CLUSTER | %s | %d | %s | %.1f s, %.1f s | %d of %d |", name, len(gaps), outcome,
			gaps[len(gaps)/2].Seconds(), gaps[len(gaps)-1].Seconds(), unknown, answered+unknown)
	}
}
