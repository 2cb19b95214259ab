package commandstest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// steps are by how much the clock goes on, or back, between two commands.
var steps = []time.Duration{
	0, 0, 1, time.Millisecond, time.Second, time.Minute, 7 * time.Hour, 40 * 24 * time.Hour, -time.Hour,
}

// someOwnNodes belong to a project each.
var someOwnNodes = ids(7, 2)

// RandomCommits draws a log: commits of several records about some entities that come and
// go, at times of a clock that stops and steps. At most n commits follow upon the first.
func RandomCommits(t *rapid.T, n int) (log []*ledger.Commit) {
	begin := Must(commands.NewAddStandardNames(ledger.UUID{1}))
	clock := time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC)
	state, builder, ids := ledger.NewState(), ledger.NewCommitBuilder(), byte(0)
	commit := func(list ...commands.Command) {
		state.Begin()
		builder.Begin(state.Head())
		changed := make(map[ledger.UUID]bool)
		for _, c := range list {
			clock = clock.Add(rapid.SampledFrom(steps).Draw(t, "step"))
			ids++
			r := ledger.Record{
				CommandID: ledger.UUID{2, ids, byte(len(log)), byte(builder.Len())}, Command: commands.NameOf(c),
				Time: max(state.LastTime(), clock.UnixNano()), Actor: "random",
			}
			events, rejection := commands.DecideChecked(commands.Submission{
				Actor: "random", Command: commands.Searching(c, claiming.InState),
			}, state)
			twice := slices.ContainsFunc(ledger.ConsumersChanged(events), func(id ledger.UUID) bool { return changed[id] })
			if rejection != nil || len(events) == 0 || twice {
				continue
			}
			for _, id := range ledger.ConsumersChanged(events) {
				changed[id] = true
			}
			r.Events = events
			ledgertest.OK(t, state.Apply(builder.Sequence(), &r))
			if _, _, err := builder.Add(r, 1<<30); err != nil {
				t.Fatal(err)
			}
		}
		if builder.Len() == 0 {
			return
		}
		sealed, _, err := builder.Seal()
		ledgertest.OK(t, err)
		state.Advance(sealed.Head())
		log = append(log, sealed)
	}
	commit(begin)
	commit(SomeThings()...)
	for i, id := range someOwnNodes {
		driver, owner, class := "fake", someTexts["Project"][i], someTexts["ResourceClass"][i]
		commit(&commands.CreateNode{
			Node: id, NodeFields: commands.NodeFields{Driver: &driver, Owner: &owner, ResourceClass: &class},
			ProvisionState: "active",
		})
	}
	holding := rapid.Custom(randomHolding)
	draw := rapid.OneOf(holding, holding, holding, rapid.Custom(RandomNodeCommand), rapid.Custom(RandomProviderCommand))
	for range n {
		commit(rapid.SliceOfN(draw, 1, 8).Draw(t, "commands")...)
	}
	return log
}

// randomHolding draws a command that changes what is held, or what can be, and that fits
// what there is as a rule.
func randomHolding(t *rapid.T) commands.Command {
	provider := rapid.SampledFrom(someProviders[:3]).Draw(t, "provider")
	consumer := rapid.SampledFrom(someConsumers).Draw(t, "consumer")
	switch rapid.SampledFrom([]int{0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8}).Draw(t, "what") {
	case 0:
		return &commands.ReleaseConsumer{Consumer: consumer}
	case 1:
		return &commands.UpdateInventory{Provider: provider, Inventory: commands.Inventory{
			Class: "VCPU", Total: rapid.Int64Range(1, 9).Draw(t, "total"),
		}}
	case 2:
		ratio := rapid.SampledFrom([]float64{0.5, 1, 16, ledger.MaxAllocRatio}).Draw(t, "ratio")
		return &commands.ReplaceInventories{Provider: provider, Inventories: []commands.Inventory{
			{Class: "VCPU", Total: 9, Ratio: &ratio},
		}}
	case 3:
		return &commands.ReplaceInventories{Provider: provider, Inventories: []commands.Inventory{
			{Class: "VCPU", Total: 9, Reserved: 1}, {Class: "MEMORY_MB", Total: 9},
		}}
	case 4:
		if rapid.Bool().Draw(t, "moved") {
			return &commands.ReparentProvider{
				Provider: provider, Parent: rapid.SampledFrom(someProviders[:3]).Draw(t, "parent"),
			}
		}
		return &commands.Batch{Commands: []commands.Command{
			&commands.DeleteProvider{Provider: provider}, &commands.CreateProvider{Provider: provider, Name: provider.String()},
		}}
	case 5, 6:
		i := rapid.IntRange(0, len(someOwnNodes)-1).Draw(t, "node")
		return &commands.BackfillNodeAllocation{
			Node: someOwnNodes[i], NewAllocation: consumer,
			NodeRequest: commands.NodeRequest{Owner: someTexts["Project"][i], ResourceClass: someTexts["ResourceClass"][i]},
		}
	case 7:
		if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
			return draw(t, []string{"RenameResourceClass"})
		}
		return &commands.ReleaseNodeAllocation{Allocation: consumer}
	}
	class := rapid.SampledFrom([]string{"VCPU", "VCPU", "MEMORY_MB", "CUSTOM_B"}).Draw(t, "class")
	held := Allocate(consumer, provider, class, rapid.Int64Range(1, 4).Draw(t, "amount"))
	kind := drawText(t, "Type")
	one := &held.Allocations[0]
	one.Project, one.User, one.Type = drawText(t, "Project"), rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user"), &kind
	if one.AnyGeneration = true; rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
		return &commands.Reserve{Allocations: held.Allocations, Seconds: 60}
	}
	return held
}

// SomeProvider is one of the providers of random commands.
func SomeProvider(i int) ledger.UUID { return someProviders[i] }
