package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// comeAndGo adds commits to a history: consumers of some projects come to providers with three classes, and
// leave again.
func comeAndGo(b *testing.B, f *commandstest.Filled, commits, perCommit, projects int) {
	b.Helper()
	for _, id := range f.Providers {
		f.Commit(b, &commands.CreateInventory{
			Provider: id, Inventory: commands.Inventory{Class: "DISK_GB", Total: ledger.MaxAmount},
		})
	}
	var held []ledger.UUID
	for i := range commits {
		group := make([]commands.Command, perCommit)
		for j := range group {
			n := i*perCommit + j
			if n%3 == 2 && n > 3*perCommit { // of an earlier commit
				group[j] = &commands.ReleaseConsumer{Consumer: held[0]}
				held = held[1:]
				continue
			}
			consumer, provider := commandstest.NewID(), f.Providers[n*7919%len(f.Providers)]
			c := commandstest.Allocate(consumer, provider, "VCPU", int64(1+n%7))
			one := &c.Allocations[0]
			one.Project, one.User = fmt.Sprintf("%032d", n%projects), fmt.Sprintf("%032d", n%(3*projects))
			one.Resources = append(one.Resources,
				commands.ProviderAllocation{Provider: provider, Class: "MEMORY_MB", Amount: 2048},
				commands.ProviderAllocation{Provider: provider, Class: "DISK_GB", Amount: 20})
			group[j] = c
			held = append(held, consumer)
		}
		f.Commit(b, group...)
	}
}

// BenchmarkConsumption reads what 10,000 projects consumed in most of a history of 400,000
// records, and its thirtieths one by one.
func BenchmarkConsumption(b *testing.B) {
	f := commandstest.Fill(b, b.TempDir(), 0, 1000)
	begun := f.State.LastTime()
	comeAndGo(b, f, 4000, 100, 10_000)
	end := time.Unix(0, f.State.LastTime())
	most := time.Duration(f.State.LastTime()-begun) / 10 * 9
	for _, spans := range []int{1, 30} {
		b.Run(fmt.Sprint(spans), func(b *testing.B) {
			for b.Loop() {
				var moments []projector.Moment
				for i := range spans + 1 {
					at, err := f.Views.MomentAt(end.Add(-time.Duration(spans-i)*most/time.Duration(spans)), end)
					ledgertest.OK(b, err)
					moments = append(moments, at)
				}
				rows := 0
				err := f.Views.View().Consumption("", "", moments, func(*projector.Consumed) bool { rows++; return true })
				if err != nil || rows < 10_000 {
					b.Fatal(rows, err)
				}
			}
		})
	}
}
