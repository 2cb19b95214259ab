package audit_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/commandstest"
)

// benchRecords is the number of records: ALLOT_BENCH_RECORDS, or 200,000.
func benchRecords(b *testing.B) int {
	text := os.Getenv("ALLOT_BENCH_RECORDS")
	if text == "" {
		return 200_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("ALLOT_BENCH_RECORDS=%q", text)
	}
	return n
}

// BenchmarkHistory reads the 50 entries of one consumer, with the state before
// and after each, among many records of others.
func BenchmarkHistory(b *testing.B) {
	records := benchRecords(b)
	f := commandstest.Fill(b, b.TempDir(), records, 1000)
	q := &audit.Questions{
		Views: f.Views, Authorize: func(http.ResponseWriter, *http.Request) bool { return true },
		Logger: slog.New(slog.DiscardHandler),
	}
	h := q.Handlers()["/audit/history"]
	ask := func() time.Duration {
		w := httptest.NewRecorder()
		begun := time.Now()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/audit/history?limit=50&consumer="+f.Rare.String(), nil))
		took := time.Since(begun)
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		return took
	}
	page, _ := read(b, h, "limit=1000&consumer="+f.Rare.String())
	if len(page.Entries) != commandstest.RareChanges {
		b.Fatalf("%d entries", len(page.Entries))
	}
	var took []time.Duration
	for b.Loop() {
		took = append(took, ask())
	}
	slices.Sort(took)
	b.ReportMetric(float64(records), "records")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
