package commands_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
)

// unregistered are commands that no registry has: a batch consists of others, and
// RemoveProvider is for what-if questions only.
var unregistered = map[string]func() commands.Command{
	"Batch":          func() commands.Command { return new(commands.Batch) },
	"RemoveProvider": func() commands.Command { return new(commands.RemoveProvider) },
}

// TestRegistry reads the package's source: every type with a decide is one
// that clients may submit, or one that the server submits, under the name of its
// type.
func TestRegistry(t *testing.T) {
	known := slices.Collect(maps.Keys(commands.Registry))
	known = slices.AppendSeq(known, maps.Keys(commands.Internal))
	known = slices.AppendSeq(known, maps.Keys(unregistered))
	declared := commandTypes(t)
	for _, name := range declared {
		if !slices.Contains(known, name) {
			t.Errorf("%s has a decide, and is neither in Registry nor in Internal", name)
		}
	}
	for _, name := range known {
		if !slices.Contains(declared, name) {
			t.Errorf("there is no type %s with a decide, which is a command's name", name)
		}
	}
}

// commandTypes are the types of the package that have a decide.
func commandTypes(t *testing.T) (names []string) {
	t.Helper()
	decide := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) decide\(`)
	for _, file := range commandstest.Must(os.ReadDir(".")) {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		for _, found := range decide.FindAllSubmatch(commandstest.Must(os.ReadFile(file.Name())), -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

// followsFromHoldings reports whether an event is about what a consumer holds, or
// follows from that: providers' generations, and the reservation of a node.
func followsFromHoldings(s *ledger.State, event ledger.Event) bool {
	switch event := event.(type) {
	case ledger.ProviderGenerationsAdvanced:
		return true
	case ledger.InventoriesReplaced:
		_, isNode := s.Node(event.Provider)
		return isNode
	}
	return ledger.TopicOf(event).Of == ledger.OfConsumer
}

// TestOnlyHoldings decides random commands: those that declare that they change
// only holdings do so, and all that change only holdings declare it.
func TestOnlyHoldings(t *testing.T) {
	t.Parallel()
	others := map[string]bool{} // commands that changed something else
	events := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := otherWorld(t, commandstest.SomeThings()...)
		for range 30 {
			c := commandstest.RandomCommand(rt)
			list, _ := w.carry(c)
			for _, event := range list {
				events[commands.NameOf(c)]++
				if !followsFromHoldings(w.State(), event) {
					others[commands.NameOf(c)] = true
				}
			}
		}
	})
	for name, n := range events {
		if name != "Batch" && commands.OnlyHoldings(name) == others[name] {
			t.Errorf("%s: of its %d events some are about other things, and OnlyHoldings is %v", name, n, others[name])
		}
	}
	if events["AllocateForConsumers"] == 0 {
		t.Errorf("nothing was allocated: %v", events)
	}
}
