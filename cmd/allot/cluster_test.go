package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// replicas are the servers of a cluster, each a process of the binary.
type replicas struct {
	t       *testing.T
	dir     string
	secret  string // the file's path
	members []string
	list    [3]*server
	nats    [3]string
}

// launchReplicas starts three servers on an empty ledger, and waits until one leads.
func launchReplicas(t *testing.T, flags ...string) *replicas {
	t.Helper()
	r := prepareReplicas(t)
	allot(t, true, "init", "--data", r.data(0))
	for i := range r.list {
		r.begin(i, flags...)
	}
	r.serve()
	r.leader()
	return r
}

// serve waits until all replicas do.
func (r *replicas) serve() {
	r.t.Helper()
	for i, s := range r.list {
		if !s.Serves() {
			r.t.Fatalf("replica %d does not serve:\n%s", i+1, s.Logs)
		}
	}
}

// prepareReplicas prepares three servers without starting them.
func prepareReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{t: t, dir: t.TempDir()}
	for i := range r.list {
		r.members, r.nats[i] = append(r.members, freeAddress(t)), freeAddress(t)
	}
	r.secret = filepath.Join(r.dir, "secret")
	write(t, r.secret, uuid.NewString())
	return r
}

func (r *replicas) data(i int) string { return filepath.Join(r.dir, fmt.Sprint(i+1)) }

// begin starts one replica.
func (r *replicas) begin(i int, flags ...string) {
	r.t.Helper()
	r.beginOn(i, r.data(i), flags...)
}

// beginOn starts one replica on a data folder.
func (r *replicas) beginOn(i int, data string, flags ...string) {
	r.t.Helper()
	own := []string{
		"--nats", r.nats[i], "--cluster", strings.Join(r.members, ","), "--cluster-listen", r.members[i],
		"--cluster-http", freeAddress(r.t), "--cluster-secret-file", r.secret, "--cluster-name", fmt.Sprint(i + 1),
	}
	r.list[i] = start(r.t, data, append(own, flags...)...)
	r.list[i].tellsIfFailed(fmt.Sprint("replica ", i+1))
}

// standing is a server's answer at /healthz.
type standing struct {
	Role, Leader, Status, Reads, Commands, Requests string
	Term, Sequence                                  uint64
}

func (s *server) standing(path string) (status int, h standing) {
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Get("http://" + s.HTTP + path)
	if err != nil {
		return 0, h
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		s.T.Errorf("%s: %v", path, err)
	}
	return resp.StatusCode, h
}

// leader waits until exactly one of the running replicas leads, and all of them
// know it.
func (r *replicas) leader() int {
	r.t.Helper()
	leads := -1
	ledgertest.WaitFor(r.t, "a leader", func() bool {
		leads = -1
		for i, s := range r.list {
			if s == nil {
				continue
			}
			_, h := s.standing("/healthz")
			if h.Leader == "" {
				return false
			}
			if h.Role == "leader" {
				leads = i
			}
		}
		return leads >= 0
	})
	return leads
}

// lose kills a replica.
func (r *replicas) lose(i int) {
	r.list[i].Kill()
	r.list[i] = nil
}

// load is clients that write through some replicas until it is stopped, each one
// request after the other. It notes requests that were not answered as they
// should be.
type load struct {
	stop    chan struct{}
	idle    sync.WaitGroup
	mu      sync.Mutex
	made    []string // traits whose making was acknowledged; guarded by mu
	wrong   []string // answers other than success; guarded by mu
	longest time.Duration
}

func (r *replicas) load(through ...int) *load {
	var addresses []string
	for _, i := range through {
		addresses = append(addresses, r.list[i].HTTP)
	}
	return startLoad(addresses...)
}

// writePause is how often a client writes at most: these tests are about what happens
// meanwhile, and not about how many they are.
const writePause = 50 * time.Millisecond

// startLoad starts a client for each address.
func startLoad(addresses ...string) *load {
	l := &load{stop: make(chan struct{})}
	for _, address := range addresses {
		l.idle.Go(func() {
			pace := time.NewTicker(writePause)
			defer pace.Stop()
			for l.write(address, pace.C) {
			}
		})
	}
	return l
}

