package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestSideBySide measures requests that need consumer generations: migrations,
// with the generations read before each as nova does, and reshapes. The load
// generator cannot send them, because it assumes that generations count from 1.
// .ci/side-by-side runs the test.
func TestSideBySide(t *testing.T) {
	url, out := os.Getenv("ALLOT_SIDE_BY_SIDE"), os.Getenv("ALLOT_SIDE_BY_SIDE_OUT")
	if url == "" {
		t.Skip("skipped: .ci/side-by-side runs this beside OpenStack Placement")
	}
	f, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p := &placementClient{t: t, url: url, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	for _, clients := range []int{1, 64} {
		took, elapsed := p.migrate(clients, 5*time.Second)
		report(t, f, "migrate, with generations", clients, took, elapsed)
	}
	for _, n := range []int{100, 1000} {
		took := p.reshape(n, 3)
		var sum time.Duration
		for _, d := range took {
			sum += d
		}
		report(t, f, fmt.Sprintf("reshape of %d consumers", n), 1, took, sum)
	}
}

// report writes a measurement in the load generator's form.
func report(t *testing.T, w io.Writer, scenario string, clients int, took []time.Duration, elapsed time.Duration) {
	t.Helper()
	slices.Sort(took)
	err := json.NewEncoder(w).Encode(map[string]any{
		"scenario": scenario, "c": clients, "ops": len(took), "ops_s": float64(len(took)) / elapsed.Seconds(),
		"p50_ms": float64(took[len(took)/2].Microseconds()) / 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
}

type placementClient struct {
	t    *testing.T
	url  string
	http *http.Client
}

// call sends a request and returns the answer's object.
func (p *placementClient) call(method, path string, body any) (int, map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(string(text)))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.38")
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil && resp.StatusCode != http.StatusNoContent {
		p.t.Fatalf("%s %s: %d, %v", method, path, resp.StatusCode, err)
	}
	return resp.StatusCode, answer
}

func (p *placementClient) must(method, path string, body any) map[string]any {
	p.t.Helper()
	for range 50 {
		status, answer := p.call(method, path, body)
		if status < 300 {
			return answer
		}
		if status != http.StatusConflict {
			p.t.Fatalf("%s %s: %d %v", method, path, status, answer)
		}
	}
	p.t.Fatalf("%s %s: nothing but conflicts", method, path)
	return nil
}

type object = map[string]any

func (p *placementClient) provider(name string, parent any, inventories object) string {
	id := uuid.NewString()
	body := object{"name": name + "-" + id, "uuid": id}
	if parent != nil {
		body["parent_provider_uuid"] = parent
	}
	p.must("POST", "/resource_providers", body)
	if len(inventories) > 0 {
		p.must(
			"PUT", "/resource_providers/"+id+"/inventories",
			object{"resource_provider_generation": 0, "inventories": inventories},
		)
	}
	return id
}

func allocationBody(generation any, byProvider object) object {
	allocations := object{}
	for id, resources := range byProvider {
		allocations[id] = object{"resources": resources}
	}
	return object{
		"allocations": allocations, "project_id": "p", "user_id": "u",
		"consumer_generation": generation, "consumer_type": "INSTANCE",
	}
}

func (p *placementClient) migrate(clients int, during time.Duration) ([]time.Duration, time.Duration) {
	want := object{"VCPU": 1, "MEMORY_MB": 512}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			room := object{"VCPU": object{"total": 1000}, "MEMORY_MB": object{"total": 1000000}}
			from, to := p.provider("from", nil, room), p.provider("to", nil, room)
			a, b := uuid.NewString(), uuid.NewString()
			p.must("PUT", "/allocations/"+a, allocationBody(nil, object{from: want}))
			p.must("PUT", "/allocations/"+b, allocationBody(nil, object{to: want}))
			var mine []time.Duration
			for time.Since(begun) < during {
				start := time.Now()
				generations := [2]any{}
				for i, id := range []string{a, b} {
					generations[i] = p.must("GET", "/allocations/"+id, nil)["consumer_generation"]
				}
				p.must(
					"POST", "/allocations",
					object{a: allocationBody(generations[0], object{to: want}), b: allocationBody(generations[1], object{from: want})},
				)
				from, to = to, from
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	all.Wait()
	return took, time.Since(begun)
}

func (p *placementClient) reshape(n, times int) []time.Duration {
	cpu, gpu := object{"total": 100000, "max_unit": 1000}, object{"total": 100000}
	parent := p.provider("parent", nil, object{"VCPU": cpu, "VGPU": gpu})
	child := p.provider("child", parent, nil)
	var ids []string
	for len(ids) < n {
		many := object{}
		for range 50 {
			ids = append(ids, uuid.NewString())
			many[ids[len(ids)-1]] = allocationBody(nil, object{parent: object{"VCPU": 1, "VGPU": 1}})
		}
		p.must("POST", "/allocations", many)
	}
	var took []time.Duration
	for i := range times {
		held := p.must("GET", "/resource_providers/"+parent+"/allocations", nil)["allocations"].(object)
		moved := object{}
		for _, id := range ids {
			generation := held[id].(object)["consumer_generation"]
			if i%2 == 0 {
				moved[id] = allocationBody(generation, object{parent: object{"VCPU": 1}, child: object{"VGPU": 1}})
			} else {
				moved[id] = allocationBody(generation, object{parent: object{"VCPU": 1, "VGPU": 1}})
			}
		}
		inventories := []object{{"VCPU": cpu}, {"VGPU": gpu}}
		if i%2 == 1 {
			inventories = []object{{"VCPU": cpu, "VGPU": gpu}, {}}
		}
		body := object{"allocations": moved, "inventories": object{}}
		for k, id := range []string{parent, child} {
			generation := p.must("GET", "/resource_providers/"+id, nil)["generation"]
			body["inventories"].(object)[id] = object{"resource_provider_generation": generation, "inventories": inventories[k]}
		}
		begun := time.Now()
		if status, answer := p.call("POST", "/reshaper", body); status != http.StatusNoContent {
			p.t.Fatalf("reshape %s: %d %v", strconv.Itoa(n), status, answer)
		}
		took = append(took, time.Since(begun))
	}
	return took
}
