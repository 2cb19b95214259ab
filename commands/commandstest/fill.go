package commandstest

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// Filled holds read models of a long history, for benchmarks.
type Filled struct {
	Views     *projector.Projector
	State     *ledger.State
	Providers []ledger.UUID
	Consumers []ledger.UUID // consumers that change again and again

	builder *ledger.CommitBuilder
	clock   int64
}

// fillGroup is how many records share a commit.
const fillGroup = 500

// Fill makes read models of this many records about this many providers, decided
// as by the writer, without a log.
func Fill(b testing.TB, dir string, records, providers int) *Filled {
	b.Helper()
	views := Must(projector.Open(dir, slog.New(slog.DiscardHandler)))
	b.Cleanup(func() {
		if err := views.Close(); err != nil {
			b.Error(err)
		}
	})
	f := &Filled{
		Views: views, State: ledger.NewState(), builder: ledger.NewCommitBuilder(),
		clock: time.Now().Add(-24 * time.Hour).UnixNano(),
	}
	begin := Must(commands.NewAddStandardNames(NewID()))
	f.Commit(b, begin)
	for i := range providers {
		id := NewID()
		f.Providers = append(f.Providers, id)
		f.Commit(
			b,
			&commands.CreateProvider{Provider: id, Name: fmt.Sprint("host-", i)},
			&commands.ReplaceInventories{
				Provider:    id,
				Inventories: []commands.Inventory{{Class: "VCPU", Total: 1 << 30}, {Class: "MEMORY_MB", Total: 1 << 30}},
			},
		)
	}
	for range fillGroup * 200 {
		f.Consumers = append(f.Consumers, NewID())
	}
	group := make([]commands.Command, 0, fillGroup)
	for done := 0; done < records; done += len(group) {
		group = group[:0]
		for i := range fillGroup {
			n := done + i
			group = append(group, f.Change(f.Consumers[n%len(f.Consumers)], n))
		}
		f.Commit(b, group...)
	}
	return f
}

// Change returns the n-th change of what a consumer holds.
func (f *Filled) Change(consumer ledger.UUID, n int) commands.Command {
	c := Allocate(consumer, f.Providers[n%len(f.Providers)], "VCPU", int64(1+n%7))
	c.Allocations[0].AnyGeneration = true
	c.Allocations[0].Project = fmt.Sprint("project-", n%100)
	return c
}

// Commit decides commands and folds them in one commit.
func (f *Filled) Commit(b testing.TB, group ...commands.Command) {
	f.builder.Begin(f.State.Head())
	f.State.Begin()
	for _, c := range group {
		f.clock += int64(time.Millisecond)
		events, rejection := commands.Decide(commands.Submission{Command: c}, f.State)
		if rejection != nil {
			b.Fatal(rejection)
		}
		r := ledger.Record{
			CommandID: NewID(), Command: commands.NameOf(c), Time: f.clock, Actor: "bench", Events: events,
		}
		if _, fits, err := f.builder.Add(r, 1<<30); err != nil || !fits {
			b.Fatal(err)
		}
		ledgertest.OK(b, f.State.Apply(f.builder.Sequence(), &r))
	}
	commit, _, err := f.builder.Seal()
	ledgertest.OK(b, err)
	f.State.Advance(commit.Head())
	ledgertest.OK(b, f.Views.Fold(commit, f.State.Changes()))
}
