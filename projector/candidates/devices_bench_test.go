package candidates_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/allot-project/allot/projector/candidates"
)

// percentiles reports how long what was measured took.
func percentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e6, "p99-ms")
}

// BenchmarkDevices searches 10,000 hosts of 8 devices, of which one is used in all hosts but
// one, beside a plain request: for candidates with a limit, and for claims.
func BenchmarkDevices(b *testing.B) {
	const count = 10_000
	world := candidates.NewWorld(hosts(count, 8, func(host int) int { return min(1, (count/2-host)*(count/2-host)) }, nil))
	plain := &candidates.Request{Nested: true, Groups: []candidates.Group{{
		Resources: []candidates.Resource{{Class: coreClass, Amount: 1}},
	}}}
	requests := map[string]*candidates.Request{"plain": plain}
	names := []string{"plain"}
	for n := 1; n <= 8; n++ {
		names = append(names, fmt.Sprint("groups=", n))
		requests[names[n]] = devices(n)
	}
	for _, name := range names {
		for order, called := range []string{"depth", "breadth"} {
			b.Run(fmt.Sprintf("limit=100/%s/%s", name, called), func(b *testing.B) {
				req := *requests[name]
				req.Limit, req.Order = 100, candidates.Order(order)
				var took []time.Duration
				for b.Loop() {
					begun := time.Now()
					all := func(*candidates.Candidate) bool { return true }
					if err := candidates.Search(context.Background(), world, &req, all); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				percentiles(b, took)
			})
		}
	}
	for _, name := range names {
		for _, order := range []string{"none", "pack", "spread", "random"} {
			b.Run(fmt.Sprintf("claim/%s/%s", name, order), func(b *testing.B) {
				ranking := candidates.NewRanking(world)
				pref := *preferencesOf(requests[name].Groups[0].Resources[0].Class)[order]
				pref.Once = true
				var took []time.Duration
				for b.Loop() {
					begun := time.Now()
					pref.Seed++
					found, err := ranking.Best(context.Background(), requests[name], &pref, 2)
					if err != nil || len(found) == 0 {
						b.Fatal(len(found), err)
					}
					if pref.Seed > 6 { // the first makes an order
						took = append(took, time.Since(begun))
					}
				}
				if len(took) > 0 {
					percentiles(b, took)
				}
			})
		}
	}
}
