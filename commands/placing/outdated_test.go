package placing_test

import (
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
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
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	disk, vcpu := commands.Inventory{Class: "DISK_GB", Total: 100}, commands.Inventory{Class: "VCPU", Total: 8}
	c := &changing{
		Ledger: l, root: l.Provider(t, "root"), host: l.Provider(t, "host", vcpu, disk), other: l.Provider(t, "other", disk),
		alone: l.Provider(t, "alone", commands.Inventory{Class: "MEMORY_MB", Total: 8}), near: commandstest.NewID(),
	}
	l.Accept(t, &commands.CreateTrait{Name: changingTrait})
	l.Accept(t, &commands.ReparentProvider{Provider: c.host, Parent: c.root})
	l.Accept(t, commandstest.Allocate(c.near, c.host, "DISK_GB", 1))
	return c
}

// again is a command for a consumer that holds something.
func again(c *commands.AllocateForConsumers) *commands.AllocateForConsumers {
	c.Allocations[0].AnyGeneration = true
	return c
}

// TestOutdated: what was found for a claim is taken only if its providers, and those
// above them, still are as the search saw them, but for what is used, if what is
// required about other consumers is still true, and if its preference is still the same.
func TestOutdated(t *testing.T) {
	t.Parallel()
	aggregate := commandstest.NewID()
	for _, c := range []struct {
		name     string
		change   func(*changing) commands.Command
		strict   bool // the claim must be near a consumer
		alone    bool // the claim is for memory
		named    bool // the claim's preference has a name
		outdated bool
	}{
		{name: "traits", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderTraits{Provider: c.host, Traits: []string{changingTrait}}
		}},
		{name: "traits of the root", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderTraits{Provider: c.root, Traits: []string{changingTrait}}
		}},
		{name: "aggregates", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderAggregates{Provider: c.host, Aggregates: []ledger.UUID{aggregate}}
		}},
		{name: "aggregates of the root", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderAggregates{Provider: c.root, Aggregates: []ledger.UUID{aggregate}}
		}},
		{name: "parent", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReparentProvider{Provider: c.host, Parent: c.other}
		}},
		{name: "root", outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReparentProvider{Provider: c.root, Parent: c.other}
		}},
		{name: "traits of one that is alone", alone: true, outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderTraits{Provider: c.alone, Traits: []string{changingTrait}}
		}},
		{name: "it is in a tree now", alone: true, outdated: true, change: func(c *changing) commands.Command {
			return &commands.ReparentProvider{Provider: c.alone, Parent: c.root}
		}},
		{name: "inventory is gone", outdated: true, change: func(c *changing) commands.Command {
			return &commands.DeleteInventory{Provider: c.host, Class: "VCPU"}
		}},
		{name: "all is taken", outdated: true, change: func(c *changing) commands.Command {
			return commandstest.Allocate(commandstest.NewID(), c.host, "VCPU", 8)
		}},
		{name: "something is taken", change: func(c *changing) commands.Command {
			return commandstest.Allocate(commandstest.NewID(), c.host, "VCPU", 7)
		}},
		{name: "another provider", change: func(c *changing) commands.Command {
			return &commands.ReplaceProviderTraits{Provider: c.other, Traits: []string{changingTrait}}
		}},
		{name: "name", change: func(c *changing) commands.Command {
			return &commands.RenameProvider{Provider: c.host, Name: "renamed"}
		}},
		{name: "the other consumer has moved", strict: true, outdated: true, change: func(c *changing) commands.Command {
			return again(commandstest.Allocate(c.near, c.other, "DISK_GB", 1))
		}},
		{name: "the other consumer has grown", strict: true, change: func(c *changing) commands.Command {
			return again(commandstest.Allocate(c.near, c.host, "DISK_GB", 2))
		}},
		{name: "the preference of its name", named: true, outdated: true, change: func(*changing) commands.Command {
			return &commands.SetPreference{Name: "gold", Prefer: &demand.ClaimPreference{Order: demand.OrderSpread}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			world := newChanging(t)
			class := "VCPU"
			if c.alone {
				class = "MEMORY_MB"
			}
			claim := claimOf(commandstest.NewID(), map[string]int64{class: 1})
			if c.strict {
				claim.Prefer = &demand.ClaimPreference{
					Near: []demand.NearConsumers{{Consumers: []ledger.UUID{world.near}, By: "provider", Rule: "require"}},
				}
			}
			if c.named {
				world.Accept(t, &commands.SetPreference{Name: "gold", Prefer: &demand.ClaimPreference{Order: demand.OrderPack}})
				claim.Prefer = &demand.ClaimPreference{Name: "gold"}
			}
			want := demand.Code("")
			if c.outdated {
				want = demand.CodeClaimOutdated
			}
			if got := codeOf(decidedAfter(t, world.Ledger, claim, c.change(world))); got != want {
				t.Errorf("it has changed: %q, want %q", got, want)
			}
		})
	}
}
