package projector_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector"
)

// eachItsOwn makes folders that are removed after a run: read models take much of the disk.
func eachItsOwn(t *testing.T) func(*rapid.T) string {
	in := t.TempDir()
	return func(rt *rapid.T) string {
		dir := commandstest.Must(os.MkdirTemp(in, ""))
		rt.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
}

// TestHistoryIsWhole: whatever happens to entities that come, change, go and come
// back, even within one commit or one record, every history is what the log says,
// in both directions and at every moment. The read models are the same bytes after a start
// between two commits, and without what is kept in memory of those before.
func TestHistoryIsWhole(t *testing.T) {
	t.Parallel()
	folders, widest := eachItsOwn(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		dir := folders(rt)
		p, whole := openedIn(t, dir), openedIn(t, folders(rt))
		rt.Cleanup(func() { _ = errors.Join(p.Close(), whole.Close()) }) // else removed files take the disk
		want := map[projector.Subject][]ledger.Address{}
		state := ledger.NewState()
		commits := commandstest.RandomCommits(rt, 25)
		restart := rapid.IntRange(0, len(commits)-1).Draw(rt, "restart")
		for i, c := range commits {
			changes := commandstest.Must(state.Fold(c))
			touched(want, c, &changes)
			ledgertest.OK(rt, p.Fold(c, changes), whole.Fold(c, changes))
			if i == restart {
				ledgertest.OK(rt, p.Close())
				p = openedIn(t, dir)
			}
			for range rapid.IntRange(0, 2).Draw(rt, "age") {
				p.Age()
			}
			widest = max(widest, len(c.Records))
		}
		one, err := p.Digest()
		if other, otherErr := whole.Digest(); err != nil || otherErr != nil || one != other {
			rt.Fatalf("digests %s, %s, %v, %v", one, other, err, otherErr)
		}
		for subject, list := range want {
			checkHistory(rt, p, subject, list, rapid.IntRange(0, len(list)-1).Draw(rt, "at"))
		}
	})
	if widest < 5 && !ledgertest.Raced {
		t.Errorf("no commit has more than %d records: the test tests little", widest)
	}
}

// checkHistory compares a history with the records that touched its subject, newest first: as a whole, behind one of
// them, and as of its moment.
func checkHistory(t *rapid.T, p *projector.Projector, subject projector.Subject, list []ledger.Address, at int) {
	view := p.View()
	if diff := cmp.Diff(list, history(t, view, subject, 0, 1<<20)); diff != "" {
		t.Fatalf("history of %c %s%s:\n%s", subject.Kind, subject.ID, subject.Name, diff)
	}
	later := slices.Clone(list[:at])
	slices.Reverse(later)
	after, err := view.HistoryAfter(subject, list[at], 1<<20)
	if err != nil || !slices.Equal(after, later) {
		t.Fatalf("history of %c %s after %v: %v, %v; want %v", subject.Kind, subject.ID, list[at], after, err, later)
	}
	past := commandstest.Must(p.ViewAt(list[at].Sequence))
	from := slices.IndexFunc(list, func(a ledger.Address) bool { return a.Sequence == list[at].Sequence })
	if got := history(t, past, subject, 0, 1<<20); !slices.Equal(got, list[from:]) {
		t.Fatalf("history of %c %s as of %d: %v; want %v", subject.Kind, subject.ID, list[at].Sequence, got, list[from:])
	}
}

func history(t *rapid.T, view projector.View, s projector.Subject, before uint64, limit int) []ledger.Address {
	list, err := view.HistoryOf(s, before, limit)
	if err != nil {
		t.Fatalf("history of %c %s%s: %v", s.Kind, s.ID, s.Name, err)
	}
	return list
}

// touched adds the records of a commit to those that touched each thing, newest first.
func touched(want map[projector.Subject][]ledger.Address, c *ledger.Commit, changes *ledger.Changes) {
	kinds := make(map[projector.Kind]bool)
	for _, kind := range projector.Kinds {
		kinds[kind] = true
	}
	for subject, indexes := range projector.Touches(c, changes, kinds) {
		for _, index := range indexes {
			want[subject] = append([]ledger.Address{{Sequence: c.Sequence, Index: int(index)}}, want[subject]...)
		}
	}
}

// TestEveryTopicHasAHistory: every topic of an event has a history.
func TestEveryTopicHasAHistory(t *testing.T) {
	for _, event := range ledgertest.EveryEvent() {
		topic, subjects := ledger.TopicOf(event), projector.SubjectsOf(event)
		if topic.Of == ledger.OfNothing && len(subjects) == 0 {
			continue
		}
		if len(subjects) != 1 || subjects[0].ID != topic.ID || !slices.Contains(projector.Kinds, subjects[0].Kind) {
			t.Errorf("%s is about %+v, and has %v", ledger.KindOf(event), topic, subjects)
		}
	}
}
