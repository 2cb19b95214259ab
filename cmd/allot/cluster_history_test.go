package main_test

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/simulate/judge"
)

// crowd is a number of clients on all replicas of a cluster, and what they saw.
type crowd struct {
	c         *faultyCluster
	seed      int64
	capacity  int
	providers []*ground
	begun     time.Time
	patience  time.Duration // of a client
	stop      chan struct{}
	idle      sync.WaitGroup

	mu       sync.Mutex
	deeds    []judge.Deed    // guarded by mu
	wrong    []string        // answers that nothing explains; guarded by mu
	acks     []time.Duration // when writes were acknowledged; guarded by mu
	unknown  int             // requests that were not answered; guarded by mu
	answered int             // guarded by mu
}

// ground is a provider over which a crowd competes.
type ground struct {
	uuid      string
	consumers [judge.Places]string
	next      atomic.Int64
}

// gather makes providers, and clients that write and read them through all
// replicas until the crowd is dispersed.
func (c *faultyCluster) gather(seed int64, providers int, patience time.Duration) (*crowd, error) {
	w := &crowd{c: c, seed: seed, capacity: 3, patience: patience, stop: make(chan struct{})}
	for range providers {
		g := &ground{uuid: uuid.NewString()}
		for i := range g.consumers {
			g.consumers[i] = uuid.NewString()
		}
		w.providers = append(w.providers, g)
		if err := c.makeProvider(g.uuid, w.capacity); err != nil {
			return nil, err
		}
	}
	w.begun = time.Now()
	client := 0
	for _, g := range w.providers {
		for replica := range c.nodes {
			one := &soldier{
				crowd: w, ground: g, replica: replica, number: client, random: rand.New(rand.NewSource(seed*1000 + int64(client))),
				http: &http.Client{Transport: &http.Transport{}},
			}
			w.idle.Go(one.live)
			client++
		}
	}
	for replica := range c.nodes {
		w.idle.Go(func() { w.readStale(replica) })
	}
	return w, nil
}

// disperse ends the clients.
func (w *crowd) disperse() {
	close(w.stop)
	w.idle.Wait()
}

func (w *crowd) ended() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

func (w *crowd) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// soldier is one client, which does one thing after the other.
type soldier struct {
	crowd   *crowd
	ground  *ground
	replica int
	number  int
	random  *rand.Rand
	http    *http.Client
	holds   []held
}

// held is a consumer that holds a unit, or may hold one. Only the client that
// does not know that gives the unit back.
type held struct {
	holder int
	doubt  time.Time // until then it may still get one; zero: it has one
}

// doubtful is how long a command whose answer was lost may be under way.
const doubtful = 20 * time.Second

func (s *soldier) live() {
	defer s.http.CloseIdleConnections()
	for !s.crowd.ended() {
		d := judge.Deed{Provider: s.ground.uuid, Client: s.number, Server: s.replica}
		switch n := s.random.Intn(10); {
		case n < 4 && len(s.holds) < 3:
			d.Kind, d.ID, d.Holder = "take", uuid.NewString(), int(s.ground.next.Add(1)-1)
			if d.Holder >= judge.Places {
				return // the history is long enough
			}
		case n < 7 && len(s.holds) > 0:
			d.Kind, d.ID, d.Holder = "give", uuid.NewString(), s.holds[0].holder
		case n < 8:
			d.Kind = "candidates"
		case n < 9 && s.ground.next.Load() > 0:
			d.Kind, d.Holder = "held", s.random.Intn(int(min(s.ground.next.Load(), judge.Places)))
		default:
			d.Kind = "used"
		}
		s.do(&d)
		select {
		case <-time.After(time.Duration(10+s.random.Intn(30)) * time.Millisecond):
		case <-s.crowd.stop:
		}
	}
}

// tries is how often a command is sent with its id, through one replica after the
// other, before its client goes on to something else.
const tries = 3

