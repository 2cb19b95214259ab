package ledger_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// projectUsages lists what a State says that projects hold.
func projectUsages(s *ledger.State) map[string][]any {
	usages := make(map[string][]any)
	s.ProjectUsages(func(u *ledger.ProjectUsage) bool {
		usages[u.Project] = []any{u.Amounts, u.Consumers}
		return true
	})
	return usages
}

// TestProjectUsageOfRefusedEvents: an event that is found impossible after a part
// of it was counted leaves no trace in what projects hold, for which no digest
// vouches: it follows from the rest, and is counted as events come.
func TestProjectUsageOfRefusedEvents(t *testing.T) {
	t.Parallel()
	s := refusingState(t)
	good := ledger.AllocationRecord{Provider: parent, Class: "VCPU", Amount: 1}
	for _, commit := range [][]ledger.Event{
		{ledger.LimitSet{Class: "VCPU", Most: 100}, ledger.ProjectPlaced{Project: "p", Parent: "q"}},
		{ledger.AllocationsReplaced{Consumer: missing, Project: "p", User: "u", Allocations: []ledger.AllocationRecord{good}}},
	} {
		err := foldEvents(s, commit...)
		if err != nil {
			t.Fatal(err)
		}
	}
	before := projectUsages(s)
	if len(before) < 2 {
		t.Fatalf("only %v hold something", before)
	}
	for _, consumer := range []ledger.UUID{missing, newcomer} { // one that holds something, and a new one
		err := foldEvents(s, ledger.AllocationsReplaced{
			Consumer: consumer, Project: "p", User: "u",
			Allocations: []ledger.AllocationRecord{good, {Provider: other, Class: "VCPU", Amount: 2}}, // which has none
		})
		if !errors.Is(err, ledger.ErrInvariant) {
			t.Fatalf("got %v", err)
		}
		if after := projectUsages(s); !reflect.DeepEqual(after, before) {
			t.Errorf("projects hold %v, before: %v", after, before)
		}
	}
}

// foldEvents folds a commit of one record.
func foldEvents(s *ledger.State, events ...ledger.Event) error {
	_, err := s.Fold(&ledger.Commit{Sequence: s.Next(), Prev: s.Head().Digest, Records: []ledger.Record{
		{Time: s.LastTime(), Events: events},
	}})
	return err
}
