package processes_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
)

func numbered(kind byte, n int) ledger.UUID {
	id := ledger.UUID{0: kind, 6: 0x40, 8: 0x80}
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// nodesOf are the events of free nodes of a class.
func nodesOf(class string, first, n int) []ledger.Event {
	var events []ledger.Event
	for i := first; i < first+n; i++ {
		events = append(events,
			ledger.NodeCreated{
				Node: numbered(5, i), ProvisionState: "enroll",
				Description: ledger.NodeDescription{Driver: "d", Name: fmt.Sprint("n", i), ResourceClass: class},
			},
			ledger.NodeStateSet{Node: numbered(5, i), ProvisionState: ledger.NodeAvailable, PowerState: "power off"})
	}
	return events
}

// commit folds a record of events.
func commit(tb testing.TB, s *ledger.State, events ...ledger.Event) {
	tb.Helper()
	b := ledger.NewCommitBuilder()
	b.Begin(s.Head())
	if _, _, err := b.Add(ledger.Record{CommandID: commandstest.NewID(), Command: "Test", Time: 1, Events: events}, 1<<30); err != nil {
		tb.Fatal(err)
	}
	c, _, err := b.Seal()
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := s.Fold(c); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkChoose decides and applies allocations of one class of 1,000 nodes
// beside nodes of other classes, whose number must not matter. "traits" asks for
// a trait that one node in ten has.
func BenchmarkChoose(b *testing.B) {
	for _, others := range []int{0, 10_000, 100_000} {
		for _, traits := range [][]string{nil, {"CUSTOM_T"}} {
			b.Run(fmt.Sprintf("others=%d/traits=%d", others, len(traits)), func(b *testing.B) {
				s := ledger.NewState()
				commit(b, s, nodesOf("mine", 0, 1000)...)
				for i := 0; i < 1000; i += 10 {
					commit(b, s, ledger.NodeTraitsReplaced{Node: numbered(5, i), Traits: []string{"CUSTOM_T"}})
				}
				if others > 0 {
					commit(b, s, nodesOf("other", 1000, others)...)
				}
				n := 0
				for b.Loop() {
					n++
					id := numbered(6, n)
					commit(b, s, ledger.AllocationRequested{Allocation: id, ResourceClass: "mine", Traits: traits})
					events, rejection := (&commands.ChooseNode{Allocation: id, Seed: uint64(n)}).Decide(s)
					if rejection != nil || len(events) != 1 {
						b.Fatal(events, rejection)
					}
					commit(b, s, events...)
					commit(b, s, ledger.NodeAllocationReleased{Allocation: id})
				}
			})
		}
	}
}

// BenchmarkAllocations requests nodes among 100,000 of ten classes, durably,
// and waits until each request is decided and read as active.
func BenchmarkAllocations(b *testing.B) {
	const nodes, classes, clients = 100_000, 10, 64
	dir := b.TempDir()
	log, _ := commandstest.JetStream(b, dir, false)
	l := commandstest.Start(b, dir, log)
	makeNodes(b, l, nodes, classes)
	process := processes.StartNodePlacer(l.Writer, l.Views, slog.New(slog.DiscardHandler))
	b.Cleanup(process.Stop)
	var next atomic.Int64
	b.ResetTimer()
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for {
				n := int(next.Add(1))
				if n > b.N {
					return
				}
				allocateAndRelease(b, l, numbered(6, n), fmt.Sprint("c", n%classes))
			}
		})
	}
	work.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "allocations/s")
	b.ReportMetric(0, "ns/op")
}

func makeNodes(b *testing.B, l *commandstest.Ledger, nodes, classes int) {
	b.Helper()
	var work sync.WaitGroup
	for w := range 256 {
		work.Go(func() {
			for i := w; i < nodes; i += 256 {
				class, driver := fmt.Sprint("c", i%classes), "d"
				for _, c := range []commands.Command{
					&commands.CreateNode{
						Node: numbered(5, i), NodeFields: commands.NodeFields{Driver: &driver, ResourceClass: &class},
					},
					&commands.SetNodeProvisionState{Node: numbered(5, i), Target: "manage"},
					&commands.SetNodeProvisionState{Node: numbered(5, i), Target: "provide"},
				} {
					l.Accept(b, c)
				}
			}
		})
	}
	work.Wait()
}

// allocateAndRelease does what a polling client does.
func allocateAndRelease(b *testing.B, l *commandstest.Ledger, id ledger.UUID, class string) {
	l.Accept(b, &commands.RequestNodeAllocation{Allocation: id, NodeRequest: commands.NodeRequest{ResourceClass: class}})
	for {
		changed := l.Views.Changed()
		a, found, err := l.Views.View().NodeAllocation(id)
		if err != nil || !found || a.State == ledger.NodeAllocationError {
			b.Errorf("%v, %v", a, err)
			return
		}
		if a.State == ledger.NodeAllocationActive {
			break
		}
		<-changed
	}
	l.Accept(b, &commands.ReleaseNodeAllocation{Allocation: id})
}
