// Command sidebyside measures requests to a Placement or an Allot that need consumer generations, for .ci/side-by-side:
// migrations, with the generations read before each as nova does, and reshapes. The load generator cannot send
// them, because it assumes that generations count from 1. It measures, too, what claims replace: candidates, then
// allocate, and the next one if others were faster.
//
//	sidebyside URL FILE
//
// It appends to the file in the load generator's form.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("sidebyside URL FILE")
	}
	f, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	good(err)
	defer func() { _ = f.Close() }()
	p := &placementClient{url: os.Args[1], http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	for _, clients := range []int{1, 64} {
		report(f, "migrate, with generations", clients, p.migrate(clients, 5*time.Second), nil)
	}
	for _, n := range []int{100, 1000} {
		report(f, fmt.Sprintf("reshape of %d consumers", n), 1, p.reshape(n, 3), nil)
	}
	roomy := p.hosts("CUSTOM_SIDE_BY_SIDE", 100, 100000)
	for _, clients := range []int{1, 16} {
		report(f, "candidates with limit 10, then allocate", clients, p.choose(clients, roomy, p.oldWay), nil)
		report(f, "the same; Allot: claims", clients, p.choose(clients, roomy, p.bestWay()), nil)
	}
	const racers, places = 100, 10
	for _, way := range []struct {
		name   string
		choose chooser
	}{{"candidates, then allocate", p.oldWay}, {"the same; Allot: claims", p.bestWay()}} {
		last := p.hosts("CUSTOM_SIDE_BY_SIDE_RACE", 1, places)
		m, won := race(racers, last, way.choose)
		used := p.must("GET", "/resource_providers/"+last.ids[0]+"/usages", nil)["usages"].(object)["VCPU"]
		if used != float64(won) {
			log.Fatalf("%d clients think that they have a place, and %v are used, %s", won, used, way.name)
		}
		name := fmt.Sprintf("race for the last %d places: %s", places, way.name)
		log.Printf("%s: %v places given", name, used)
		if won != places && p.claims {
			log.Fatalf("%s: not as many as there are", name)
		}
		report(f, name, racers, m, object{"places_given": used})
	}
}

func good(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// measured is how long each request took, and all of them.
type measured struct {
	took    []time.Duration
	elapsed time.Duration
}

// measure runs clients at once. Each notes how long each of its requests took.
func measure(clients int, client func(note func(time.Duration))) (m measured) {
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			client(func(took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				m.took = append(m.took, took)
			})
		})
	}
	all.Wait()
	m.elapsed = time.Since(begun)
	return m
}

// report writes a measurement in the load generator's form, with more about it.
func report(w io.Writer, scenario string, clients int, m measured, more object) {
	slices.Sort(m.took)
	row := object{
		"scenario": scenario, "c": clients, "ops": len(m.took), "ops_s": float64(len(m.took)) / m.elapsed.Seconds(),
		"p50_ms": float64(m.took[len(m.took)/2].Microseconds()) / 1000,
	}
	maps.Copy(row, more)
	good(json.NewEncoder(w).Encode(row))
}

type placementClient struct {
	url  string
	http *http.Client

	claims bool // the server has them
}

// call sends a request and returns the answer's object.
func (p *placementClient) call(method, path string, body any) (int, map[string]any) {
	text, err := json.Marshal(body)
	good(err)
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(string(text)))
	good(err)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.38")
	r.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(r)
	good(err)
	defer func() { _ = resp.Body.Close() }() // nothing was written
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
		log.Fatalf("%s %s: %d, %v", method, path, resp.StatusCode, err)
	}
	return resp.StatusCode, answer
}

