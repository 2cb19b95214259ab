package check_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots"
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
			sorted, _ := state.Sorted().Consumer(after.UUID)
			after.Allocations = sorted.Allocations
			changes.Consumers[i].After = &after
		}
		return views.Fold(c, changes)
	}); err != nil {
		t.Fatal(err)
	}
	return views
}

// TestOrderIsAudited: a State or read models with the same amounts in another
// order than the log's differ from the log.
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
	cfg.Fork = func(ctx context.Context) (*ledger.State, error) {
		state, err := l.Writer.Fork(ctx)
		if err != nil {
			return nil, err
		}
		return state.Sorted(), nil
	}
	if r := audit(cfg); !strings.Contains(r.Fault, "State") {
		t.Errorf("the State has another order: %+v", r)
	}
	cfg = config(l)
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

// TestSortedSnapshots: a snapshot from before the order of allocations was stored
// is good if it equals the log without the order. The auditor does not begin with
// it.
func TestSortedSnapshots(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "snapshots", "testdata", "ALLOTSN1.state-v3.order.hex"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.snapshot", 4)), data, 0o600); err != nil {
		t.Fatal(err)
	}
	commits := ledgertest.OrderCommits(t)
	var encoded [][]byte
	for _, c := range commits {
		one, err := ledger.EncodeCommit(c)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, one)
	}
	verify := func(dir string) *check.Report {
		t.Helper()
		report, err := check.VerifyLog(t.Context(), logOf(t, encoded), 4, check.Evidence{Snapshots: dir})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := verify(dir); report.Err() != nil || report.Snapshots != 1 {
		t.Errorf("%d good snapshots, %v", report.Snapshots, report.Err())
	}
	stored := func(s *ledger.State) (string, *snapshots.Store) {
		t.Helper()
		dir := t.TempDir()
		store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
		if err == nil {
			err = store.Save(s)
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("%020d.snapshot", s.Head().Sequence))
		if again, err := snapshots.Read(path); err != nil || again.Ordered() {
			t.Fatalf("what was stored reads as %v, %v", again, err)
		}
		return dir, store
	}
	other := ledgertest.Fold(t, commits)
	head := other.Head()
	other.Begin()
	ghost := &ledger.Record{Time: other.LastTime(), Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_GHOST"}}}
	if err := other.Apply(head.Sequence, ghost); err != nil {
		t.Fatal(err)
	}
	other.Advance(head)
	if dir, _ := stored(other.Sorted()); verify(dir).Err() == nil {
		t.Error("a snapshot with a trait that the log does not have is good")
	}
	l := unsorted(t)
	state, err := l.Writer.Fork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, store := stored(state.Sorted())
	cfg := config(l)
	cfg.Snapshots = store
	if r, err := check.Audit(t.Context(), cfg); err != nil || !r.Good() || r.From != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
