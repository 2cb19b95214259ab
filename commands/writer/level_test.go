package writer_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
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
	if got.Rejection == nil || got.Rejection.Code != commands.CodeNotYet {
		t.Errorf("at level 0: %+v", got)
	}
	l.Accept(t, begin(ledger.Level))
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NOW"})
	if got := l.Submit(t, begin(0)); got.Rejection == nil {
		t.Error("the level went down")
	}
}

// TestNothingOfAHigherLevelForOldReplicas: as long as some known replica cannot read an
// event, no command writes it; as soon as all can, the same command does.
func TestNothingOfAHigherLevelForOldReplicas(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	begin := func(level uint64) *commands.BeginTerm {
		return &commands.BeginTerm{Leader: "a", Instance: commandstest.NewID(), Level: level}
	}
	newer := &commands.SetPreference{Name: "a", Prefer: &commands.ClaimPreference{Order: commands.OrderPack}}
	l.Accept(t, begin(1))
	l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_OLD"})
	if got := l.Submit(t, newer); got.Rejection == nil || got.Rejection.Code != commands.CodeNotYet {
		t.Errorf("at level 1: %+v", got)
	}
	l.Accept(t, begin(2))
	l.Accept(t, newer)
}

// TestPackedForAllReplicas: records are packed where all known replicas can read them
// so, the record of the term that says it among them, and others are not.
func TestPackedForAllReplicas(t *testing.T) {
	log := &memlog.Log{}
	l := commandstest.Start(t, t.TempDir(), log)
	packed := func() (last bool) {
		t.Helper()
		err := ledger.ReadCommits(t.Context(), log, ledger.Head{}, l.Views.View().Sequence(), func(c *ledger.Commit) error {
			last = c.Records[len(c.Records)-1].Packed
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	begin := func(level uint64) {
		l.Accept(t, &commands.BeginTerm{Leader: "a", Instance: commandstest.NewID(), Level: level})
	}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"alone", func() { l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_ALONE"}) }, true},
		{"the first term, with older replicas", func() { begin(ledger.PackedLevel - 1) }, false},
		{"with older replicas", func() { l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_OLD"}) }, false},
		{"the term that finds none", func() { begin(ledger.PackedLevel) }, true},
		{"without older replicas", func() { l.Accept(t, &commands.CreateTrait{Name: "CUSTOM_NEW"}) }, true},
	} {
		if step.do(); packed() != step.want {
			t.Errorf("%s: packed is %v", step.what, packed())
		}
	}
}
