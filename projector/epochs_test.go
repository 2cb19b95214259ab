package projector_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/past"
)

// pastIn returns files of past versions in an archive in a folder.
func pastIn(t testing.TB, folder string, o past.Options) *past.Files {
	t.Helper()
	store, err := bucket.Open("file://"+folder, bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Folder == "" {
		o.Folder = filepath.Join(t.TempDir(), "past")
	}
	files, err := past.Open([]bucket.Store{store}, o)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

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
		if err != nil {
			t.Fatal(err)
		}
		for s := range projector.Touches(c, &changes, kinds) {
			found[s] = true
		}
	}
	list := []projector.Subject{{Kind: projector.ConsumerHistory, ID: ledgertest.ID(9, 99)}, {Kind: projector.ProjectHistory, Name: "nobody"}}
	for s := range found {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b projector.Subject) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

// timed returns the commits with other ids of their commands: such that say when they were
// made, and so leave.
func timed(t testing.TB, commits []*ledger.Commit) (list []*ledger.Commit) {
	t.Helper()
	var head ledger.Head
	builder := ledger.NewCommitBuilder()
	for n, c := range commits {
		builder.Begin(head)
		for i, record := range c.Records {
			record.CommandID = madeID(record.Time, 1000*n+i, false)
			if _, fits, err := builder.Add(record, 1<<20); err != nil || !fits {
				t.Fatal(fits, err)
			}
		}
		commit, _, err := builder.Seal()
		if err != nil {
			t.Fatal(err)
		}
		list, head = append(list, commit), commit.Head()
	}
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

// tellAll asks for everything, at every moment.
func tellAll(ctx context.Context, views *projector.Projector, subjects []projector.Subject) *told {
	w := &told{}
	for sequence := uint64(1); sequence <= views.Checkpoint().Sequence; sequence++ {
		view, err := views.ViewAt(sequence)
		if err != nil {
			w.add("view", sequence, err, nil)
			continue
		}
		tellView(w, view)
		records, err := view.RecordsOf(sequence)
		w.add("records", sequence, err, records)
		for _, record := range records {
			result, found, err := views.Command(record.CommandID)
			w.add(fmt.Sprint("command ", record.CommandID), sequence, err, []any{result, found})
		}
		for _, s := range subjects {
			for _, before := range []uint64{0, sequence / 2, sequence} {
				for _, limit := range []int{1, 3, 1000} {
					list, err := view.HistoryOf(s, before, limit)
					w.add(fmt.Sprintf("history of %v before %d, %d", s, before, limit), sequence, err, list)
					list, err = view.HistoryAfter(s, ledger.Address{Sequence: before}, limit)
					w.add(fmt.Sprintf("history of %v after %d, %d", s, before, limit), sequence, err, list)
				}
			}
		}
		sum, err := view.Digest(ctx)
		w.add("digest", sequence, err, sum)
	}
	sum, err := views.Digest()
	w.add("digest of all", 0, err, sum)
	return w
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

// same is check, which ends the test.
func (w *told) same(t testing.TB, what string, want *told) {
	t.Helper()
	if !w.check(t, what, want) {
		t.FailNow()
	}
}

// check compares answers with those of read models that have everything.
func (w *told) check(t testing.TB, what string, want *told) bool {
	t.Helper()
	if len(w.names) != len(want.names) {
		t.Errorf("%s: %d answers, want %d", what, len(w.names), len(want.names))
		return false
	}
	for i, name := range w.names {
		if name != want.names[i] || w.answers[i] != want.answers[i] {
			t.Errorf("%s: %s\n%.600s\nwant %s\n%.600s", what, name, w.answers[i], want.names[i], want.answers[i])
			return false
		}
	}
	return true
}

// folded returns read models of some commits.
func foldedIn(t testing.TB, dir string, commits []*ledger.Commit) *projector.Projector {
	t.Helper()
	p, err := projector.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // it may be closed
	foldInto(t, p, commits)
	return p
}

// foldInto folds the commits that read models have not seen.
func foldInto(t testing.TB, p *projector.Projector, commits []*ledger.Commit) {
	t.Helper()
	state := ledger.NewState()
	for _, c := range commits {
		changes, err := state.Fold(c)
		if err == nil && c.Sequence > p.Checkpoint().Sequence {
			err = p.Fold(c, changes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEpochs: whatever versions have left the read models, each question at each moment
// has the answer that it had before, also after a start, and with commits that come later.
func TestEpochs(t *testing.T) {
	t.Parallel()
	long := ledgertest.History{Name: "long", Commits: ledgertest.Commits(t, 12)}
	for _, history := range append(ledgertest.Histories(t), long) {
		t.Run(history.Name, func(t *testing.T) {
			t.Parallel()
			commits := timed(t, history.Commits)
			subjects := subjectsOf(t, commits)
			want := tellAll(t.Context(), foldedIn(t, t.TempDir(), commits), subjects)
			lengths := []int{3, 1, max(1, len(commits)-1)}
			if ledgertest.Raced {
				lengths = lengths[:1]
			}
			for _, every := range lengths {
				dir, archive := t.TempDir(), t.TempDir()
				half := (len(commits) + 1) / 2
				p := foldedIn(t, dir, commits[:half])
				p.ReadPastFrom(pastIn(t, archive, past.Options{}))
				reopen := func() {
					if err := p.Close(); err != nil {
						t.Fatal(err)
					}
					p = foldedIn(t, dir, commits)
					p.ReadPastFrom(pastIn(t, archive, past.Options{}))
				}
				var ends []uint64 // of epochs that are made together: one, then two, then three
				most := 1
				for i := every - 1; i < len(commits)-1; i += every {
					if i >= half-1 && p.Checkpoint().Sequence < commits[len(commits)-1].Sequence {
						reopen()
					}
					ends = append(ends, commits[i].Sequence)
					if len(ends) < most && i+every < half {
						continue
					}
					if err := p.EndEpochs(t.Context(), ends...); err != nil {
						t.Fatal(err)
					}
					if p.HotFrom() != commits[i].Sequence {
						t.Errorf("versions have left before %d, want %d", p.HotFrom(), commits[i].Sequence)
					}
					ends = nil
					most++
				}
				if len(ends) > 0 {
					if err := p.EndEpochs(t.Context(), ends...); err != nil {
						t.Fatal(err)
					}
				}
				if p.Checkpoint().Sequence == commits[len(commits)-1].Sequence {
					tellAll(t.Context(), p, subjects).same(t, fmt.Sprintf("an epoch of %d commits", every), want)
				}
				reopen()
				tellAll(t.Context(), p, subjects).same(t, fmt.Sprintf("an epoch of %d commits, after a start", every), want)
			}
		})
	}
}
