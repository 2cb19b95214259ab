package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// folding is a commit with its changes.
type folding struct {
	commit  *ledger.Commit
	changes ledger.Changes
}

// foldings makes commits of a number of records each, one a minute: consumers of some
// projects come to providers with three classes, and leave again.
func foldings(b *testing.B, commits, perCommit, providers, projects int) (list []folding) {
	b.Helper()
	state, builder := ledger.NewState(), ledger.NewCommitBuilder()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	commit := func(group ...commands.Command) {
		clock = clock.Add(time.Minute)
		state.Begin()
		builder.Begin(state.Head())
		for _, c := range group {
			events, rejection := c.Decide(state)
			if rejection != nil {
				b.Fatal(rejection)
			}
			r := ledger.Record{
				CommandID: commandstest.NewID(), Command: commands.NameOf(c), Time: clock.UnixNano(), Actor: "bench", Events: events,
			}
			if err := state.Apply(builder.Sequence(), &r); err != nil {
				b.Fatal(err)
			}
			if _, _, err := builder.Add(r, 1<<30); err != nil {
				b.Fatal(err)
			}
		}
		sealed, _, err := builder.Seal()
		if err != nil {
			b.Fatal(err)
		}
		state.Advance(sealed.Head())
		list = append(list, folding{sealed, state.Changes()})
	}
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err != nil {
		b.Fatal(err)
	}
	commit(begin)
	ids := make([]ledger.UUID, providers)
	for i := range ids {
		ids[i] = commandstest.NewID()
		commit(&commands.CreateProvider{Provider: ids[i], Name: fmt.Sprint(i)}, &commands.ReplaceInventories{
			Provider: ids[i], Inventories: []commands.Inventory{
				{Class: "VCPU", Total: ledger.MaxAmount}, {Class: "MEMORY_MB", Total: ledger.MaxAmount},
				{Class: "DISK_GB", Total: ledger.MaxAmount},
			},
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
			consumer, provider := commandstest.NewID(), ids[n*7919%providers]
			c := commandstest.Allocate(consumer, provider, "VCPU", int64(1+n%7))
			one := &c.Allocations[0]
			one.Project, one.User = fmt.Sprintf("%032d", n%projects), fmt.Sprintf("%032d", n%(3*projects))
			one.Resources = append(one.Resources,
				commands.ProviderAllocation{Provider: provider, Class: "MEMORY_MB", Amount: 2048},
				commands.ProviderAllocation{Provider: provider, Class: "DISK_GB", Amount: 20})
			group[j] = c
			held = append(held, consumer)
		}
		commit(group...)
	}
	return list
}

// BenchmarkConsumption reads what 10,000 projects consumed in most of a history of 400,000
// records, and its days one by one.
func BenchmarkConsumption(b *testing.B) {
	p := openedIn(b, b.TempDir())
	list := foldings(b, 4000, 100, 1000, 10_000)
	for _, f := range list {
		if err := p.Fold(f.commit, f.changes); err != nil {
			b.Fatal(err)
		}
	}
	end := time.Unix(0, list[len(list)-1].commit.Records[0].Time)
	for _, spans := range []int{1, 30} {
		b.Run(fmt.Sprint(spans), func(b *testing.B) {
			for b.Loop() {
				var moments []projector.Moment
				for i := range spans + 1 {
					at, err := p.MomentAt(end.Add(-time.Duration(spans-i)*60*time.Hour/time.Duration(spans)), end)
					if err != nil {
						b.Fatal(err)
					}
					moments = append(moments, at)
				}
				rows := 0
				err := p.View().Consumption("", "", moments, func(*projector.Consumed) bool { rows++; return true })
				if err != nil || rows < 10_000 {
					b.Fatal(rows, err)
				}
			}
		})
	}
}
