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
	parent, child, missing = ledgertest.ID(1, 1), ledgertest.ID(1, 12), ledgertest.ID(1, 99)
	given                  = ledgertest.ID(6, 1)
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

// TestEventsThatDoNotFollow folds each line of refused.txt after a valid event: the State returns the
// reason, and is unchanged. So is what projects hold, for which no digest vouches.
func TestEventsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	before := refusingState(t)
	digest, err := before.Digest()
	usages := projectUsages(before)
	if err != nil || len(usages) < 2 {
		t.Fatalf("%v; projects hold %v", err, usages)
	}
	refused := make(map[string]bool)
	ledgertest.Answers(t, "testdata/refused.txt", func(line, _ string) string {
		var events []ledger.Event
		for text := range strings.SplitSeq(line, " then ") {
			events = append(events, ledgertest.Must(ledgertest.Event(text)))
		}
		last := len(events) - 1
		kind := ledger.KindOf(events[last])
		refused[kind] = true
		s := before.Fork()
		_, err = s.Fold(&ledger.Commit{Sequence: s.Next(), Prev: s.Head().Digest, Records: []ledger.Record{
			{Time: s.LastTime(), Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_FIRST"}}},
			{Time: s.LastTime(), Events: events},
		}})
		where, why, found := strings.Cut(fmt.Sprint(err), ledger.ErrInvariant.Error()+": ")
		if !found || !strings.Contains(where, fmt.Sprintf("record 1: event %d (%s)", last, kind)) || !errors.Is(err, ledger.ErrInvariant) {
			t.Errorf("%s: %v", line, err)
		}
		if after, err := s.Digest(); err != nil || after != digest || !reflect.DeepEqual(projectUsages(s), usages) {
			t.Errorf("%s is refused, and changes the State, or what projects hold: %v", line, err)
		}
		return ledgertest.Named(why)
	})
	for _, kind := range ledger.EventKinds() {
		if !refused[kind] {
			t.Errorf("refused.txt has no %s", kind)
		}
	}
}

// TestTimesDoNotGoBack: no record is from before the last one, or from before the moment of a root of consumption, even
// if the root's own is, as the clock was set back meanwhile; and a root that is taken back binds nothing.
func TestTimesDoNotGoBack(t *testing.T) {
	t.Parallel()
	s := refusingState(t)
	err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime() - 1})
	if !errors.Is(err, ledger.ErrInvariant) || !strings.Contains(err.Error(), "older than the record before") {
		t.Errorf("a nanosecond before the last record: %v", err)
	}
	s = ledger.NewState()
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
