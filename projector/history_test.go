package projector_test

import (
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// TestHistoryIsWhole: whatever happens to entities that come, change, go and come
// back, even within one commit or one record, every history is what the log says,
// in both directions and at every moment.
func TestHistoryIsWhole(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	random := rand.New(rand.NewSource(11))
	providers, consumers, nodes := make([]ledger.UUID, 6), make([]ledger.UUID, 12), make([]ledger.UUID, 3)
	for _, ids := range [][]ledger.UUID{providers, consumers, nodes} {
		for i := range ids {
			ids[i] = commandstest.NewID()
		}
	}
	for range 60 {
		var answered sync.WaitGroup
		for range 1 + random.Intn(30) {
			answered.Add(1)
			command := randomCommand(random, providers, consumers, nodes)
			submission := commands.Submission{ID: commands.NewID(), Actor: "test", Command: command}
			l.Writer.Start(submission, func(_ commands.Outcome, err error) {
				if err != nil {
					t.Error(err)
				}
				answered.Done()
			})
		}
		answered.Wait()
	}
	want, widest := histories(t, l)
	if widest < 5 {
		t.Fatalf("no commit has more than %d records: the test tests little", widest)
	}
	view := l.Views.View()
	for subject, list := range want {
		got := history(t, view, subject, 0, 1<<20)
		if diff := cmp.Diff(list, got); diff != "" {
			t.Fatalf("history of %c %s%s:\n%s", subject.Kind, subject.ID, subject.Name, diff)
		}
		at := random.Intn(len(list))
		later := slices.Clone(list[:at])
		slices.Reverse(later)
		after, err := view.HistoryAfter(subject, list[at], 1<<20)
		if err != nil || !slices.Equal(after, later) {
			t.Fatalf("history of %c %s after %v: %v, %v; want %v", subject.Kind, subject.ID, list[at], after, err, later)
		}
		past, err := l.Views.ViewAt(list[at].Sequence)
		if err != nil {
			t.Fatal(err)
		}
		from := slices.IndexFunc(list, func(a ledger.Address) bool { return a.Sequence == list[at].Sequence })
		if got := history(t, past, subject, 0, 1<<20); !slices.Equal(got, list[from:]) {
			t.Fatalf("history of %c %s as of %d: %v; want %v", subject.Kind, subject.ID, list[at].Sequence, got, list[from:])
		}
	}
}

func history(t *testing.T, view projector.View, s projector.Subject, before uint64, limit int) []ledger.Address {
	t.Helper()
	list, err := view.History(s.Kind, s.ID, before, limit)
	if s.Name != "" {
		list, err = view.OwnerHistory(s.Kind, s.Name, before, limit)
	}
	if err != nil {
		t.Fatalf("history of %c %s%s: %v", s.Kind, s.ID, s.Name, err)
	}
	return list
}

// histories reads the log: the records that touched each thing, newest first,
// and how many records the widest commit has.
func histories(t *testing.T, l *commandstest.Ledger) (want map[projector.Subject][]ledger.Address, widest int) {
	t.Helper()
	kinds := make(map[projector.Kind]bool)
	for _, kind := range projector.Kinds {
		kinds[kind] = true
	}
	want = make(map[projector.Subject][]ledger.Address)
	state := ledger.NewState()
	last, err := l.Log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = chain.Read(t.Context(), l.Log, ledger.Head{}, last, func(c *ledger.Commit) error {
		changes, err := state.Fold(c)
		if err != nil {
			return err
		}
		widest = max(widest, len(c.Records))
		for subject, indexes := range projector.Touches(c, &changes, kinds) {
			for _, index := range indexes {
				want[subject] = append([]ledger.Address{{Sequence: c.Sequence, Index: int(index)}}, want[subject]...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return want, widest
}

// randomCommand makes a command about some of the entities. It may be rejected.
func randomCommand(random *rand.Rand, providers, consumers, nodes []ledger.UUID) commands.Command {
	pick := func(ids []ledger.UUID) ledger.UUID { return ids[random.Intn(len(ids))] }
	one := func() commands.Command {
		provider := pick(providers)
		switch random.Intn(12) {
		case 0, 1:
			return &commands.CreateProvider{Provider: provider, Name: fmt.Sprint("name ", random.Intn(9))}
		case 2:
			return &commands.DeleteProvider{Provider: provider}
		case 3:
			return &commands.RenameProvider{Provider: provider, Name: fmt.Sprint("name ", random.Intn(9))}
		case 4:
			return &commands.ReparentProvider{Provider: provider, Parent: pick(providers)}
		case 5:
			return &commands.ReplaceProviderTraits{Provider: provider, Traits: []string{"HW_CPU_X86_AVX"}[:random.Intn(2)]}
		case 6:
			return &commands.UpdateInventory{
				Provider: provider, Inventory: commands.Inventory{Class: "VCPU", Total: 1 + random.Int63n(50)},
			}
		case 7:
			return &commands.CreateInventory{Provider: provider, Inventory: commands.Inventory{Class: "VCPU", Total: 50}}
		case 8:
			return &commands.ReleaseConsumer{Consumer: pick(consumers)}
		case 9:
			if random.Intn(2) == 0 {
				return &commands.CreateNode{Node: pick(nodes)}
			}
			return &commands.DeleteNode{Node: pick(nodes)}
		default:
			c := commandstest.Allocate(pick(consumers), provider, "VCPU", 1+random.Int63n(3))
			c.Allocations[0].AnyGeneration = true
			c.Allocations[0].Project = fmt.Sprint("project ", random.Intn(3))
			return c
		}
	}
	switch random.Intn(8) {
	case 0: // gone, and back at once
		id := pick(providers)
		return &commands.Batch{Commands: []commands.Command{
			&commands.DeleteProvider{Provider: id},
			&commands.CreateProvider{Provider: id, Name: fmt.Sprint("name ", random.Intn(9))},
		}}
	case 1: // there, and gone at once
		id := commandstest.NewID()
		return &commands.Batch{Commands: []commands.Command{
			&commands.CreateProvider{Provider: id, Name: id.String()}, &commands.DeleteProvider{Provider: id},
		}}
	}
	return one()
}

// TestEveryTopicHasAHistory: every topic of an event has a history.
func TestEveryTopicHasAHistory(t *testing.T) {
	for _, event := range ledgertest.EveryEvent() {
		topic, subjects := event.Topic(), projector.SubjectsOf(event)
		if topic.Of == ledger.OfNothing && len(subjects) == 0 {
			continue
		}
		if len(subjects) != 1 || subjects[0].ID != topic.ID || !slices.Contains(projector.Kinds, subjects[0].Kind) {
			t.Errorf("%s is about %+v, and has %v", ledger.KindOf(event), topic, subjects)
		}
	}
}
