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

// BenchmarkStartup reports, in one run, how long JetStream takes to recover the log of many consumers, and how long
// Allot then takes to serve: from a snapshot, and from the log alone with nothing else left.
func BenchmarkStartup(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, *startupConsumers)
	quiet := slog.New(slog.DiscardHandler)
	for b.Loop() {
		for _, name := range []string{"log-alone", "snapshot"} {
			forgetIndex(b, dir)
			begun := time.Now()
			cfg := embedded.Config{StoreDir: filepath.Join(dir, "log"), LazySync: true}
			ns := commandstest.Must(embedded.Start(b.Context(), cfg))
			nc := commandstest.Must(ns.Connect())
			log := commandstest.Must(jetstream.Open(context.Background(), nc, jetstream.Config{}))
			b.ReportMetric(time.Since(begun).Seconds(), "s-jetstream")
			begun = time.Now()
			views := commandstest.Must(projector.Open(filepath.Join(dir, "readmodel"), quiet))
			snaps := commandstest.Must(snapshots.Open(filepath.Join(dir, "snapshots"), quiet))
			state := commandstest.Must(writer.Restore(context.Background(), log, snaps, views, nil, nil, nil))
			b.ReportMetric(time.Since(begun).Seconds(), "s-"+name)
			if state.ConsumerCount() != *startupConsumers {
				b.Fatalf("%d consumers", state.ConsumerCount())
			}
			begun = time.Now()
			ledgertest.OK(b, snaps.Save(state))
			b.ReportMetric(time.Since(begun).Seconds(), "s-save")
			ledgertest.OK(b, views.Close())
			nc.Close()
			ns.Shutdown()
		}
		for _, folder := range []string{"readmodel", "snapshots"} {
			ledgertest.OK(b, os.RemoveAll(filepath.Join(dir, folder)))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// forgetIndex removes the index that JetStream writes at a clean stop, so that it recovers as after kill -9.
func forgetIndex(b *testing.B, dir string) {
	b.Helper()
	pattern := filepath.Join(dir, "log", "jetstream", "*", "streams", "*", "msgs", "index.db")
	for _, path := range commandstest.Must(filepath.Glob(pattern)) {
		ledgertest.OK(b, os.Remove(path))
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
	ledgertest.OK(b, err)
}
