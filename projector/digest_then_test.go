package projector_test

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// TestDigestThen: for every moment of a random history with all kinds of
// entities, a view of the moment has the digest that the read models had then,
// also in rebuilt read models.
func TestDigestThen(t *testing.T) {
	t.Parallel()
	folded := make(map[string]bool)
	rapid.Check(t, func(rt *rapid.T) {
		log := &memlog.Log{}
		l, err := commandstest.Open(t.TempDir(), log)
		if err != nil {
			t.Fatal(err)
		}
		then := make(map[uint64]ledger.Digest)
		submit := func(c commands.Command) {
			_, err := l.Writer.Submit(t.Context(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: c})
			if err != nil {
				rt.Fatalf("%s: %v", c.CommandName(), err)
			}
			if then[l.Views.View().Sequence()], err = l.Views.Digest(); err != nil {
				rt.Fatal(err)
			}
		}
		for _, c := range commandstest.SomeThings() {
			submit(c)
		}
		for _, c := range lives() {
			for range rapid.IntRange(0, 4).Draw(rt, "commands") {
				submit(commandstest.RandomCommand(rt))
			}
			submit(c)
		}
		checkDigests(rt, l.Views, some(rt, then))
		l.Stop(t)
		again := foldAgain(t, log, folded)
		checkDigests(rt, again, some(rt, then))
		if err := again.Close(); err != nil {
			rt.Fatal(err)
		}
	})
	for _, kind := range []string{"AllocationsReserved", "ConsumerRemoved", "NodeAllocated", "AllocationRequested", "NodeDeleted", "ChassisDeleted", "ProviderDeleted"} {
		if !folded[kind] {
			t.Errorf("no history has a %s", kind)
		}
	}
}

// lives are commands that put entities into every list of the present and remove
// them again. Random commands in between may prevent some of that.
func lives() []commands.Command {
	provider, consumer, allocation, chassis, node := ledgertest.ID(
		1, 1,
	), ledgertest.ID(
		2, 1,
	), ledgertest.ID(
		2, 2,
	), ledgertest.ID(
		8, 2,
	), ledgertest.ID(
		1, 4,
	)
	reserve := &commands.Reserve{
		Seconds: 3600, Allocations: commandstest.Allocate(consumer, provider, "VCPU", 1).Allocations,
	}
	reserve.Allocations[0].AnyGeneration = true
	return []commands.Command{
		reserve,
		&commands.RequestNodeAllocation{Allocation: allocation, NodeRequest: commands.NodeRequest{ResourceClass: "a"}},
		&commands.ChooseNode{Allocation: allocation, Seed: 1},
		&commands.CreateChassis{Chassis: chassis},
		&commands.CancelReservation{Consumer: consumer},
		&commands.ReleaseNodeAllocation{Allocation: allocation},
		&commands.DeleteNode{Node: node},
		&commands.DeleteChassis{Chassis: chassis},
		&commands.DeleteProvider{Provider: ledgertest.ID(1, 2)},
	}
}

// some returns a third of the digests, or so.
func some(t *rapid.T, then map[uint64]ledger.Digest) map[uint64]ledger.Digest {
	part := make(map[uint64]ledger.Digest)
	for _, sequence := range slices.Sorted(maps.Keys(then)) {
		if rapid.IntRange(0, 2).Draw(t, "left out") == 0 {
			part[sequence] = then[sequence]
		}
	}
	return part
}

func checkDigests(t *rapid.T, views *projector.Projector, then map[uint64]ledger.Digest) {
	for sequence, want := range then {
		view, err := views.ViewAt(sequence)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := view.Digest(t.Context()); err != nil || got != want {
			t.Fatalf(
				"the view of sequence %d of %d has digest %s, %v; the read models had %s", sequence, views.View().Sequence(), got,
				err, want,
			)
		}
	}
}

// foldAgain makes read models from a log, and notes the kinds of events.
func foldAgain(t *testing.T, log ledger.Log, kinds map[string]bool) *projector.Projector {
	t.Helper()
	views, err := projector.Open(filepath.Join(t.TempDir(), "readmodel"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := ledger.NewState()
	err = ledger.ReadCommits(t.Context(), log, ledger.Head{}, last, func(c *ledger.Commit) error {
		for i := range c.Records {
			for _, event := range c.Records[i].Events {
				kinds[ledger.KindOf(event)] = true
			}
		}
		changes, err := s.Fold(c)
		if err != nil {
			return err
		}
		return views.Fold(c, changes)
	})
	if err != nil {
		t.Fatal(err)
	}
	return views
}
