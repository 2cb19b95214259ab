package placement_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/policy"
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
	h := moments(b, f)
	random := rand.New(rand.NewPCG(1, 2))
	last := f.Views.View().Sequence()
	for _, kind := range []string{"allocations", "usages", "provider", "candidates"} {
		for _, when := range []string{"now", "then"} {
			b.Run(kind+"/"+when, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					target := targetOf(kind, f, random)
					if when == "then" {
						target += fmt.Sprintf("&at=%d", last/2+random.Uint64N(last/2))
					}
					begun := time.Now()
					get(b, h, target)
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			})
		}
	}
}

func moments(b *testing.B, f *commandstest.Filled) http.Handler {
	rules, err := policy.Load(nil, false)
	if err != nil {
		b.Fatal(err)
	}
	return &placement.Handler{Views: f.Views, Logger: slog.New(slog.DiscardHandler), Auth: auth.Noauth{}, Policy: rules}
}

func targetOf(kind string, f *commandstest.Filled, random *rand.Rand) string {
	switch kind {
	case "allocations":
		return fmt.Sprintf("/allocations/%s?", f.Consumers[random.IntN(len(f.Consumers))])
	case "usages":
		return fmt.Sprintf("/usages?project_id=project-%d", random.IntN(100))
	case "provider":
		return fmt.Sprintf("/resource_providers/%s?", f.Providers[random.IntN(len(f.Providers))])
	}
	return "/allocation_candidates?resources=VCPU:1&limit=100"
}

func get(b *testing.B, h http.Handler, target string) {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Errorf("%s: %d %s", target, w.Code, w.Body)
	}
}
