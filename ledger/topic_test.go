package ledger_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestTopics applies every kind of event alone. It must change exactly what it
// says that it is about, because histories and the rule of one change per commit
// follow from that.
func TestTopics(t *testing.T) {
	s := ledger.NewState()
	for i, event := range ledgertest.EveryEvent() {
		s.Begin()
		if err := s.Apply(uint64(i+1), &ledger.Record{Time: int64(i + 1), Events: []ledger.Event{event}}); err != nil {
			t.Fatalf("%s: %v", ledger.KindOf(event), err)
		}
		checkTopic(t, event, s.Changes())
	}
}

func checkTopic(t *testing.T, event ledger.Event, changes ledger.Changes) {
	t.Helper()
	changed := map[ledger.Of][]ledger.UUID{}
	for _, c := range changes.Consumers {
		changed[ledger.OfConsumer] = append(changed[ledger.OfConsumer], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.NodeAllocations {
		changed[ledger.OfNodeAllocation] = append(changed[ledger.OfNodeAllocation], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Nodes {
		changed[ledger.OfNode] = append(changed[ledger.OfNode], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Chassis {
		changed[ledger.OfChassis] = append(changed[ledger.OfChassis], either(c.Before, c.After).UUID)
	}
	for _, c := range changes.Providers {
		changed[ledger.OfProvider] = append(changed[ledger.OfProvider], either(c.Before, c.After).UUID)
	}
	topic := event.Topic()
	if topic.Of != ledger.OfNothing && !slices.Contains(changed[topic.Of], topic.ID) {
		t.Errorf("%s is about %+v, and changes %v", ledger.KindOf(event), topic, changed)
	}
	if _, many := event.(ledger.ProviderGenerationsAdvanced); topic.Of == ledger.OfNothing && !many && len(changed) > 0 {
		t.Errorf("%s says that it is about nothing, and changes %v", ledger.KindOf(event), changed)
	}
	// one change per event, on which readers of changes rely
	for _, of := range []ledger.Of{ledger.OfConsumer, ledger.OfNodeAllocation} {
		want := []ledger.UUID(nil)
		if topic.Of == of {
			want = []ledger.UUID{topic.ID}
		}
		if !slices.Equal(changed[of], want) {
			t.Errorf("%s is about %+v, and takes the steps %v", ledger.KindOf(event), topic, changed)
		}
	}
	for _, c := range changes.Nodes {
		after := ledger.NodeAfter(c.Before, []ledger.Event{event})
		kept := cmpopts.IgnoreFields(ledger.Node{}, "Number", "CreatedAt", "UpdatedAt", "ProvisionUpdatedAt")
		if diff := cmp.Diff(c.After, after, kept, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("NodeAfter does not know what %s does:\n%s", ledger.KindOf(event), diff)
		}
	}
}

func either[T any](before, after *T) *T {
	if before != nil {
		return before
	}
	return after
}
