package writer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/memlog"
)

// BenchmarkDurable compares commands through Writer.Submit with the disk and
// JetStream alone, in one run: look at the ratios.
func BenchmarkDurable(b *testing.B) {
	b.Run("baseline=fsync", benchFsync)
	b.Run("baseline=publish", benchPublish)
	b.Run("baseline=batch100", benchAtomicBatch)
	for _, submitters := range []int{1, 16, 64, 256, 1024} {
		b.Run(fmt.Sprintf("submitters=%d", submitters), func(b *testing.B) { benchSubmit(b, submitters) })
	}
}

const payloadBytes = 300

func perSecond(b *testing.B, n int) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(0, "ns/op")
}

func benchFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for b.Loop() {
		if _, err := f.Write(make([]byte, payloadBytes)); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, b.N)
}

// rawSubject is one on which the log's connection may publish.
const rawSubject = jetstream.Subject + ".raw"

// rawStream is a stream like the log's, without the log.
func rawStream(b *testing.B) (js.JetStream, *nats.Conn) {
	b.Helper()
	_, ns := commandstest.JetStream(b, b.TempDir(), false)
	nc, err := ns.Connect()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	api, err := js.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	_, err = api.CreateStream(
		context.Background(), js.StreamConfig{Name: "RAW", Subjects: []string{rawSubject}, AllowAtomicPublish: true},
	)
	if err != nil {
		b.Fatal(err)
	}
	return api, nc
}

func benchPublish(b *testing.B) {
	api, _ := rawStream(b)
	for b.Loop() {
		if _, err := api.Publish(context.Background(), rawSubject, make([]byte, payloadBytes)); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, b.N)
}

// benchAtomicBatch publishes batches of 100 messages, for which nats.go has no
// function. A command is one message.
func benchAtomicBatch(b *testing.B) {
	const size = 100
	_, nc := rawStream(b)
	batch := 0
	for b.Loop() {
		batch++
		for i := 1; i <= size; i++ {
			msg := nats.NewMsg(rawSubject)
			msg.Data = make([]byte, payloadBytes)
			msg.Header.Set("Nats-Batch-Id", fmt.Sprint("b", batch))
			msg.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i))
			if i < size {
				if err := nc.PublishMsg(msg); err != nil {
					b.Fatal(err)
				}
				continue
			}
			msg.Header.Set("Nats-Batch-Commit", "1")
			answer, err := nc.RequestMsg(msg, 10*time.Second)
			if err != nil {
				b.Fatal(err)
			}
			if !slices.Contains(answer.Data, '{') || len(answer.Data) > 200 {
				b.Fatalf("%s", answer.Data)
			}
		}
	}
	perSecond(b, b.N*size)
}

func benchSubmit(b *testing.B, submitters int) {
	dir := b.TempDir()
	log, _ := commandstest.JetStream(b, dir, false)
	l := commandstest.Start(b, dir, log)
	var providers []ledger.UUID
	for i := range 100 {
		providers = append(
			providers, l.Provider(b, fmt.Sprint(i), commands.Inventory{Class: "VCPU", Total: ledger.MaxAmount}),
		)
	}
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

// world is a State with providers and consumers, made without a log.
func world(tb testing.TB, providers, consumers int) (*ledger.State, []ledger.UUID) {
	tb.Helper()
	s := ledger.NewState()
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err != nil {
		tb.Fatal(err)
	}
	carryOut(tb, s, begin)
	var ids []ledger.UUID
	for i := range providers {
		id := commandstest.NewID()
		ids = append(ids, id)
		carryOut(tb, s, &commands.CreateProvider{Provider: id, Name: fmt.Sprint(i)})
		carryOut(tb, s, &commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
			{
				Class: "VCPU", Total: ledger.MaxAmount,
			}, {Class: "MEMORY_MB", Total: ledger.MaxAmount}, {Class: "DISK_GB", Total: ledger.MaxAmount},
		}})
	}
	for i := range consumers {
		carryOut(tb, s, threeClasses(ids[i%len(ids)]))
	}
	return s, ids
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

// carryOut decides and applies a command as one commit.
func carryOut(tb testing.TB, s *ledger.State, c commands.Command) {
	events, rejection := c.Decide(s)
	if rejection != nil {
		tb.Fatal(rejection)
	}
	s.Begin()
	head := s.Head()
	if err := s.Apply(head.Sequence+1, &ledger.Record{Time: int64(head.Sequence), Events: events}); err != nil {
		tb.Fatal(err)
	}
	s.Advance(ledger.Head{Sequence: head.Sequence + 1})
}

// BenchmarkMemory reports how much memory a consumer with three classes and a
// provider with three inventories take in the State.
func BenchmarkMemory(b *testing.B) {
	const providers, consumers = 20_000, 200_000
	for b.Loop() {
		empty := heap()
		s, ids := world(b, providers, 0)
		withProviders := heap()
		for i := range consumers {
			carryOut(b, s, threeClasses(ids[i%providers]))
		}
		s.Begin() // forget the last changes
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

// BenchmarkReplay folds a log of single-consumer records, 100 to a commit,
// into State and read models from nothing.
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

// recordedLog makes a log without a writer.
func recordedLog(tb testing.TB, commits, perCommit int) *memlog.Log {
	tb.Helper()
	log := &memlog.Log{MaxBytes: 64 << 20}
	s := ledger.NewState()
	builder := ledger.NewCommitBuilder()
	var ids []ledger.UUID
	appendCommit := func(list ...commands.Command) {
		s.Begin()
		builder.Begin(s.Head())
		for _, c := range list {
			events, rejection := c.Decide(s)
			if rejection != nil {
				tb.Fatal(rejection)
			}
			record := ledger.Record{
				CommandID: commandstest.NewID(), Command: commands.NameOf(c), Time: int64(builder.Sequence()), Actor: "admin",
				Events: events,
			}
			if err := s.Apply(builder.Sequence(), &record); err != nil {
				tb.Fatal(err)
			}
			if _, _, err := builder.Add(record, 64<<20); err != nil {
				tb.Fatal(err)
			}
		}
		commit, encoded, err := builder.Seal()
		if err != nil {
			tb.Fatal(err)
		}
		s.Advance(commit.Head())
		log.Edit(func(entries [][]byte) [][]byte { return append(entries, encoded) })
	}
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err != nil {
		tb.Fatal(err)
	}
	appendCommit(begin)
	for i := range 1000 {
		ids = append(ids, commandstest.NewID())
		appendCommit(&commands.CreateProvider{Provider: ids[i], Name: fmt.Sprint(i)}, &commands.ReplaceInventories{
			Provider:    ids[i],
			Inventories: []commands.Inventory{{Class: "VCPU", Total: ledger.MaxAmount}, {Class: "MEMORY_MB", Total: ledger.MaxAmount}, {Class: "DISK_GB", Total: ledger.MaxAmount}},
		})
	}
	for i := range commits {
		list := make([]commands.Command, perCommit)
		for j := range list {
			list[j] = threeClasses(ids[(i*perCommit+j)%len(ids)])
		}
		appendCommit(list...)
	}
	return log
}
