package main_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

// deed is one request of a client about a provider, and its answer.
type deed struct {
	kind     string // take, give, used, held or candidates
	provider string
	holder   int    // number of the provider's consumer
	id       string // id of the command; empty: it reads
	output   int    // of a take or a give: 1 done, 0 refused; of a read: the value read
	known    bool   // it was answered
	repeated bool   // it was sent more than once
	client   int
	replica  int
	call     int64
	end      int64
}

// places is how many consumers a provider may see in one history.
const places = 1024

// holders is the state of the sequential specification: the consumers that hold a
// unit of the provider.
type holders struct {
	set  [places / 64]uint64
	used int
}

func (h holders) has(i int) bool { return h.set[i/64]>>(i%64)&1 == 1 }

func (h holders) flip(i, by int) holders {
	h.set[i/64] ^= 1 << (i % 64)
	h.used += by
	return h
}

// holdersModel is a provider of some units, of which each consumer may hold
// one.
func holdersModel(capacity int) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			byProvider := make(map[string][]porcupine.Operation)
			for _, op := range history {
				provider := op.Input.(deed).provider
				byProvider[provider] = append(byProvider[provider], op)
			}
			for _, part := range byProvider {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return holders{} },
		Step: func(state, input, output any) (bool, any) {
			return stepHolders(state.(holders), input.(deed), output.(int), capacity)
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
	}
}

func stepHolders(h holders, d deed, output, capacity int) (bool, any) {
	switch {
	case d.kind == "take" && output == 1:
		return !h.has(d.holder) && h.used < capacity, h.flip(d.holder, 1)
	case d.kind == "take":
		return h.used == capacity, h
	case d.kind == "give" && output == 1:
		return h.has(d.holder), h.flip(d.holder, -1)
	case d.kind == "give":
		return !h.has(d.holder), h
	case d.kind == "held":
		return h.has(d.holder) == (output == 1), h
	}
	return h.used == output, h
}

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
	deeds    []deed          // guarded by mu
	wrong    []string        // answers that nothing explains; guarded by mu
	acks     []time.Duration // when writes were acknowledged; guarded by mu
	unknown  int             // requests that were not answered; guarded by mu
	answered int             // guarded by mu
}

