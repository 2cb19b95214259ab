package audit_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/commandstest"
)

// BenchmarkHistory reads the 50 entries of one consumer, with the state before
// and after each, among many records of others: ALLOT_BENCH_RECORDS, or 200,000.
func BenchmarkHistory(b *testing.B) {
	records := 200_000
	if text := os.Getenv("ALLOT_BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	f := commandstest.Fill(b, b.TempDir(), records, 1000)
	q := ask(&commandstest.Ledger{Views: f.Views}, nil)
	if n := len(history(b, q, 1000, "consumer="+f.Rare.String())); n != commandstest.RareChanges {
		b.Fatalf("%d entries", n)
	}
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		q.text(b, "/audit/history?limit=50&consumer="+f.Rare.String())
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