// write sends a write until it is answered: a server that finds no leader in time answers 503, and its client sends it
// again. It reports whether the clients go on.
func (l *load) write(address string, pace <-chan time.Time) bool {
	name := "CUSTOM_" + strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "_"))
	began := time.Now()
	for again := false; ; again = true {
		select {
		case <-l.stop:
			return false
		case <-pace:
		}
		status, err := putTrait(address, name)
		if err != nil || status != http.StatusServiceUnavailable {
			l.note(name, status, again, err, time.Since(began))
			return true
		}
	}
}

func putTrait(address, name string) (int, error) {
	status, _, err := sendTo("PUT", "http://"+address+"/traits/"+name, "",
		map[string]string{"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"})
	return status, err
}

func (l *load) note(name string, status int, again bool, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, took)
	done := status == http.StatusCreated || again && status == http.StatusNoContent
	if err != nil || !done {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %d, %v", name, status, err))
		return
	}
	l.made = append(l.made, name)
}

// goOn waits for so many more answers.
func (l *load) goOn(t *testing.T, more int) {
	t.Helper()
	answers := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.made) + len(l.wrong)
	}
	until := answers() + more
	ledgertest.WaitFor(t, "answers", func() bool { return answers() >= until })
}

// rest stops the clients.
func (l *load) rest() {
	close(l.stop)
	l.idle.Wait()
}

// end stops the clients, and fails the test if any request was refused.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.rest()
	if len(l.wrong) > 0 {
		t.Errorf("%d of %d writes failed, such as %s", len(l.wrong), len(l.made)+len(l.wrong), l.wrong[0])
	}
	t.Logf("%d writes, the longest took %v", len(l.made), l.longest.Round(time.Millisecond))
}

// holds checks that a replica has everything that was acknowledged.
func (l *load) holds(t *testing.T, s *server) {
	t.Helper()
	if lost := l.lost(s.Must(200, "GET", "/traits", "")); len(lost) > 0 {
		t.Fatalf("%s was acknowledged, and is not there", lost[0])
	}
}

// lost is what was acknowledged and is not in a list of traits.
func (l *load) lost(traits string) []string {
	return slices.DeleteFunc(slices.Clone(l.made), func(name string) bool { return strings.Contains(traits, `"`+name+`"`) })
}

// TestReplicas: each of three servers serves everything, whichever leads, and
// what one server told can be read at all. Any of them may end, in order or not:
// the others answer, and no acknowledged write is lost.
func TestReplicas(t *testing.T) {
	t.Parallel()
	r := launchReplicas(t)
	for i, s := range r.list {
		name := fmt.Sprintf("CUSTOM_OF_%d", i+1)
		s.Must(201, "PUT", "/traits/"+name, "")
		for j, other := range r.list {
			if body := other.Must(200, "GET", "/traits", ""); !strings.Contains(body, name) {
				t.Errorf("replica %d does not show what %d was told", j+1, i+1)
			}
		}
	}
	r.checkStatus()

	was := r.leader()
	others := []int{(was + 1) % 3, (was + 2) % 3}
	l := r.load(others...)
	l.goOn(t, 20)
	r.lose(was)
	now := r.leader()
	l.goOn(t, 20)
	l.end(t)
	r.refusesOthers(was)
	r.begin(was)
	if !r.list[was].Serves() {
		t.Fatal("the replica that was killed does not come back")
	}
	r.leader()
	for _, s := range r.list {
		l.holds(t, s)
	}

	third := 3 - was - now
	l = r.load(0, 1, 2)
	l.goOn(t, 5)
	allot(t, true, "cluster", "step-down", "--url", "http://"+r.list[was].HTTP, "--to", fmt.Sprint(third+1))
	if got := r.leader(); got != third {
		t.Errorf("replica %d leads, and was to be %d", got+1, third+1)
	}
	l.goOn(t, 5)
	l.end(t)

	l = r.load(was, now)
	l.goOn(t, 5)
	r.list[third].Terminate()
	r.list[third] = nil
	r.leader()
	l.goOn(t, 5)
	l.end(t)
	l.holds(t, r.list[was])
	l.holds(t, r.list[now])
	r.join(was, third)
}

