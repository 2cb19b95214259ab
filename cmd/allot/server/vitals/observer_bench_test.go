package vitals

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"log/slog"

	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// watched is a way to watch the writer.
type watched struct {
	name     string
	observer writer.Observer // nil: nothing does
	trace    *commands.Trace // of all commands
}

func waysToWatch(tb testing.TB) []watched {
	tb.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tb.Cleanup(receiver.Close)
	tracer, err := tracing.Start(context.Background(), tracing.Options{
		URL: receiver.URL, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := tracer.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	metrics := NewInstruments()
	place := &commands.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	return []watched{
		{"nothing", nil, nil},
		{"metrics", Observer{metrics, nil}, nil},
		{"metrics, traces of none", Observer{metrics, tracer}, nil},
		{"metrics, traces of all", Observer{metrics, tracer}, place},
	}
}

// BenchmarkWatched compares the writer with what may watch it, over a log in
// memory, where the watching counts most: run it with -count 4, and look at the
// ratios of one round.
func BenchmarkWatched(b *testing.B) {
	const submitters = 64
	for _, way := range waysToWatch(b) {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			l, provider := startWatched(b, way)
			next := make(chan struct{}, submitters)
			var all sync.WaitGroup
			b.ResetTimer()
			for range submitters {
				all.Go(func() {
					for range next {
						submitWatched(b, l, way, provider)
					}
				})
			}
			for range b.N {
				next <- struct{}{}
			}
			close(next)
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
		})
	}
}

func startWatched(tb testing.TB, way watched) (*commandstest.Ledger, ledger.UUID) {
	tb.Helper()
	l := commandstest.StartWith(tb, tb.TempDir(), &memlog.Log{}, func(o *writer.Options) { o.Observer = way.observer })
	return l, l.Provider(tb, "p", commands.Inventory{Class: "VCPU", Total: ledger.MaxAmount})
}

func submitWatched(tb testing.TB, l *commandstest.Ledger, way watched, provider ledger.UUID) {
	outcome, err := l.Writer.Submit(context.Background(), commands.Submission{
		ID: commands.NewID(), Actor: "test", Trace: way.trace,
		Command: commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1),
	})
	if err != nil || outcome.Rejection != nil {
		tb.Errorf("%v, %v", outcome.Rejection, err)
	}
}

// TestUntracedCostsNothing: a command that is not recorded makes nothing for its
// trace, whether there are traces or not.
func TestUntracedCostsNothing(t *testing.T) {
	const commandsEach = 400
	mallocs := make(map[string]float64)
	for _, way := range waysToWatch(t) {
		l, provider := startWatched(t, way)
		least := 0.0
		for range 5 { // the least of several: other goroutines allocate, too
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range commandsEach {
				submitWatched(t, l, way, provider)
			}
			runtime.ReadMemStats(&after)
			each := float64(after.Mallocs-before.Mallocs) / commandsEach
			if least == 0 || each < least {
				least = each
			}
		}
		mallocs[way.name] = least
	}
	t.Log("allocations of a command: ", fmt.Sprint(mallocs))
	none, off, on := mallocs["metrics"], mallocs["metrics, traces of none"], mallocs["metrics, traces of all"]
	if off > none+1 {
		t.Errorf("a command that is not recorded makes %.1f allocations, and %.1f without traces", off, none)
	}
	if on < none+5 {
		t.Errorf("a command that is recorded makes only %.1f allocations: this test sees nothing", on)
	}
}
