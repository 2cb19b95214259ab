package candidates_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// flat is n providers with three classes, each a tree by itself.
func flat(n int) []*ledger.Provider {
	all, draw := make([]*ledger.Provider, n), rand.NewPCG(7, 7)
	for i := range all {
		var id ledger.UUID
		binary.BigEndian.PutUint64(id[:8], draw.Uint64())
		binary.BigEndian.PutUint64(id[8:], draw.Uint64())
		p := &ledger.Provider{UUID: id, Root: id, CreatedAt: int64(i), Inventories: make([]ledger.Inventory, 3)}
		for class := range p.Inventories {
			p.Inventories[class] = ledger.Inventory{
				Class: ledger.ClassID(class), Total: 1 << 20, MinUnit: 1, MaxUnit: 1 << 20, StepSize: 1, Ratio: 1,
			}
		}
		all[i] = p
	}
	return all
}

// taking is a change: one of all that a provider has is used, or none any more.
func taking(all []*ledger.Provider, i int) []ledger.ProviderChange {
	before := all[i]
	after := *before
	after.Inventories = slices.Clone(before.Inventories)
	for j := range after.Inventories {
		after.Inventories[j].Used ^= 1
	}
	all[i] = &after
	return []ledger.ProviderChange{{Before: before, After: &after}}
}

func threeClasses() *candidates.Request {
	return &candidates.Request{Nested: true, Groups: []candidates.Group{{Resources: []candidates.Resource{
		{Class: 0, Amount: 1}, {Class: 1, Amount: 1}, {Class: 2, Amount: 1},
	}}}}
}

// BenchmarkFlat shows that neither the first candidates nor a claim cost more the more
// providers there are: while nothing changes, and with a change before each.
func BenchmarkFlat(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		worlds := map[string]func() ([]*ledger.Provider, *candidates.Request){
			"flat": func() ([]*ledger.Provider, *candidates.Request) { return flat(n), threeClasses() },
			"nested": func() ([]*ledger.Provider, *candidates.Request) {
				return hosts(n/9, 8, func(int) int { return 1 }, nil), devices(2)
			},
		}
		for _, kind := range []string{"flat", "nested"} {
			b.Run(fmt.Sprintf("%d/%s", n, kind), func(b *testing.B) { benchmarkFlat(b, worlds[kind]) })
		}
	}
}

func benchmarkFlat(b *testing.B, make func() ([]*ledger.Provider, *candidates.Request)) {
	all, req := make()
	before := heap()
	x := candidates.NewIndex()
	x.Add(all)
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(float64(heap()-before)/float64(len(all)), "B/provider")
		b.ReportMetric(scan(), "scan-ms")
	})
	req.Limit = 10
	for _, changing := range []bool{false, true} {
		i := 0
		world := x.Snapshot()
		next := func() *candidates.World {
			if changing {
				for i = (i + 7919) % len(all); !all[i].Parent.IsNil(); i-- {
				}
				x.Apply(taking(all, i))
				world = x.Snapshot()
			}
			return world
		}
		b.Run(fmt.Sprintf("search/changing=%v", changing), func(b *testing.B) {
			b.ReportAllocs()
			measure(b, next, func(world *candidates.World) int {
				found := 0
				err := candidates.Search(context.Background(), world, req, func(*candidates.Candidate) bool {
					found++
					return true
				})
				if err != nil {
					b.Fatal(err)
				}
				return found
			})
		})
		ranking := candidates.NewRanking(world)
		pref := &candidates.Preference{Once: true, Weights: []candidates.ClassWeight{{
			Class: req.Groups[0].Resources[0].Class, Weight: 1,
		}}}
		claim := func(world *candidates.World) int {
			ranking.Sync(world)
			pref.Seed++
			best, err := ranking.Best(context.Background(), req, pref, 2)
			if err != nil {
				b.Fatal(err)
			}
			return len(best)
		}
		begun := time.Now()
		claim(world)
		first := time.Since(begun)
		b.Run(fmt.Sprintf("claim/changing=%v", changing), func(b *testing.B) {
			b.ReportAllocs()
			measure(b, next, claim)
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
		})
	}
}

// measure runs something in moments of an index.
func measure(b *testing.B, next func() *candidates.World, do func(*candidates.World) int) {
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		if do(next()) == 0 {
			b.Fatal("nothing was found")
		}
		took = append(took, time.Since(begun))
	}
	percentiles(b, took)
}

// heap is how much is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// scan is how long a collection takes.
func scan() float64 {
	begun := time.Now()
	runtime.GC()
	return time.Since(begun).Seconds() * 1000
}
