package candidates_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/candidates"
)

// TestIndexAfterAnyCommits: after any commits, the updated index equals one built
// from the present providers.
func TestIndexAfterAnyCommits(t *testing.T) {
	t.Parallel()
	any := rapid.SliceOfN(
		rapid.OneOf(rapid.Custom(commandstest.RandomProviderCommand), rapid.Custom(commandstest.RandomCommand)), 1, 20,
	)
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.StartTogether(t)
		defer l.Stop(t)
		l.Submit(t, commandstest.SomeThings()...)
		for range 4 {
			l.Submit(t, any.Draw(rt, "commands")...)
			checkIndex(rt, l.Ledger)
		}
	})
}

func checkIndex(t interface{ Fatal(...any) }, l *commandstest.Ledger) {
	world, view := l.Views.World()
	var providers []*ledger.Provider
	err := view.Providers(func(p *ledger.Provider) bool { providers = append(providers, p); return true })
	if err == nil {
		err = world.Compare(candidates.NewWorld(providers))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootOfTheSameCommit: an existing provider moves below one that is made in
// the same commit, whichever of the two the commit names first.
func TestRootOfTheSameCommit(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	first := l.Provider(t, "first", commands.Inventory{Class: "VCPU", Total: 8})
	moved, root := l.Provider(t, "moved"), commandstest.NewID()
	l.Accept(t, &commands.Batch{Commands: []commands.Command{
		&commands.CreateProvider{Provider: root, Name: "root"},
		&commands.ReparentProvider{Provider: moved, Parent: root},
		&commands.ReplaceInventories{Provider: moved, Inventories: []commands.Inventory{{Class: "MEMORY_MB", Total: 8}}},
		&commands.ReplaceInventories{Provider: root, Inventories: []commands.Inventory{{Class: "DISK_GB", Total: 8}}},
	}})
	checkIndex(t, l)
	world, view := l.Views.World()
	classes, err := view.Classes()
	if err != nil {
		t.Fatal(err)
	}
	vcpu, _ := classes.ID("VCPU")
	memory, _ := classes.ID("MEMORY_MB")
	found := search(t, world, &candidates.Request{Groups: []candidates.Group{
		{Resources: []candidates.Resource{{Class: vcpu, Amount: 1}}},
		{Resources: []candidates.Resource{{Class: memory, Amount: 1}}},
	}})
	if len(found) > 0 {
		t.Errorf("provider %s of another tree is offered with %s: %v", moved, first, found)
	}
}