// ground is a provider over which a crowd competes.
type ground struct {
	uuid      string
	consumers [places]string
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
		d := deed{provider: s.ground.uuid, client: s.number, replica: s.replica}
		switch n := s.random.Intn(10); {
		case n < 4 && len(s.holds) < 3:
			d.kind, d.id, d.holder = "take", uuid.NewString(), int(s.ground.next.Add(1)-1)
			if d.holder >= places {
				return // the history is long enough
			}
		case n < 7 && len(s.holds) > 0:
			d.kind, d.id, d.holder = "give", uuid.NewString(), s.holds[0].holder
		case n < 8:
			d.kind = "candidates"
		case n < 9 && s.ground.next.Load() > 0:
			d.kind, d.holder = "held", s.random.Intn(int(min(s.ground.next.Load(), places)))
		default:
			d.kind = "used"
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

func (s *soldier) do(d *deed) {
	w := s.crowd
	d.call = time.Since(w.begun).Nanoseconds()
	for try := range tries {
		d.known = s.send(d, (s.replica+try)%len(w.c.nodes))
		if d.known || d.id == "" || w.ended() || s.random.Intn(3) == 0 {
			break
		}
		d.repeated = true
	}
	d.end = time.Since(w.begun).Nanoseconds()
	s.remember(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds = append(w.deeds, *d)
	if !d.known {
		w.unknown++
		return
	}
	w.answered++
	if d.id != "" && d.output == 1 {
		w.acks = append(w.acks, time.Duration(d.end))
	}
}

// remember notes what must be given back.
func (s *soldier) remember(d *deed) {
	one := held{holder: d.holder}
	if d.kind == "give" {
		one, s.holds = s.holds[0], s.holds[1:]
	}
	switch {
	case d.kind == "take" && !d.known, d.kind == "take" && d.repeated && d.output == 0:
		one.doubt = time.Now().Add(doubtful)
		s.holds = append(s.holds, one)
	case d.kind == "take" && d.output == 1, d.kind == "give" && !d.known,
		d.kind == "give" && d.output == 0 && time.Now().Before(one.doubt):
		s.holds = append(s.holds, one)
	}
}

// send sends a request once; false: its client does not know the outcome.
func (s *soldier) send(d *deed, replica int) bool {
	method, path, body := http.MethodGet, "/resource_providers/"+d.provider+"/usages", ""
	consumer := s.ground.consumers[d.holder]
	switch d.kind {
	case "take":
		method, path = http.MethodPut, "/allocations/"+consumer
		body = strings.Replace(allocation(), "11111111-1111-4111-8111-111111111111", d.provider, 1)
	case "give":
		method, path = http.MethodDelete, "/allocations/"+consumer
	case "held":
		path = "/allocations/" + consumer
	case "candidates":
		path = "/allocation_candidates?resources=VCPU:1&in_tree=" + d.provider
	}
	headers := map[string]string{"Allot-Command-Id": d.id}
	status, _, text, err := s.crowd.c.nodes[replica].request(s.http, s.crowd.patience, method, path, body, headers)
	if err != nil || status == http.StatusServiceUnavailable {
		return false
	}
	if err := d.understand(status, text, s.crowd.capacity); err != nil {
		if !d.repeated {
			s.crowd.complain("replica %d: %s: %v", replica+1, d.kind, err)
		}
		return false
	}
	return true
}

// understand notes the contents of an answer.
func (d *deed) understand(status int, text string, capacity int) error {
	var body struct {
		Usages      map[string]int `json:"usages"`
		Allocations map[string]any `json:"allocations"`
		Summaries   map[string]struct {
			Resources map[string]struct{ Used int }
		} `json:"provider_summaries"`
	}
	full := strings.Contains(text, "exceed the capacity")
	switch {
	case d.id != "" && status == http.StatusNoContent:
		d.output = 1
		return nil
	case d.kind == "take" && status == http.StatusConflict && full, d.kind == "give" && status == http.StatusNotFound:
		d.output = 0
		return nil
	case d.id != "" || status != http.StatusOK:
		return fmt.Errorf("%d %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		return err
	}
	switch d.kind {
	case "used":
		d.output = body.Usages["VCPU"]
	case "held":
		d.output = len(body.Allocations)
	case "candidates":
		d.output = capacity // a full provider is no candidate
		if summary, there := body.Summaries[d.provider]; there {
			d.output = summary.Resources["VCPU"].Used
		}
	}
	return nil
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

// judge looks for an order that explains what the clients saw, given the commands
// that the log holds in the end. It returns what is wrong.
func (w *crowd) judge(logged map[string]int) []string {
	wrong := w.wrong
	var history []porcupine.Operation
	for _, d := range w.deeds {
		end, output := d.end, d.output
		if d.id != "" {
			n := logged[d.id]
			switch {
			case n > 1:
				wrong = append(wrong, fmt.Sprintf("done %d times: %+v", n, d))
			case d.known && d.output == 1 && n == 0:
				wrong = append(wrong, fmt.Sprintf("acknowledged and lost: %+v", d))
			case d.known && d.output == 0 && n == 1 && !d.repeated:
				wrong = append(wrong, fmt.Sprintf("refused and done: %+v", d))
			}
			if !d.known || d.repeated && d.output == 0 {
				if n == 0 && !d.known {
					continue // it was not done
				}
				if n > 0 {
					end, output = math.MaxInt64, 1 // at any time since then
				} else if d.repeated {
					continue // it may answer any of the tries
				}
			}
		} else if !d.known {
			continue
		}
		history = append(
			history,
			porcupine.Operation{ClientId: d.client, Input: d, Output: output, Call: d.call, Return: end},
		)
	}
	switch porcupine.CheckOperationsTimeout(holdersModel(w.capacity), history, time.Minute) {
	case porcupine.Illegal:
		wrong = append(wrong, "no order explains what the clients saw: not linearizable"+w.explain(history))
	case porcupine.Unknown:
		wrong = append(wrong, "whether an order explains what the clients saw was not found out within a minute")
	}
	return wrong
}

// explain shows where every order fails, for each provider without one: the end of
// the longest order, and the first requests that have no place behind it.
func (w *crowd) explain(history []porcupine.Operation) string {
	const shown = 12
	result, info := porcupine.CheckOperationsVerbose(holdersModel(w.capacity), history, time.Minute)
	text := string(result)
	for _, part := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(part, func(a, b []porcupine.Operation) int { return len(a) - len(b) })
		placed := make(map[porcupine.Operation]bool)
		for _, op := range longest {
			placed[op] = true
		}
		var rest []porcupine.Operation
		for _, op := range history {
			if len(longest) > 0 && op.Input.(deed).provider == longest[0].Input.(deed).provider && !placed[op] {
				rest = append(rest, op)
			}
		}
		if len(rest) == 0 {
			continue
		}
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		text += fmt.Sprintf("\nan order of %d requests ends with", len(longest))
		for _, op := range longest[max(0, len(longest)-shown):] {
			text += "\n\t" + tellDeed(op)
		}
		text += fmt.Sprintf("\nand %d requests have no place in it:", len(rest))
		for _, op := range rest[:min(shown, len(rest))] {
			text += "\n\t" + tellDeed(op)
		}
	}
	return text
}

// tellDeed describes a request, its answer and when it was under way.
func tellDeed(op porcupine.Operation) string {
	d := op.Input.(deed)
	until := "the end"
	if op.Return != math.MaxInt64 {
		until = time.Duration(op.Return).Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%s of consumer %d by client %d at replica %d: %v (known %v, repeated %v), from %v to %s, id %s", d.kind, d.holder,
		d.client, d.replica+1, op.Output, d.known, d.repeated, time.Duration(op.Call).Round(time.Millisecond), until, d.id)
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