func (p *placementClient) must(method, path string, body any) map[string]any {
	for range 50 {
		status, answer := p.call(method, path, body)
		if status < 300 {
			return answer
		}
		if status != http.StatusConflict {
			log.Fatalf("%s %s: %d %v", method, path, status, answer)
		}
	}
	log.Fatalf("%s %s: nothing but conflicts", method, path)
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

func (p *placementClient) migrate(clients int, during time.Duration) measured {
	want, begun := object{"VCPU": 1, "MEMORY_MB": 512}, time.Now()
	return measure(clients, func(note func(time.Duration)) {
		room := object{"VCPU": object{"total": 1000}, "MEMORY_MB": object{"total": 1000000}}
		from, to := p.provider("from", nil, room), p.provider("to", nil, room)
		a, b := uuid.NewString(), uuid.NewString()
		p.must("PUT", "/allocations/"+a, allocationBody(nil, object{from: want}))
		p.must("PUT", "/allocations/"+b, allocationBody(nil, object{to: want}))
		for time.Since(begun) < during {
			start := time.Now()
			moved := object{}
			for id, target := range map[string]string{a: to, b: from} {
				generation := p.must("GET", "/allocations/"+id, nil)["consumer_generation"]
				moved[id] = allocationBody(generation, object{target: want})
			}
			p.must("POST", "/allocations", moved)
			from, to = to, from
			note(time.Since(start))
		}
	})
}

func (p *placementClient) reshape(n, times int) (m measured) {
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
			log.Fatalf("reshape %s: %d %v", strconv.Itoa(n), status, answer)
		}
		took := time.Since(begun)
		m.took, m.elapsed = append(m.took, took), m.elapsed+took
	}
	return m
}

// chooser allocates on some host with a trait, whichever it is, and reports whether there
// was one. Many goroutines call it.
type chooser func(trait string) bool

// hosts are providers with a trait that no others have.
type hosts struct {
	trait string
	ids   []string
}

func (p *placementClient) hosts(prefix string, n, room int) (made hosts) {
	made.trait = prefix + "_" + strings.ToUpper(strings.ReplaceAll(uuid.NewString(), "-", "_"))
	p.must("PUT", "/traits/"+made.trait, nil)
	for range n {
		id := p.provider("host", nil, object{"VCPU": object{"total": room}})
		p.must("PUT", "/resource_providers/"+id+"/traits",
			object{"resource_provider_generation": 1, "traits": []string{made.trait}})
		made.ids = append(made.ids, id)
	}
	return made
}

// oldWay takes any of ten candidates, so as not to meet all others at the first one, and asks again if
// others had all of them.
func (p *placementClient) oldWay(trait string) bool {
	consumer := uuid.NewString()
	for {
		status, found := p.call("GET", "/allocation_candidates?limit=10&resources=VCPU:1&required="+trait, nil)
		requests, _ := found["allocation_requests"].([]any)
		if status != http.StatusOK {
			log.Fatalf("candidates: %d %v", status, found)
		}
		if len(requests) == 0 {
			return false
		}
		for _, i := range rand.Perm(len(requests)) {
			body := allocationBody(nil, nil)
			body["allocations"] = requests[i].(object)["allocations"]
			switch status, answer := p.call("PUT", "/allocations/"+consumer, body); status {
			case http.StatusNoContent:
				return true
			case http.StatusConflict:
			default:
				log.Fatalf("allocate: %d %v", status, answer)
				return false
			}
		}
	}
}

// bestWay is a claim where there are claims, and the old way elsewhere.
func (p *placementClient) bestWay() chooser {
	status, _ := p.call("POST", "/claims", object{})
	if p.claims = status != http.StatusNotFound; !p.claims {
		return p.oldWay
	}
	return func(trait string) bool {
		status, answer := p.call("POST", "/claims", object{
			"requests": []string{"resources=VCPU:1&required=" + trait}, "prefer": object{"order": "spread"},
			"consumers": []object{{
				"consumer_uuid": uuid.NewString(), "project_id": "p", "user_id": "u",
				"consumer_type": "INSTANCE", "consumer_generation": nil,
			}},
		})
		if status >= http.StatusMultipleChoices && status != http.StatusConflict {
			log.Fatalf("claim: %d %v", status, answer)
		}
		return status < http.StatusMultipleChoices
	}
}

// choose lets clients allocate for some time where there is plenty of room.
func (p *placementClient) choose(clients int, on hosts, choose chooser) measured {
	begun := time.Now()
	return measure(clients, func(note func(time.Duration)) {
		for time.Since(begun) < 5*time.Second {
			start := time.Now()
			if !choose(on.trait) {
				log.Fatal("there was no room left")
				return
			}
			note(time.Since(start))
		}
	})
}

// race lets each client want one of the last places, and measures until it has one or
// knows that there is none.
func race(clients int, on hosts, choose chooser) (m measured, won int64) {
	var placed atomic.Int64
	begun := time.Now()
	m = measure(clients, func(note func(time.Duration)) {
		if choose(on.trait) {
			placed.Add(1)
		}
		note(time.Since(begun))
	})
	return m, placed.Load()
}
