package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Entities of the State after all events of ledgertest.
var (
	parent, child, other, missing = ledgertest.ID(1, 1), ledgertest.ID(1, 12), ledgertest.ID(1, 13), ledgertest.ID(1, 99)
	holder, newcomer, given       = ledgertest.ID(2, 77), ledgertest.ID(2, 99), ledgertest.ID(6, 1)
)

func refusingState(t *testing.T) *ledger.State {
	t.Helper()
	s := ledger.NewState()
	for i, event := range append(ledgertest.EveryEvent(), ledgertest.Events("besides")...) {
		s.Begin()
		record := &ledger.Record{Time: ledger.ConsumptionPeriod + int64(i), Events: []ledger.Event{event}}
		if err := s.Apply(uint64(i+1), record); err != nil {
			t.Fatalf("%s: %v", ledger.KindOf(event), err)
		}
		s.Advance(ledger.Head{Sequence: uint64(i + 1)})
	}
	return s
}

// TestEventsThatDoNotFollow folds each event of refused.txt after a valid one: the State returns the
// reason, and is unchanged.
func TestEventsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	before := refusingState(t)
	digest, err := before.Digest()
	ledgertest.OK(t, err)
	refused := make(map[string]bool)
	ledgertest.Answers(t, "testdata/refused.txt", func(line, _ string) string {
		event, err := ledgertest.Event(line)
		ledgertest.OK(t, err)
		kind := ledger.KindOf(event)
		refused[kind] = true
		s := before.Fork()
		_, err = s.Fold(&ledger.Commit{Sequence: s.Next(), Prev: s.Head().Digest, Records: []ledger.Record{
			{Time: s.LastTime(), Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_FIRST"}}},
			{Time: s.LastTime(), Events: []ledger.Event{event}},
		}})
		where, why, found := strings.Cut(fmt.Sprint(err), ledger.ErrInvariant.Error()+": ")
		if !found || !strings.Contains(where, "record 1: event 0 ("+kind+")") || !errors.Is(err, ledger.ErrInvariant) {
			t.Errorf("%s: %v", line, err)
		}
		if after, err := s.Digest(); err != nil || after != digest {
			t.Errorf("%s is refused, and changes the State: %v", line, err)
		}
		return ledgertest.Named(why)
	})
	for _, kind := range ledger.EventKinds() {
		if !refused[kind] {
			t.Errorf("refused.txt has no %s", kind)
		}
	}
}

// TestOncePerCommit: a consumer changes once at most in a commit, in whatever
// way, because its generation is the commit's sequence. Records' times do not go
// back.
func TestOncePerCommit(t *testing.T) {
	t.Parallel()
	change := ledger.AllocationsReplaced{Consumer: holder, Project: "p", User: "u", Allocations: []ledger.AllocationRecord{
		{Provider: parent, Class: "VCPU", Amount: 1},
	}}
	reserve := ledger.AllocationsReserved{AllocationsReplaced: change, Lifetime: 1}
	for _, second := range []ledger.Event{change, reserve, ledger.ConsumerRemoved{Consumer: holder}} {
		s := refusingState(t)
		undo := s.Begin()
		for i, event := range []ledger.Event{change, second} {
			err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime(), Events: []ledger.Event{event}})
			if (i == 1) != errors.Is(err, ledger.ErrInvariant) {
				t.Errorf("%s after a change in the same commit: %v", ledger.KindOf(second), err)
			}
		}
		s.Undo(undo, s.Changes())
		err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime() - 1, Events: []ledger.Event{second}})
		if !errors.Is(err, ledger.ErrInvariant) || !strings.Contains(err.Error(), "older than the record before") {
			t.Errorf("%s a nanosecond before the last record: %v", ledger.KindOf(second), err)
		}
	}
}

// TestNothingIsFromBeforeARoot: after a root of consumption no record is from before its moment, even if the root's
// own is, as the clock was set back meanwhile; and a root that is taken back binds nothing.
func TestNothingIsFromBeforeARoot(t *testing.T) {
	t.Parallel()
	s := ledger.NewState()
	root := &ledger.Record{Time: ledger.ConsumptionPeriod - 5, Events: []ledger.Event{ledgertest.ConsumptionRootSet()}}
	early := &ledger.Record{Time: ledger.ConsumptionPeriod - 1}
	undo := s.Begin()
	if err := s.Apply(1, root); err != nil || s.ConsumptionAt() != ledger.ConsumptionPeriod {
		t.Fatal(s.ConsumptionAt(), err)
	}
	if err := s.Apply(1, early); !errors.Is(err, ledger.ErrInvariant) {
		t.Errorf("a record from before the root: %v", err)
	}
	s.Undo(undo, s.Changes())
	s.Begin()
	if err := s.Apply(1, early); err != nil || s.ConsumptionAt() != 0 {
		t.Errorf("after the root was taken back: %v, a root of %d", err, s.ConsumptionAt())
	}
}

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
		ledgertest.OK(t, foldEvents(s, commit...))
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
