package placement_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/commandstest"
)

// BenchmarkMoments asks about random moments of a history of ALLOT_BENCH_RECORDS
// records (default 200,000), and also about now.
func BenchmarkMoments(b *testing.B) {
	records := 200_000
	if text := os.Getenv("ALLOT_BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	f := commandstest.Fill(b, b.TempDir(), records, 1000)
	h := handler(&commandstest.Ledger{Views: f.Views})
	random := rand.New(rand.NewPCG(1, 2))
	last := f.Views.View().Sequence()
	for kind, target := range map[string]func() string{
		"allocations": func() string { return fmt.Sprintf("/allocations/%s?", f.Consumers[random.IntN(len(f.Consumers))]) },
		"usages":      func() string { return fmt.Sprintf("/usages?project_id=project-%d", random.IntN(100)) },
		"provider": func() string {
			return fmt.Sprintf("/resource_providers/%s?", f.Providers[random.IntN(len(f.Providers))])
		},
		"candidates": func() string { return "/allocation_candidates?resources=VCPU:1&limit=100" },
	} {
		for _, when := range []string{"now", "then"} {
			b.Run(kind+"/"+when, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					asked := target()
					if when == "then" {
						asked += fmt.Sprintf("&at=%d", last/2+random.Uint64N(last/2))
					}
					begun := time.Now()
					if w := sendAt(h, "1.39", "GET", asked, ""); w.Code != http.StatusOK {
						b.Errorf("%s: %d %s", asked, w.Code, w.Body)
					}
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			})
		}
	}
}
