package commands_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestBatchBesideNeighbours: what commands before a batch have changed in the same
// commit is no reason to reject it, since it can be carried out in the next one.
func TestBatchBesideNeighbours(t *testing.T) {
	w := newWorld(t)
	s := w.State().Fork()
	s.Begin()
	neighbour := read(t, `AllocateForConsumers {"allocations":[{"consumer":"$holder","project":"p","user":"u",
		"generation":$holder.generation,"resources":[{"provider":"$host","class":"VCPU","amount":4}]}]}`)
	more, rejection := commands.Decide(commands.Submission{Command: neighbour}, s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	ledgertest.OK(t, s.Apply(s.Next(), &ledger.Record{Time: s.LastTime(), Events: more}))
	release := &commands.ReleaseConsumer{Consumer: holder}
	alone, rejection := commands.Decide(commands.Submission{Command: release}, s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	batch := &commands.Batch{Commands: []commands.Command{release}}
	got, rejection := commands.Decide(commands.Submission{Command: batch}, s)
	if rejection != nil || !cmp.Equal(alone, got) {
		t.Errorf("%v, %+v; alone it gives %v", rejection, got, alone)
	}
	twice := &commands.Batch{Commands: []commands.Command{release, allocations(allocate(holder, host, vcpu, 2))}}
	if _, rejection := commands.Decide(commands.Submission{Command: twice}, s); rejection == nil {
		t.Error("a consumer is in a batch twice, and it is taken")
	}
}

// TestRootAfterAChangeInItsCommit: a root that would be in the commit of a change of what is held
// was made without it, and is not set.
func TestRootAfterAChangeInItsCommit(t *testing.T) {
	l := commandstest.StartTogether(t)
	defer l.Stop(t)
	host := l.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 9})
	hours := int64(0)
	for about, row := range map[string]struct {
		before commands.Command
		set    bool
	}{
		"a name":        {&commands.CreateTrait{Name: "CUSTOM_A"}, true},
		"an allocation": {commandstest.Allocate(commandstest.NewID(), host, "VCPU", 1), false},
		"a node": {&commands.RequestNodeAllocation{
			Allocation: commandstest.NewID(), NodeRequest: commands.NodeRequest{ResourceClass: "CUSTOM_METAL"},
		}, false},
	} {
		hours++
		last := l.Views.View().Sequence() + 1 // of the commit that the two wait for
		outcomes := l.Submit(t, row.before, &commands.SetConsumptionRoot{
			Last: last, ConsumptionRoot: ledger.ConsumptionRoot{At: hours * ledger.ConsumptionPeriod},
		})
		if first := outcomes[0]; first.Rejection != nil || first.Address.Sequence != last+1 {
			t.Fatalf("%s: %+v", about, first)
		}
		if set := outcomes[1].Address.Sequence == last+1; set != row.set {
			t.Errorf("%s: the root is set: %v", about, set)
		}
	}
}
