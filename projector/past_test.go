package projector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// subjectsOf lists all entities with a history that commits have touched.
func subjectsOf(t testing.TB, commits []*ledger.Commit) []projector.Subject {
	t.Helper()
	kinds := make(map[projector.Kind]bool)
	for _, kind := range projector.Kinds {
		kinds[kind] = true
	}
	found := make(map[projector.Subject]bool)
	state := ledger.NewState()
	for _, c := range commits {
		changes, err := state.Fold(c)
		ledgertest.OK(t, err)
		for s := range projector.Touches(c, &changes, kinds) {
			found[s] = true
		}
	}
	list := []projector.Subject{{Kind: projector.ConsumerHistory, ID: ledgertest.ID(9, 99)}, {Kind: projector.ProjectHistory, Name: "unknown"}}
	for s := range found {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b projector.Subject) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// told is what views answer at each moment, by question.
type told struct {
	names, answers []string
}

func (w *told) add(what string, sequence uint64, err error, answer any) {
	text, failed := json.Marshal(answer)
	w.names = append(w.names, fmt.Sprintf("%s at %d", what, sequence))
	w.answers = append(w.answers, fmt.Sprint(string(text), err, failed))
}

// collected is what a method of a View yields.
func collected[T any](each func(func(T) bool) error) (list []T, err error) {
	err = each(func(one T) bool {
		list = append(list, one)
		return true
	})
	return list, err
}

// tellAll asks for everything at the moment of a view.
func tellAll(
	ctx context.Context, log ledger.Log, views *projector.Projector, view projector.View, subjects []projector.Subject,
) *told {
	w, sequence := &told{}, view.Sequence()
	tellView(w, view)
	tellCommit(ctx, log, w, view)
	records, err := view.RecordsOf(sequence)
	w.add("records", sequence, err, records)
	for _, record := range records {
		result, found, err := views.Command(record.CommandID)
		w.add(fmt.Sprint("command ", record.CommandID), sequence, err, []any{result, found})
	}
	for _, s := range subjects {
		for _, before := range []uint64{0, 1 + sequence/2} {
			for _, limit := range []int{2, 1000} {
				list, err := view.HistoryOf(s, before, limit)
				w.add(fmt.Sprintf("history of %v before %d, %d", s, before, limit), sequence, err, list)
				list, err = view.HistoryAfter(s, ledger.Address{Sequence: before}, limit)
				w.add(fmt.Sprintf("history of %v after %d, %d", s, before, limit), sequence, err, list)
			}
		}
	}
	sum, err := view.Digest(ctx, log)
	w.add("digest", sequence, err, sum)
	return w
}

// tellCommit asks for the commit of a view, and for what proves it.
func tellCommit(ctx context.Context, log ledger.Log, w *told, view projector.View) {
	at := view.Sequence()
	head, decided, found, err := view.CommitMark(at)
	w.add("mark", at, err, []any{head, decided, found})
	for _, index := range []int{0, 1, 99} {
		address := ledger.Address{Sequence: at, Index: index}
		record, found, err := view.Record(address)
		w.add(fmt.Sprint("record ", index), at, err, []any{record, found})
		leaf, found, err := view.Leaf(address)
		w.add(fmt.Sprint("leaf ", index), at, err, []any{leaf, found})
	}
	signed, err := view.Checkpoint(ctx, log)
	w.add("checkpoint", at, err, signed)
	if err != nil {
		return
	}
	for leaf := range signed.Size {
		path, err := view.ProveInclusion(ctx, log, leaf)
		w.add(fmt.Sprint("inclusion of ", leaf), at, err, path)
		growth, err := view.ProveGrowth(ctx, log, leaf+1)
		w.add(fmt.Sprint("growth since ", leaf+1), at, err, growth)
	}
}

func tellView(w *told, view projector.View) {
	at := view.Sequence()
	providers, err := collected(view.Providers)
	w.add("providers", at, err, providers)
	for _, p := range providers {
		one, found, err := view.ProviderNamed(p.Name)
		w.add("provider named "+p.Name, at, err, []any{one, found})
	}
	for n := range byte(5) {
		id := ledgertest.ID(1, n)
		one, found, err := view.Provider(id)
		w.add(fmt.Sprint("provider ", id), at, err, []any{one, found})
		holders, err := collected(func(yield func(*ledger.Consumer) bool) error { return view.ProviderConsumers(id, yield) })
		w.add(fmt.Sprint("holders of ", id), at, err, holders)
		holder, found, err := view.Consumer(ledgertest.ID(2, n))
		w.add("consumer", at, err, []any{holder, found})
		node, found, err := view.Node(ledgertest.ID(1, n))
		w.add("node", at, err, []any{node, found})
		allocation, found, err := view.NodeAllocation(ledgertest.ID(2, n))
		w.add("node allocation", at, err, []any{allocation, found})
		chassis, found, err := view.Chassis(ledgertest.ID(8, n))
		w.add("chassis", at, err, []any{chassis, found})
	}
	consumers, err := collected(func(yield func(*ledger.Consumer) bool) error {
		return view.Consumers(ledger.NilUUID, yield)
	})
	w.add("consumers", at, err, consumers)
	usages, err := collected(view.AllUsages)
	w.add("usages", at, err, usages)
	for _, u := range usages {
		some, err := view.Usages(u.Owner.Project, u.Owner.User)
		w.add("usages of "+u.Owner.Project, at, err, some)
	}
	inventories, err := collected(view.Inventories)
	w.add("inventories", at, err, inventories)
	traits, err := collected(view.Traits)
	w.add("traits", at, err, traits)
	limits, err := collected(view.Limits)
	w.add("limits", at, err, limits)
	aggregates, err := collected(view.AggregateLimits)
	w.add("limits of aggregates", at, err, aggregates)
	parents, err := collected(view.ProjectParents)
	w.add("parents", at, err, parents)
	nodes, err := collected(func(yield func(*ledger.Node) bool) error { return view.Nodes(0, yield) })
	w.add("nodes", at, err, nodes)
	allocations, err := collected(func(yield func(*ledger.NodeAllocation) bool) error {
		return view.NodeAllocations(0, yield)
	})
	w.add("node allocations", at, err, allocations)
	chassis, err := collected(func(yield func(*ledger.Chassis) bool) error { return view.AllChassis(0, yield) })
	w.add("chassis", at, err, chassis)
	classes, err := view.Classes()
	w.add("classes", at, err, fmt.Sprint(classes))
}

// same compares answers with those that were given when the moment was the present.
func (w *told) same(t testing.TB, what string, want *told) {
	t.Helper()
	if len(w.names) != len(want.names) {
		t.Fatalf("%s: %d answers, want %d", what, len(w.names), len(want.names))
	}
	for i, name := range w.names {
		if name != want.names[i] || w.answers[i] != want.answers[i] {
			t.Fatalf("%s: %s\n%.600s\nwant %s\n%.600s", what, name, w.answers[i], want.names[i], want.answers[i])
		}
	}
}

// openedIn opens read models that need not be closed well.
func openedIn(t testing.TB, dir string) *projector.Projector {
	t.Helper()
	p, err := projector.Open(dir, slog.New(slog.DiscardHandler))
	ledgertest.OK(t, err)
	t.Cleanup(func() { _ = p.Close() }) // it may be closed
	return p
}

// drawn is a history of random commands about all kinds of entities.
func drawn(t *testing.T, seed int) ledgertest.History {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	l.Accept(t, &commands.Batch{Commands: commandstest.SomeThings()})
	random := rapid.Custom(commandstest.RandomCommand)
	for n := range 30 { // some are rejected
		l.Submit(t, random.Example(1000*seed+n))
	}
	history := ledgertest.History{Name: fmt.Sprint("drawn ", seed)}
	err := chain.Read(t.Context(), l.Log, ledger.Head{}, l.Views.View().Sequence(), func(c *ledger.Commit) error {
		history.Commits = append(history.Commits, c)
		return nil
	})
	ledgertest.OK(t, err)
	return history
}

// TestPastIsToldAsThePresentWas: each question at each moment has the answer that it had
// when the moment was the present: once later commits are folded, after a start, and in
// read models that were made anew.
func TestPastIsToldAsThePresentWas(t *testing.T) {
	t.Parallel()
	histories := append(ledgertest.Histories(t), ledgertest.History{Name: "long", Commits: ledgertest.Commits(t, 12)})
	for seed := range ledgertest.Cases(2, 0) {
		histories = append(histories, drawn(t, seed+1))
	}
	for _, history := range histories {
		t.Run(history.Name, func(t *testing.T) {
			t.Parallel()
			subjects, dir := subjectsOf(t, history.Commits), t.TempDir()
			p, again := openedIn(t, dir), openedIn(t, t.TempDir())
			state, log := ledger.NewState(), &memlog.Log{}
			ledgertest.AppendCommits(t, log, history.Commits)
			var want []*told
			for _, c := range history.Commits {
				changes, err := state.Fold(c)
				if err == nil {
					err = p.Fold(c, changes)
				}
				if err == nil {
					err = again.Fold(c, changes)
				}
				ledgertest.OK(t, err)
				now := p.View()
				want = append(want, tellAll(t.Context(), log, p, now, subjects))
				sum, err := p.Digest()
				if then, thenErr := now.Digest(t.Context(), log); err != nil || thenErr != nil || then != sum {
					t.Errorf("at %d: digest %s, %v; as of then %s, %v", c.Sequence, sum, err, then, thenErr)
				}
			}
			check := func(what string, p *projector.Projector) {
				t.Helper()
				for i, c := range history.Commits {
					view, err := p.ViewAt(c.Sequence)
					ledgertest.OK(t, err)
					tellAll(t.Context(), log, p, view, subjects).same(t, what, want[i])
					decided := time.Unix(0, c.Records[len(c.Records)-1].Time)
					if timed, err := p.ViewAtTime(decided, decided); err != nil || timed.Sequence() < c.Sequence {
						t.Errorf("%s: at the time of %d: %d, %v", what, c.Sequence, timed.Sequence(), err)
					}
				}
			}
			if _, err := p.ViewAt(uint64(len(history.Commits)) + 1); !errors.Is(err, projector.ErrNotYet) {
				t.Errorf("what is to come: %v", err)
			}
			check("later", p)
			check("made anew", again)
			ledgertest.OK(t, p.Close())
			check("after a start", openedIn(t, dir))
		})
	}
}
