package placing_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// changing is a world that changes after a claim was searched: it is for one VCPU of host,
// which is below root, or for 1 MB of alone, which is in no tree.
type changing struct {
	*commandstest.Ledger

	root, host, alone, other ledger.UUID // providers
	near                     ledger.UUID // consumer that holds something of host
}

const changingTrait = "CUSTOM_FAST"

func newChanging(t *testing.T) *changing {
	t.Helper()
	l := start(t)
	disk, vcpu := commands.Inventory{Class: "DISK_GB", Total: 100}, commands.Inventory{Class: "VCPU", Total: 8}
	c := &changing{
		Ledger: l, root: l.Provider(t, "root"), host: l.Provider(t, "host", vcpu, disk), other: l.Provider(t, "other", disk),
		alone: l.Provider(t, "alone", commands.Inventory{Class: "MEMORY_MB", Total: 8}), near: commandstest.NewID(),
	}
	l.Accept(t, &commands.CreateTrait{Name: changingTrait})
	l.Accept(t, gold(demand.OrderPack))
	l.Accept(t, &commands.ReparentProvider{Provider: c.host, Parent: c.root})
	l.Accept(t, commandstest.Allocate(c.near, c.host, "DISK_GB", 1))
	return c
}

// again is a command for a consumer that holds something.
func again(c *commands.AllocateForConsumers) *commands.AllocateForConsumers {
	c.Allocations[0].AnyGeneration = true
	return c
}

// outdating is a change after a claim was searched.
type outdating struct {
	outdated bool // whether the claim has to be searched again
	change   commands.Command
	prefer   *demand.ClaimPreference // of the claim
	alone    bool                    // the claim is for memory
}

func (c *changing) outdatings() map[string]outdating {
	traits := func(provider ledger.UUID) commands.Command {
		return &commands.ReplaceProviderTraits{Provider: provider, Traits: []string{changingTrait}}
	}
	aggregates := func(provider ledger.UUID) commands.Command {
		return &commands.ReplaceProviderAggregates{Provider: provider, Aggregates: []ledger.UUID{commandstest.NewID()}}
	}
	below := func(provider, parent ledger.UUID) commands.Command {
		return &commands.ReparentProvider{Provider: provider, Parent: parent}
	}
	taken := func(amount int64) commands.Command {
		return commandstest.Allocate(commandstest.NewID(), c.host, "VCPU", amount)
	}
	near := &demand.ClaimPreference{
		Near: []demand.NearConsumers{{Consumers: []ledger.UUID{c.near}, By: "provider", Rule: "require"}},
	}
	return map[string]outdating{
		"traits":                       {true, traits(c.host), nil, false},
		"traits of the root":           {true, traits(c.root), nil, false},
		"aggregates":                   {true, aggregates(c.host), nil, false},
		"aggregates of the root":       {true, aggregates(c.root), nil, false},
		"parent":                       {true, below(c.host, c.other), nil, false},
		"root":                         {true, below(c.root, c.other), nil, false},
		"traits of one that is alone":  {true, traits(c.alone), nil, true},
		"it is in a tree now":          {true, below(c.alone, c.root), nil, true},
		"inventory is gone":            {true, &commands.DeleteInventory{Provider: c.host, Class: "VCPU"}, nil, false},
		"all is taken":                 {true, taken(8), nil, false},
		"something is taken":           {false, taken(7), nil, false},
		"another provider":             {false, traits(c.other), nil, false},
		"name":                         {false, &commands.RenameProvider{Provider: c.host, Name: "renamed"}, nil, false},
		"the other consumer has moved": {true, again(commandstest.Allocate(c.near, c.other, "DISK_GB", 1)), near, false},
		"the other consumer has grown": {false, again(commandstest.Allocate(c.near, c.host, "DISK_GB", 2)), near, false},
		"the preference of its name":   {true, gold(demand.OrderSpread), &demand.ClaimPreference{Name: "gold"}, false},
	}
}

func gold(order string) commands.Command {
	return &commands.SetPreference{Name: "gold", Prefer: &demand.ClaimPreference{Order: order}}
}

// TestOutdated: what was found for a claim is taken only if its providers, and those
// above them, still are as the search saw them, but for what is used, if what is
// required about other consumers is still true, and if its preference is still the same.
func TestOutdated(t *testing.T) {
	t.Parallel()
	for name := range new(changing).outdatings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world := newChanging(t)
			one, asked := world.outdatings()[name], cores(1)
			if one.alone {
				asked = map[string]int64{"MEMORY_MB": 1}
			}
			claim := claimOf(commandstest.NewID(), asked)
			claim.Prefer = one.prefer
			before := fork(t, world.Ledger)
			found, rejection := claiming.InState(before, &claim.Claim)
			if rejection != nil {
				t.Fatal(rejection)
			}
			found.Last = false // it may be searched again
			with := commands.WithFound(claim, []*demand.Found{found})
			if _, rejection := commands.Decide(commands.Submission{Command: with}, before); rejection != nil {
				t.Errorf("nothing has changed: %v", rejection)
			}
			world.Accept(t, one.change)
			_, rejection = commands.Decide(commands.Submission{Command: with}, fork(t, world.Ledger))
			if got := codeOf(rejection); one.outdated != (got == demand.CodeClaimOutdated) || !one.outdated && got != "" {
				t.Errorf("it has changed: %q", got)
			}
		})
	}
}
