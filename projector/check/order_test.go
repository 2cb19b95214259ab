package check_test

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
)

// unsorted is a ledger with a consumer whose allocations are not sorted.
func unsorted(t *testing.T) *commandstest.Ledger {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	provider := l.Provider(
		t, "p", commands.Inventory{Class: "VCPU", Total: 9}, commands.Inventory{Class: "MEMORY_MB", Total: 9},
	)
	c := commandstest.Allocate(commandstest.NewID(), provider, "MEMORY_MB", 1)
	c.Allocations[0].Resources = append(
		c.Allocations[0].Resources, commands.ProviderAllocation{Provider: provider, Class: "VCPU", Amount: 1},
	)
	l.Accept(t, c)
	return l
}

// sortedViews are read models of a log without the order of allocations.
func sortedViews(t *testing.T, log ledger.Log) *projector.Projector {
	t.Helper()
	views, err := projector.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := views.Close(); err != nil {
			t.Error(err)
		}
	})
	last, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := ledger.NewState()
	if err := ledger.ReadCommits(t.Context(), log, ledger.Head{}, last, func(c *ledger.Commit) error {
		changes, err := state.Fold(c)
		if err != nil {
			return err
		}
		for i, change := range changes.Consumers {
			after := *change.After
			after.Allocations = slices.SortedFunc(slices.Values(after.Allocations), func(a, b ledger.Allocation) int {
				return cmp.Or(a.Provider.Compare(b.Provider), cmp.Compare(a.Class, b.Class))
			})
			changes.Consumers[i].After = &after
		}
		return views.Fold(c, changes)
	}); err != nil {
		t.Fatal(err)
	}
	return views
}

// TestOrderIsAudited: read models with the same amounts in another order than the
// log's differ from the log.
func TestOrderIsAudited(t *testing.T) {
	l := unsorted(t)
	audit := func(cfg check.AuditorConfig) *check.AuditResult {
		t.Helper()
		r, err := check.Audit(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := audit(config(l)); !r.Good() {
		t.Errorf("nothing is wrong: %+v", r)
	}
	cfg := config(l)
	cfg.Views = sortedViews(t, l.Log)
	if r := audit(cfg); !strings.Contains(r.Fault, "consumer") {
		t.Errorf("the read models have another order: %+v", r)
	}
	digests := make(map[ledger.Digest]bool)
	for _, views := range []*projector.Projector{l.Views, cfg.Views} {
		digest, err := views.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	if len(digests) != 2 {
		t.Error("read models with another order have the same digest")
	}
}
