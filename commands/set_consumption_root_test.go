package commands_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
)

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
		outcomes := l.Submit(t, row.before, rootSet(last, hours))
		if first := outcomes[0]; first.Rejection != nil || first.Address.Sequence != last+1 {
			t.Fatalf("%s: %+v", about, first)
		}
		if set := outcomes[1].Address.Sequence == last+1; set != row.set {
			t.Errorf("%s: the root is set: %v", about, set)
		}
	}
}
