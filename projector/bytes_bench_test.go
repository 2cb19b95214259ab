package projector

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// BenchmarkBytes folds a history of allocations that come and go, and reports how
// many bytes a record takes in each table of the read models once all of them are
// compacted, and in the log. ALLOT_BENCH_RECORDS is its length.
func BenchmarkBytes(b *testing.B) {
	records := 100_000
	if text := os.Getenv("ALLOT_BENCH_RECORDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("ALLOT_BENCH_RECORDS=%q", text)
		}
		records = n
	}
	for _, perCommit := range []int{1, 16} {
		b.Run(fmt.Sprintf("records in a commit=%d", perCommit), func(b *testing.B) {
			for b.Loop() {
				benchBytes(b, records, perCommit)
			}
		})
	}
}

func benchBytes(b *testing.B, records, perCommit int) {
	p, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	}()
	b.StopTimer()
	logged, folding := 0, time.Duration(0)
	passing(b, records, perCommit, func(c *ledger.Commit, changes ledger.Changes) {
		begun := time.Now()
		if err := p.Fold(c, changes); err != nil {
			b.Fatal(err)
		}
		folding += time.Since(begun)
		logged += c.Size
	})
	b.StartTimer()
	db := p.models.Load().db
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
		b.Fatal(err)
	}
	for table := byte('A'); table <= 'z'; table++ {
		size, err := db.EstimateDiskUsage([]byte{table}, []byte{table + 1})
		if err != nil {
			b.Fatal(err)
		}
		if size > uint64(records) {
			b.ReportMetric(float64(size)/float64(records), string(table)+"-B/record")
		}
	}
	total, err := db.EstimateDiskUsage([]byte{0}, []byte{0xff}) // with what no table has for itself, as filters
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(total)/float64(records), "models-B/record")
	b.ReportMetric(float64(logged)/float64(records), "log-B/record")
	b.ReportMetric(float64(records)/folding.Seconds(), "folded/s")
	b.ReportMetric(0, "ns/op")
}

// passing calls fold with the commits of a history in which consumers come, and go
// again while thousands of others are there.
func passing(b *testing.B, records, perCommit int, fold func(*ledger.Commit, ledger.Changes)) {
	b.Helper()
	const providers, owners, living = 1000, 200, 5000
	h := &passingHistory{
		b: b, random: rand.New(rand.NewPCG(1, 2)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		state: ledger.NewState(), builder: ledger.NewCommitBuilder(), fold: fold,
	}
	begin, err := commands.NewAddStandardNames(h.id(4))
	if err != nil {
		b.Fatal(err)
	}
	h.commit(begin)
	var places, consumers []ledger.UUID
	for i := range providers {
		places = append(places, h.id(4))
		h.commit(&commands.CreateProvider{Provider: places[i], Name: fmt.Sprint("compute-", i)}, &commands.ReplaceInventories{
			Provider: places[i], Inventories: []commands.Inventory{
				{Class: "VCPU", Total: 1024}, {Class: "MEMORY_MB", Total: 1 << 20}, {Class: "DISK_GB", Total: 10_000},
			},
		})
	}
	var projects, users [owners]string
	for i := range owners {
		projects[i], users[i] = h.id(4).String(), h.id(4).String()
	}
	instance := "INSTANCE"
	for done := 0; done < records; done += perCommit {
		list := make([]commands.Command, perCommit)
		for i := range list {
			if len(consumers) > living && (done+i)%2 == 0 {
				list[i] = &commands.ReleaseConsumer{Consumer: consumers[0]}
				consumers = consumers[1:]
				continue
			}
			place, owner := places[h.random.IntN(providers)], h.random.IntN(owners)
			consumers = append(consumers, h.id(4))
			list[i] = &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
				Consumer: consumers[len(consumers)-1], Project: projects[owner], User: users[owner], Type: &instance,
				Resources: []commands.ProviderAllocation{
					{Provider: place, Class: "VCPU", Amount: int64(1 + h.random.IntN(8))},
					{Provider: place, Class: "MEMORY_MB", Amount: int64(1024 * (1 + h.random.IntN(8)))},
					{Provider: place, Class: "DISK_GB", Amount: int64(10 * (1 + h.random.IntN(8)))},
				},
			}}}
		}
		h.commit(list...)
	}
}

// passingHistory makes commits as a writer does.
type passingHistory struct {
	b       *testing.B
	random  *rand.Rand
	now     time.Time
	state   *ledger.State
	builder *ledger.CommitBuilder
	fold    func(*ledger.Commit, ledger.Changes)
}

// id returns a random id; one of version 7 begins with the time.
func (h *passingHistory) id(version byte) (id ledger.UUID) {
	binary.BigEndian.PutUint64(id[:], h.random.Uint64())
	binary.BigEndian.PutUint64(id[8:], h.random.Uint64())
	if version == 7 {
		copy(id[:6], timeKey(uint64(h.now.UnixMilli())))
	}
	id[6], id[8] = id[6]&0x0f|version<<4, id[8]&0x3f|0x80
	return id
}

func (h *passingHistory) commit(list ...commands.Command) {
	h.state.Begin()
	h.builder.Begin(h.state.Head())
	for _, c := range list {
		h.now = h.now.Add(time.Duration(1 + h.random.IntN(4_000_000)))
		events, rejection := c.Decide(h.state)
		if rejection != nil {
			h.b.Fatal(rejection)
		}
		r := ledger.Record{
			CommandID: h.id(7), Fingerprint: ledger.Fingerprint(h.id(4)), Command: c.CommandName(), Time: h.now.UnixNano(),
			Actor: "0a6b3c2d4e5f40718293a4b5c6d7e8f9", RequestID: "req-" + h.id(4).String(), Events: events,
		}
		if err := h.state.Apply(h.builder.Sequence(), &r); err != nil {
			h.b.Fatal(err)
		}
		if _, _, err := h.builder.Add(r, 1<<30); err != nil {
			h.b.Fatal(err)
		}
	}
	sealed, _, err := h.builder.Seal()
	if err != nil {
		h.b.Fatal(err)
	}
	h.state.Advance(sealed.Head())
	h.fold(sealed, h.state.Changes())
}
