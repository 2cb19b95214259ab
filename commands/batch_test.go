package commands_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// TestBatchBesideNeighbours: what commands before a batch have changed in the same
// commit is no reason to reject it, since it can be carried out in the next one.
func TestBatchBesideNeighbours(t *testing.T) {
	w := newWorld(t)
	s := w.State().Fork()
	s.Begin()
	neighbour := allocations(w.known(allocate(holder, host, vcpu, 4)))
	more, rejection := commands.Decide(commands.Submission{Command: neighbour}, s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	if err := s.Apply(s.Next(), &ledger.Record{Time: s.LastTime(), Events: more}); err != nil {
		t.Fatal(err)
	}
	release := &commands.ReleaseConsumer{Consumer: holder}
	alone, rejection := release.Decide(s)
	if rejection != nil {
		t.Fatal(rejection)
	}
	got, rejection := (&commands.Batch{Commands: []commands.Command{release}}).Decide(s)
	if rejection != nil || !cmp.Equal(alone, got) {
		t.Errorf("%v, %+v; alone it gives %v", rejection, got, alone)
	}
	twice := &commands.Batch{Commands: []commands.Command{release, allocations(allocate(holder, host, vcpu, 2))}}
	if _, rejection := twice.Decide(s); rejection == nil {
		t.Error("a consumer is in a batch twice, and it is taken")
	}
}
