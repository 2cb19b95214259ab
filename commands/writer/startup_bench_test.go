package writer_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

var startupConsumers = flag.Int("startup.consumers", 1_000_000, "consumers of BenchmarkStartup")

// BenchmarkStartup reports, in one run, how long JetStream takes to recover the
// log of many consumers, and how long Allot then takes to serve: from a snapshot,
// and from the log alone with nothing else left.
func BenchmarkStartup(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, *startupConsumers)
	quiet := slog.New(slog.DiscardHandler)
	for b.Loop() {
		for _, name := range []string{"log-alone", "snapshot"} {
			forgetIndex(b, dir)
			begun := time.Now()
			ns, err := embedded.Start(b.Context(), embedded.Config{StoreDir: filepath.Join(dir, "log"), LazySync: true})
			if err != nil {
				b.Fatal(err)
			}
			nc, err := ns.Connect()
			if err != nil {
				b.Fatal(err)
			}
			log, err := jetstream.Open(context.Background(), nc, jetstream.Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(begun).Seconds(), "s-jetstream")
			begun = time.Now()
			views, err := projector.Open(filepath.Join(dir, "readmodel"), quiet)
			if err != nil {
				b.Fatal(err)
			}
			snaps, err := snapshots.Open(filepath.Join(dir, "snapshots"), quiet)
			if err != nil {
				b.Fatal(err)
			}
			state, err := writer.Restore(context.Background(), log, snaps, views, nil, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(begun).Seconds(), "s-"+name)
			if state.ConsumerCount() != *startupConsumers {
				b.Fatalf("%d consumers", state.ConsumerCount())
			}
			begun = time.Now()
			if err := snaps.Save(state); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(begun).Seconds(), "s-save")
			if err := views.Close(); err != nil {
				b.Fatal(err)
			}
			nc.Close()
			ns.Shutdown()
		}
		for _, folder := range []string{"readmodel", "snapshots"} {
			if err := os.RemoveAll(filepath.Join(dir, folder)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// forgetIndex removes the index that JetStream writes at a clean stop, so that it
// recovers as after kill -9.
func forgetIndex(b *testing.B, dir string) {
	b.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "log", "jetstream", "*", "streams", "*", "msgs", "index.db"))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			b.Fatal(err)
		}
	}
}

// fill writes a log of single-consumer records, 100 to a commit.
func fill(b *testing.B, dir string, consumers int) {
	b.Helper()
	log, ns := commandstest.JetStream(b, dir, true)
	defer ns.Shutdown()
	recorded := recordedLog(b, consumers/100, 100)
	last, err := recorded.Last(b.Context())
	if err == nil {
		err = recorded.Read(b.Context(), 1, last, func(e ledger.Entry) error {
			return ledgertest.Append(log, e.Sequence, e.Data)
		})
	}
	if err != nil {
		b.Fatal(err)
	}
}
