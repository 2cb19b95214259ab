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
	"sync"
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

// parallel submits commands, except nil ones, from many goroutines, so that they
// share commits.
func parallel(b *testing.B, l *commandstest.Ledger, n int, command func(i int) commands.Command) {
	b.Helper()
	next := numbers(n)
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for i := range next {
				if c := command(i); c != nil && !b.Failed() {
					l.Accept(b, c)
				}
			}
		})
	}
	all.Wait()
}

func numbers(n int) chan int {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	return next
}

const unitsPerProvider = 1 << 20

// serve builds a world and serves it over HTTP.
func (s shape) serve(b *testing.B) string {
	b.Helper()
	l := commandstest.Start(b, b.TempDir(), &memlog.Log{})
	draw := rand.New(rand.NewPCG(1, 2))
	ids := make([]ledger.UUID, s.providers)
	full := make([]float64, s.providers)
	for i := range ids {
		ids[i], full[i] = commandstest.NewID(), 0.1+0.8*draw.Float64()
	}
	for t := range s.traits {
		l.Accept(b, &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_T%d", t)})
	}
	create := func(i int) commands.Command {
		c := &commands.CreateProvider{Provider: ids[i], Name: fmt.Sprint(i)}
		if root := i - i%(s.children+1); s.children > 0 && root != i {
			c.Parent = ids[root]
		}
		return c
	}
	each := s.children + 1
	parallel(b, l, (s.providers+each-1)/each, func(i int) commands.Command { return create(i * each) })
	parallel(b, l, s.providers, func(i int) commands.Command {
		if i%each == 0 {
			return nil // a root: created before
		}
		return create(i)
	})
	parallel(b, l, s.providers, func(i int) commands.Command {
		var list []commands.Inventory
		for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
			list = append(list, commands.Inventory{Class: class, Total: unitsPerProvider})
		}
		return &commands.ReplaceInventories{Provider: ids[i], Inventories: list}
	})
	if s.traits > 0 {
		parallel(b, l, s.providers, func(i int) commands.Command {
			p, _, err := l.Views.View().Provider(ids[i])
			if err != nil {
				b.Error(err)
			}
			c := &commands.ReplaceProviderTraits{Provider: ids[i], Generation: &p.Generation}
			for t := range s.traits {
				if t == 0 && i%2 == 0 {
					continue
				}
				c.Traits = append(c.Traits, fmt.Sprintf("CUSTOM_T%d", t))
			}
			return c
		})
	}
	perProvider := s.allocations / s.providers
	parallel(b, l, perProvider*s.providers, func(i int) commands.Command {
		return commandstest.Allocate(
			commandstest.NewID(), ids[i%s.providers], "VCPU", int64(full[i%s.providers]*unitsPerProvider)/int64(perProvider),
		)
	})
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
