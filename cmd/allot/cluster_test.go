package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
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

// TestReplicas: each of three servers serves everything, whichever leads, and
// what one server told can be read at all. Any of them may end, and another one
// leads. TestHAProxy does that under load, and kills the leader.
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
	r.waitCurrent()
	was := r.leader()
	told, _ := r.list[was].current()
	for i, m := range told.Members {
		if told.Leader != fmt.Sprint(was+1) || m.Name != fmt.Sprint(i+1) || m.HTTP != "http://"+r.list[i].HTTP {
			t.Errorf("replica %d leads, and says %+v", was+1, told)
		}
	}
	r.list[was].Terminate()
	r.list[was] = nil
	now := r.leader()
	r.refusesOthers(was)
	r.begin(was)
	r.waitCurrent()
	third := 3 - was - now
	allot(t, true, "cluster", "step-down", "--url", "http://"+r.list[was].HTTP, "--to", fmt.Sprint(third+1))
	if got := r.leader(); got != third {
		t.Errorf("replica %d leads, and was to be %d", got+1, third+1)
	}
	r.list[third].Terminate()
	r.list[third] = nil
	r.leader()
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
	start(r.t, r.data(i)).Refuses("is the data of one of several servers", "--cluster", "nothing was changed")
	for data, words := range map[string][]string{
		other: {"is the data of a single server", "--from FILE", "nothing was changed"},
		mixed: {"of another ledger than the cluster's", "move the folder away"},
	} {
		r.beginOn(i, data)
		r.list[i].Refuses(words...)
	}
	r.secret = filepath.Join(r.dir, "strange")
	r.beginOn(i, filepath.Join(r.dir, "new"))
	r.list[i].Refuses("another secret", "--cluster-secret-file")
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
