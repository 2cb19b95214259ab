package placement_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// shape is a world for the benchmark of candidates.
type shape struct {
	providers   int // in all
	children    int // per root; 0: flat
	traits      int // per provider
	allocations int // consumers in all; the providers are then 10 to 90 % full
}

func (s shape) String() string {
	return fmt.Sprintf(
		"providers=%d/children=%d/traits=%d/allocations=%d", s.providers, s.children, s.traits, s.allocations,
	)
}

const unitsPerProvider = 1 << 20

// serve builds a world, in commits of many commands, and serves it over HTTP.
func (s shape) serve(b *testing.B) string {
	b.Helper()
	l := commandstest.Start(b, b.TempDir(), &memlog.Log{})
	draw := rand.New(rand.NewPCG(1, 2))
	var list []commands.Command
	var traits []string
	for t := range s.traits {
		traits = append(traits, fmt.Sprintf("CUSTOM_T%d", t))
		list = append(list, &commands.CreateTrait{Name: traits[t]})
	}
	var inventories []commands.Inventory
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
		inventories = append(inventories, commands.Inventory{Class: class, Total: unitsPerProvider})
	}
	perProvider, root := s.allocations/s.providers, ledger.NilUUID
	for i := range s.providers {
		id, full := commandstest.NewID(), 0.1+0.8*draw.Float64()
		create := &commands.CreateProvider{Provider: id, Name: fmt.Sprint(i), Parent: root}
		if i%(s.children+1) == 0 {
			root, create.Parent = id, ledger.NilUUID
		}
		list = append(list, create, &commands.ReplaceInventories{Provider: id, Inventories: inventories})
		if s.traits > 0 {
			list = append(list, &commands.ReplaceProviderTraits{Provider: id, Traits: traits[1-i%2:]})
		}
		for range perProvider {
			amount := int64(full*unitsPerProvider) / int64(perProvider)
			list = append(list, commandstest.Allocate(commandstest.NewID(), id, "VCPU", amount))
		}
	}
	for some := range slices.Chunk(list, 500) {
		l.Accept(b, &commands.Batch{Commands: some})
	}
	server := httptest.NewServer(handler(l))
	b.Cleanup(server.Close)
	return server.URL
}

// ask sends one request over and over and reports its median and its rate.
func ask(b *testing.B, url string) {
	var took []time.Duration
	var bytes int64
	for b.Loop() {
		begun := time.Now()
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("Openstack-Api-Version", "placement 1.39")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || n == 0 {
			b.Fatalf("%d, %d bytes, %v", answer.StatusCode, n, err)
		}
		if err := answer.Body.Close(); err != nil {
			b.Fatal(err)
		}
		bytes += n
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/answer")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCandidates asks for candidates over HTTP in worlds of many sizes.
func BenchmarkCandidates(b *testing.B) {
	const plain = "resources=VCPU:100000,MEMORY_MB:1000"
	groups := func(n int) string {
		var q strings.Builder
		q.WriteString("group_policy=isolate")
		for i := range n {
			fmt.Fprintf(&q, "&resources%d=VCPU:100000", i+1)
		}
		return q.String()
	}
	for _, c := range []struct {
		shape   shape
		queries map[string]string
	}{
		{shape{providers: 1_000}, map[string]string{"plain": plain}},
		{shape{providers: 10_000}, map[string]string{"plain": plain}},
		{shape{providers: 100_000}, map[string]string{"plain": plain}},
		{shape{providers: 100_000, allocations: 500_000}, map[string]string{"plain": plain, "never": "resources=VCPU:1048576"}},
		{shape{providers: 1_000, traits: 50}, map[string]string{"traits=0": plain, "traits=1": plain + "&required=CUSTOM_T0", "traits=2": plain + "&required=CUSTOM_T0,CUSTOM_T9"}},
		{shape{providers: 9_000, children: 8}, map[string]string{"groups=1": groups(1), "groups=2": groups(2), "groups=3": groups(3), "groups=4": groups(4)}},
		{shape{providers: 99_999, children: 8, allocations: 500_000}, map[string]string{"groups=2": groups(2)}},
	} {
		b.Run(c.shape.String(), func(b *testing.B) {
			url := c.shape.serve(b) + "/allocation_candidates?"
			for _, name := range slices.Sorted(maps.Keys(c.queries)) {
				b.Run(name+"/limit=100", func(b *testing.B) { ask(b, url+c.queries[name]+"&limit=100") })
				if name == "plain" || name == "groups=2" {
					b.Run(name+"/limit=none", func(b *testing.B) { ask(b, url+c.queries[name]) })
				}
			}
		})
	}
}