// refusesOthers starts in the place of a replica what cannot be part of the cluster: it says why, and what to do.
func (r *replicas) refusesOthers(i int) {
	r.t.Helper()
	secret, nats, other, mixed := r.secret, r.nats[i], filepath.Join(r.dir, "other"), filepath.Join(r.dir, "mixed")
	alone := launch(r.t, other)
	alone.Must(201, "PUT", "/traits/CUSTOM_ALONE", "")
	alone.Terminate()
	replaceTree(r.t, r.data(i), mixed)
	for _, name := range []string{"readmodel", "snapshots"} {
		replaceTree(r.t, filepath.Join(other, name), filepath.Join(mixed, name))
	}
	write(r.t, filepath.Join(r.dir, "strange"), uuid.NewString())
	r.nats[i] = ""
	start(r.t, r.data(i)).refuses("is the data of one of several servers", "--cluster", "nothing was changed")
	for data, words := range map[string][]string{
		other: {"is the data of a single server", "--from FILE", "nothing was changed"},
		mixed: {"of another ledger than the cluster's", "move the folder away"},
	} {
		r.beginOn(i, data)
		r.list[i].refuses(words...)
	}
	r.secret = filepath.Join(r.dir, "strange")
	r.beginOn(i, filepath.Join(r.dir, "new"))
	r.list[i].refuses("another secret", "--cluster-secret-file")
	r.secret, r.nats[i] = secret, nats
}

// join has a fourth server join, lead, and tell what it means that another one is
// gone for good.
func (r *replicas) join(by, gone int) {
	r.t.Helper()
	fourth := start(r.t, filepath.Join(r.dir, "4"), "--nats", freeAddress(r.t), "--cluster", strings.Join(r.members, ","),
		"--cluster-name", "4", "--cluster-listen", freeAddress(r.t), "--cluster-secret-file", r.secret)
	if !fourth.Serves() {
		r.t.Fatalf("the fourth replica does not serve:\n%s", fourth.Logs)
	}
	fourth.Must(201, "PUT", "/traits/CUSTOM_OF_4", "")
	url := "http://" + r.list[by].HTTP
	says(r.t, allot(r.t, true, "cluster", "step-down", "--url", url, "--to", "4"), "4 leads")
	r.list[by].Must(204, "GET", "/traits/CUSTOM_OF_4", "")
	allot(r.t, true, "cluster", "remove", "--url", url, fmt.Sprint(gone+1))
	says(r.t, allot(r.t, true, "cluster", "status", "--url", url),
		fmt.Sprintf("The log has a place on server %d, which is gone", gone+1))
}

// checkStatus checks what the servers say of each other.
func (r *replicas) checkStatus() {
	r.t.Helper()
	leader := r.leader()
	for i, s := range r.list {
		out := ""
		ledgertest.WaitFor(r.t, fmt.Sprintf("replica %d is ready, and knows all", i+1), func() bool {
			status, h := s.standing("/readyz")
			out = allot(r.t, true, "cluster", "status", "--json", "--url", "http://"+s.HTTP)
			return status == 200 && h.Reads == "ok" && h.Commands == "ok" && r.tellsAll(leader, out)
		}, func() any { return out })
	}
}

// tellsAll reports whether a status tells of all replicas what is so.
func (r *replicas) tellsAll(leader int, out string) bool {
	var told clusterStatus
	if err := json.Unmarshal([]byte(out), &told); err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	if told.Leader != fmt.Sprint(leader+1) || told.Term == 0 || len(told.Members) != 3 {
		return false
	}
	for i, m := range told.Members {
		role := "follower"
		if i == leader {
			role = "leader"
		}
		if m.Name != fmt.Sprint(i+1) || m.Role != role || m.HTTP != "http://"+r.list[i].HTTP || m.Lag == nil {
			return false
		}
	}
	return true
}
