package projector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
		changes := commandstest.Must(state.Fold(c))
		for s := range projector.Touches(c, &changes, kinds) {
			found[s] = true
		}
	}
	list := append(slices.Collect(maps.Keys(found)),
		projector.Subject{Kind: projector.ConsumerHistory, ID: ledgertest.ID(9, 99)},
		projector.Subject{Kind: projector.ProjectHistory, Name: "unknown"})
	slices.SortFunc(list, func(a, b projector.Subject) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// told is what a view answers at its moment, by question.
type told struct {
	at             uint64
	names, answers []string
}

func (w *told) add(what string, err error, answer ...any) {
	text, failed := json.Marshal(answer)
	w.names = append(w.names, fmt.Sprintf("%s at %d", what, w.at))
	w.answers = append(w.answers, fmt.Sprint(string(text), err, failed))
}

// all adds what a question with one answer is told.
func (w *told) all(what ...any) func(answer any, err error) {
	return func(answer any, err error) { w.add(fmt.Sprint(what...), err, answer) }
}

// one adds what a question that may have no answer is told.
func (w *told) one(what ...any) func(answer any, found bool, err error) {
	return func(answer any, found bool, err error) { w.add(fmt.Sprint(what...), err, answer, found) }
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
	w := &told{at: view.Sequence()}
	tellView(w, view)
	tellCommit(ctx, log, w, view)
	records, err := view.RecordsOf(w.at)
	w.all("records")(records, err)
	for _, record := range records {
		w.one("command ", record.CommandID)(views.Command(record.CommandID))
	}
	for _, s := range subjects {
		for _, at := range []uint64{0, 1 + w.at/2} {
			for _, limit := range []int{2, 1000} {
				w.all("history of ", s, " before ", at, ", ", limit)(view.HistoryOf(s, at, limit))
				w.all("history of ", s, " after ", at, ", ", limit)(view.HistoryAfter(s, ledger.Address{Sequence: at}, limit))
			}
		}
	}
	w.all("digest")(view.Digest(ctx, log))
	return w
}

// tellCommit asks for the commit of a view, and for what proves it.
func tellCommit(ctx context.Context, log ledger.Log, w *told, view projector.View) {
	head, decided, found, err := view.CommitMark(w.at)
	w.add("mark", err, head, decided, found)
	for _, index := range []int{0, 1, 99} {
		address := ledger.Address{Sequence: w.at, Index: index}
		w.one("record ", index)(view.Record(address))
		w.one("leaf ", index)(view.Leaf(address))
	}
	signed, err := view.Checkpoint(ctx, log)
	w.all("checkpoint")(signed, err)
	if err != nil {
		return
	}
	for leaf := range signed.Size {
		w.all("inclusion of ", leaf)(view.ProveInclusion(ctx, log, leaf))
		w.all("growth since ", leaf+1)(view.ProveGrowth(ctx, log, leaf+1))
	}
}

func tellView(w *told, view projector.View) {
	providers, err := collected(view.Providers)
	w.all("providers")(providers, err)
	for _, p := range providers {
		w.one("provider named ", p.Name)(view.ProviderNamed(p.Name))
	}
	for n := range byte(5) {
		id := ledgertest.ID(1, n)
		w.one("provider ", id)(view.Provider(id))
		w.all("holders of ", id)(collected(func(yield func(*ledger.Consumer) bool) error {
			return view.ProviderConsumers(id, yield)
		}))
		w.one("consumer ", n)(view.Consumer(ledgertest.ID(2, n)))
		w.one("node ", n)(view.Node(ledgertest.ID(1, n)))
		w.one("node allocation ", n)(view.NodeAllocation(ledgertest.ID(2, n)))
		w.one("chassis ", n)(view.Chassis(ledgertest.ID(8, n)))
	}
	w.all("consumers")(collected(func(yield func(*ledger.Consumer) bool) error {
		return view.Consumers(ledger.NilUUID, yield)
	}))
	usages, err := collected(view.AllUsages)
	w.all("usages")(usages, err)
	for _, u := range usages {
		w.all("usages of ", u.Owner.Project)(view.Usages(u.Owner.Project, u.Owner.User))
	}
	w.all("inventories")(collected(view.Inventories))
	w.all("traits")(collected(view.Traits))
	w.all("limits")(collected(view.Limits))
	w.all("limits of aggregates")(collected(view.AggregateLimits))
	w.all("parents")(collected(view.ProjectParents))
	w.all("nodes")(collected(func(yield func(*ledger.Node) bool) error { return view.Nodes(0, yield) }))
	w.all("node allocations")(collected(func(yield func(*ledger.NodeAllocation) bool) error {
		return view.NodeAllocations(0, yield)
	}))
	w.all("chassis")(collected(func(yield func(*ledger.Chassis) bool) error { return view.AllChassis(0, yield) }))
	classes, err := view.Classes()
	w.all("classes")(fmt.Sprint(classes), err)
}

// same compares answers with those that were given when the moment was the present.
func (w *told) same(t testing.TB, what string, want *told) {
	t.Helper()
	if !slices.Equal(w.names, want.names) {
		t.Fatalf("%s: answers to %q, want %q", what, w.names, want.names)
	}
	for i, name := range w.names {
		if w.answers[i] != want.answers[i] {
			t.Fatalf("%s: %s\n%.600s\nwant %s\n%.600s", what, name, w.answers[i], want.names[i], want.answers[i])
		}
	}
}

// openedIn opens read models that need not be closed well.
func openedIn(t testing.TB, dir string) *projector.Projector {
	t.Helper()
	p := commandstest.Must(projector.Open(dir, slog.New(slog.DiscardHandler)))
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
				changes := commandstest.Must(state.Fold(c))
				ledgertest.OK(t, p.Fold(c, changes), again.Fold(c, changes))
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
					view := commandstest.Must(p.ViewAt(c.Sequence))
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
