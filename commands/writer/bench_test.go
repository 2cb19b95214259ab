package writer_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// BenchmarkDurable compares commands through Writer.Submit with the disk and
// JetStream alone, in one run: look at the ratios.
func BenchmarkDurable(b *testing.B) {
	b.Run("baseline=publish", benchPublish)
	for _, submitters := range []int{1, 16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("submitters=%d", submitters), func(b *testing.B) { benchSubmit(b, submitters) })
	}
}

const payloadBytes = 300

func perSecond(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(0, "ns/op")
}

// rawSubject is one on which the log's connection may publish.
const rawSubject = jetstream.Subject + ".raw"

// benchPublish publishes on a stream like the log's, without the log.
func benchPublish(b *testing.B) {
	_, ns := commandstest.JetStream(b, b.TempDir(), false)
	nc := commandstest.Must(ns.Connect())
	defer nc.Close()
	api, err := js.New(nc)
	if err == nil {
		_, err = api.CreateStream(b.Context(), js.StreamConfig{Name: "RAW", Subjects: []string{rawSubject}})
	}
	ledgertest.OK(b, err)
	for b.Loop() {
		if _, err := api.Publish(b.Context(), rawSubject, make([]byte, payloadBytes)); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, b.N)
}

func benchSubmit(b *testing.B, submitters int) {
	dir := b.TempDir()
	log, _ := commandstest.JetStream(b, dir, false)
	l := commandstest.Start(b, dir, log)
	providers := l.Providers(b, 100, commands.Inventory{Class: "VCPU", Total: ledger.MaxAmount})
	next := make(chan int, submitters)
	var mu sync.Mutex
	var took []time.Duration
	firstCommit := l.Views.Checkpoint().Sequence
	b.ResetTimer()
	var all sync.WaitGroup
	for range submitters {
		all.Go(func() {
			var mine []time.Duration
			for i := range next {
				begun := time.Now()
				l.Accept(b, commandstest.Allocate(commandstest.NewID(), providers[i%100], "VCPU", 1))
				mine = append(mine, time.Since(begun))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	for i := range b.N {
		next <- i
	}
	close(next)
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/float64(l.Views.Checkpoint().Sequence-firstCommit), "commands/commit")
	perSecond(b, b.N)
}

// roomy are inventories of three classes, of which consumers never hold all.
var roomy = []commands.Inventory{
	{Class: "VCPU", Total: ledger.MaxAmount}, {Class: "MEMORY_MB", Total: ledger.MaxAmount},
	{Class: "DISK_GB", Total: ledger.MaxAmount},
}

func threeClasses(provider ledger.UUID) *commands.AllocateForConsumers {
	return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: commandstest.NewID(), Project: "11111111-2222-3333-4444-555555555555",
		User: "99999999-8888-7777-6666-555555555555",
		Resources: []commands.ProviderAllocation{
			{Provider: provider, Class: "VCPU", Amount: 2}, {Provider: provider, Class: "MEMORY_MB", Amount: 2048},
			{Provider: provider, Class: "DISK_GB", Amount: 20},
		},
	}}}
}

// BenchmarkMemory reports how much memory a consumer with three classes and a
// provider with three inventories take in the State.
func BenchmarkMemory(b *testing.B) {
	const providers, consumers = 20_000, 200_000
	for b.Loop() {
		empty := heap()
		s := commands.NewScratch(ledger.NewState())
		carry := func(c commands.Command) {
			if _, rejection, err := s.Carry(commands.Submission{Command: c}); err != nil || rejection != nil {
				b.Fatal(rejection, err)
			}
		}
		names := commandstest.Must(commands.NewAddStandardNames(commandstest.NewID()))
		carry(names)
		ids := make([]ledger.UUID, providers)
		for i := range ids {
			ids[i] = commandstest.NewID()
			carry(&commands.CreateProvider{Provider: ids[i], Name: fmt.Sprint(i)})
			carry(&commands.ReplaceInventories{Provider: ids[i], Inventories: roomy})
		}
		withProviders := heap()
		for i := range consumers {
			carry(threeClasses(ids[i%providers]))
		}
		s.State().Begin() // forget the last changes
		full := heap()
		b.ReportMetric(float64(withProviders-empty)/providers, "B/provider")
		b.ReportMetric(float64(full-withProviders)/consumers, "B/consumer")
		runtime.KeepAlive(s)
	}
	b.ReportMetric(0, "ns/op")
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkReplay folds a log of single-consumer records, 100 to a commit, into State and read models from nothing.
func BenchmarkReplay(b *testing.B) {
	const commits, perCommit = 500, 100
	log := recordedLog(b, commits, perCommit)
	for b.Loop() {
		l := commandstest.Start(b, b.TempDir(), log)
		b.StopTimer()
		l.Stop(b)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N*commits*perCommit)/b.Elapsed().Seconds(), "records/s")
}

// recordedLog is a log of consumers with three classes each.
func recordedLog(tb testing.TB, commits, perCommit int) ledger.Log {
	tb.Helper()
	l := commandstest.StartTogether(tb)
	hosts := l.Providers(tb, 1000, roomy...)
	list := make([]commands.Command, perCommit)
	for i := range commits {
		for j := range list {
			list[j] = threeClasses(hosts[(i*perCommit+j)%len(hosts)])
		}
		l.Submit(tb, list...)
	}
	l.Stop(tb)
	return l.Log
}
