package writer_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/projector"
)

// TestConsumersChangeOnceInACommit: no consumer changes twice in one commit,
// whatever is submitted together, and the history has every record that changed
// one.
func TestConsumersChangeOnceInACommit(t *testing.T) {
	t.Parallel()
	flood := rapid.SliceOfN(
		rapid.OneOf(rapid.Custom(commandstest.RandomNodeCommand), rapid.Custom(commandstest.RandomCommand)), 1, 20,
	)
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.StartTogether(t)
		defer l.Stop(t)
		l.Submit(t, commandstest.SomeThings()...)
		for range 3 {
			l.Submit(t, flood.Draw(rt, "commands")...)
		}
		checkOnce(rt, t, l.Ledger)
	})
}

func checkOnce(rt interface{ Fatalf(string, ...any) }, t *testing.T, l *commandstest.Ledger) {
	view := l.Views.View()
	changes := map[ledger.UUID][]ledger.Address{}
	err := chain.Read(t.Context(), l.Log, ledger.Head{}, view.Sequence(), func(c *ledger.Commit) error {
		for index, r := range c.Records {
			for _, event := range r.Events {
				topic := event.Topic()
				if topic.Of != ledger.OfConsumer {
					continue
				}
				list := changes[topic.ID]
				if n := len(list); n > 0 && list[n-1].Sequence == c.Sequence {
					rt.Fatalf(
						"consumer %s changes twice in commit %d: in records %d and %d (%s)", topic.ID, c.Sequence, list[n-1].Index,
						index, r.Command,
					)
				}
				changes[topic.ID] = append(list, ledger.Address{Sequence: c.Sequence, Index: index})
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatalf("%v", err)
	}
	for consumer, want := range changes {
		slices.Reverse(want)
		got, err := view.History(projector.ConsumerHistory, consumer, 0, len(want)+1)
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("the history of consumer %s is %v, %v, and not %v", consumer, got, err, want)
		}
	}
}

// TestUnnamedConsumers: a node command that removes a consumer does not name it.
// It shares no commit with the command that made the consumer, is not rejected
// for that, and no later command overtakes it.
func TestUnnamedConsumers(t *testing.T) {
	t.Parallel()
	l := commandstest.StartTogether(t)
	node, allocation, name, driver, class := commandstest.NewID(), commandstest.NewID(), "n", "fake", "a"
	l.Accept(t, &commands.SetNodeProviders{On: true, Limit: 1})
	l.Accept(t, &commands.CreateNode{
		Node: node, NodeFields: commands.NodeFields{Name: &name, Driver: &driver, ResourceClass: &class},
		ProvisionState: ledger.NodeAvailable,
	})
	l.Accept(t, &commands.SetNodePowerState{Node: node, Target: "power off"})
	request := func() commands.Command {
		return &commands.RequestNodeAllocation{
			Allocation: allocation, NodeRequest: commands.NodeRequest{Name: name, ResourceClass: class},
		}
	}
	choose := &commands.ChooseNode{Allocation: allocation, Seed: 1}
	l.Accept(t, request())
	for i := range 3 {
		outcomes := l.Submit(t, choose, &commands.SetNodeProvisionState{Node: node, Target: "active"},
			&commands.SetNodeProvisionState{Node: node, Target: "deleted"}, request())
		for k, outcome := range outcomes {
			if outcome.Rejection != nil {
				t.Fatalf("round %d: command %d: %s", i, k, outcome.Rejection)
			}
		}
	}
	checkOnce(t, t, l.Ledger)

	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 8})
	l.Accept(t, choose)
	l.Accept(t, &commands.SetNodeProvisionState{Node: node, Target: "active"})
	l.Submit(
		t, &commands.SetNodeProvisionState{Node: node, Target: "deleted"},
		commandstest.Allocate(allocation, provider, "VCPU", 1),
	)
	checkOnce(t, t, l.Ledger)
}
