package writer_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestNothingNewForOldReplicas: as long as some known replica knows no event at
// all, only terms are written, which can raise the level.
func TestNothingNewForOldReplicas(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	begin := func(level uint64) *commands.BeginTerm {
		return &commands.BeginTerm{Leader: "a", Instance: commandstest.NewID(), Level: level}
	}
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_ALONE"})
	l.Accept(t, begin(0))
	got := l.Submit(t, &commands.CreateTrait{Name: "CUSTOM_EARLY"})
	if got.Rejection == nil || got.Rejection.Code != demand.CodeNotYet {
		t.Errorf("at level 0: %+v", got)
	}
	l.Accept(t, begin(ledger.Level))
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NOW"})
	if got := l.Submit(t, begin(0)); got.Rejection == nil {
		t.Error("the level went down")
	}
}