func (s *soldier) do(d *judge.Deed) {
	w := s.crowd
	d.Call = time.Since(w.begun).Nanoseconds()
	for try := range tries {
		d.Known = s.send(d, (s.replica+try)%len(w.c.nodes))
		if d.Known || d.ID == "" || w.ended() || s.random.Intn(3) == 0 {
			break
		}
		d.Repeated = true
	}
	d.End = time.Since(w.begun).Nanoseconds()
	s.remember(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds = append(w.deeds, *d)
	if !d.Known {
		w.unknown++
		return
	}
	w.answered++
	if d.ID != "" && d.Output == 1 {
		w.acks = append(w.acks, time.Duration(d.End))
	}
}

// remember notes what must be given back.
func (s *soldier) remember(d *judge.Deed) {
	one := held{holder: d.Holder}
	if d.Kind == "give" {
		one, s.holds = s.holds[0], s.holds[1:]
	}
	switch {
	case d.Kind == "take" && !d.Known, d.Kind == "take" && d.Repeated && d.Output == 0:
		one.doubt = time.Now().Add(doubtful)
		s.holds = append(s.holds, one)
	case d.Kind == "take" && d.Output == 1, d.Kind == "give" && !d.Known,
		d.Kind == "give" && d.Output == 0 && time.Now().Before(one.doubt):
		s.holds = append(s.holds, one)
	}
}

// send sends a request once; false: its client does not know the outcome.
func (s *soldier) send(d *judge.Deed, replica int) bool {
	method, path, body := http.MethodGet, "/resource_providers/"+d.Provider+"/usages", ""
	consumer := s.ground.consumers[d.Holder]
	switch d.Kind {
	case "take":
		method, path = http.MethodPut, "/allocations/"+consumer
		body = strings.Replace(allocation(), "11111111-1111-4111-8111-111111111111", d.Provider, 1)
	case "give":
		method, path = http.MethodDelete, "/allocations/"+consumer
	case "held":
		path = "/allocations/" + consumer
	case "candidates":
		path = "/allocation_candidates?resources=VCPU:1&in_tree=" + d.Provider
	}
	headers := map[string]string{"Allot-Command-Id": d.ID}
	status, _, text, err := s.crowd.c.nodes[replica].request(s.http, s.crowd.patience, method, path, body, headers)
	if err != nil || status == http.StatusServiceUnavailable {
		return false
	}
	if err := d.Understand(status, text, s.crowd.capacity); err != nil {
		if !d.Repeated {
			s.crowd.complain("replica %d: %s: %v", replica+1, d.Kind, err)
		}
		return false
	}
	return true
}

// readStale makes a stale read of one replica, which may never go back while its
// process lives.
func (w *crowd) readStale(replica int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var last uint64
	var process *server
	for !w.ended() {
		node := w.c.nodes[replica]
		now := node.server()
		status, sequence, _, err := node.request(
			client, w.patience, http.MethodGet, "/resource_providers/"+w.providers[0].uuid, "",
			map[string]string{"Allot-Consistency": "stale"},
		)
		if now != process || now != node.server() {
			last, process = 0, node.server()
			continue
		}
		if err == nil && status == http.StatusOK {
			if sequence < last {
				w.complain("replica %d: a stale read shows %d after %d", replica+1, sequence, last)
			}
			last = sequence
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-w.stop:
		}
	}
}

// request sends a request to a replica, and returns the status, the sequence in
// the answer, and the body.
func (n *node) request(
	client *http.Client, patience time.Duration, method, path, body string, headers map[string]string,
) (int, uint64, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.http+path, strings.NewReader(body))
	if err != nil {
		return 0, 0, "", err
	}
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	sequence, _ := strconv.ParseUint(resp.Header.Get("Allot-Sequence"), 10, 64) // 0: it names none
	return resp.StatusCode, sequence, string(text), err
}

// judge says what is wrong, given how often each command is in the log in the end.
func (w *crowd) judge(logged map[string]int) []string {
	return append(w.wrong, judge.History(w.deeds, logged, w.capacity)...)
}

// gap returns the longest time in which no write was acknowledged.
func (w *crowd) gap() (longest time.Duration) {
	var last time.Duration
	for _, at := range w.acks { // almost in order
		longest = max(longest, at-last)
		last = max(last, at)
	}
	return longest
}
