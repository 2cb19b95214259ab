package commands_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// A card below the spare host shares its slices out among two profiles.
var card, oneSlice, threeSlices = id("card"), id("oneSlice"), id("threeSlices")

// withCard is the world with the card, as testdata/decide/counters.txt makes it.
func withCard(t testing.TB) *world {
	t.Helper()
	for _, row := range readPage(t, "testdata/decide/counters.txt").rows(t) {
		if row.about == "all of a counter" {
			return newWorld(t, row.before...)
		}
	}
	t.Fatal("there is no row about all of a counter")
	return nil
}

// TestCountersNeverExceeded plays random commands: what is drawn from a counter is the sum over all that
// find it above them, and only a change of providers or counters leaves more drawn than there is.
func TestCountersNeverExceeded(t *testing.T) {
	t.Parallel()
	grown, refused := map[string]int{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := withCard(t)
		for range 40 {
			c := rapid.SampledFrom([]func(*rapid.T) commands.Command{
				randomDrawing, randomDrawing, commandstest.RandomProviderCommand,
			}).Draw(rt, "command")(rt)
			before := drawnFrom(w.State())
			if _, r := w.carry(c); r != nil && r.Code == demand.CodeCapacityExceeded && *r.Facts.Provider == card {
				refused[commands.NameOf(c)]++
			}
			for key, drawn := range drawnFrom(w.State()) {
				if known := ledger.Drawn(w.State(), key.provider, key.counter, nil); known != drawn.amount {
					rt.Fatalf("%d are drawn from %s of %s, and not %d", drawn.amount, key.counter, key.provider, known)
				}
				if drawn.amount <= before[key].amount || !commands.OnlyHoldings(commands.NameOf(c)) {
					continue
				}
				if grown[commands.NameOf(c)]++; drawn.amount > drawn.total {
					rt.Fatalf("after %s %d of %d are drawn", commands.NameOf(c), drawn.amount, drawn.total)
				}
			}
		}
	})
	if name := "AllocateForConsumers"; !ledgertest.Raced && (grown[name] == 0 || refused[name] == 0) {
		t.Errorf("grown by %v, refused %v", grown, refused)
	}
}

// randomDrawing draws an allocation of a profile, or other counters of the card.
func randomDrawing(rt *rapid.T) commands.Command {
	if rapid.IntRange(0, 9).Draw(rt, "other counters") == 0 {
		return &commands.ReplaceProviderCounters{Provider: card, Counters: []ledger.Counter{
			{Name: "COMPUTE", Total: rapid.Int64Range(0, 9).Draw(rt, "total")},
			{Name: "MEMORY", Total: 8}, {Name: "MODE", Total: 1},
		}}
	}
	c := allocations(allocate(
		ledgertest.ID(2, byte(rapid.IntRange(40, 43).Draw(rt, "consumer"))),
		rapid.SampledFrom([]ledger.UUID{oneSlice, threeSlices}).Draw(rt, "profile"),
		rapid.SampledFrom([]string{used, free}).Draw(rt, "class"), rapid.Int64Range(1, 4).Draw(rt, "amount"),
	))
	c.Allocations[0].AnyGeneration = true
	if rapid.IntRange(0, 3).Draw(rt, "none") == 0 {
		c.Allocations[0].Resources = nil
	}
	return c
}

type counterOf struct {
	provider ledger.UUID
	counter  string
}

type drawnOf struct{ amount, total int64 }

// drawnFrom adds up from below, for each counter, what is drawn from it.
func drawnFrom(s *ledger.State) map[counterOf]drawnOf {
	all, modes := make(map[counterOf]drawnOf), make(map[string]bool)
	s.Providers(func(p *ledger.Provider) bool {
		for _, c := range p.Counters {
			key := counterOf{p.UUID, c.Name}
			all[key] = drawnOf{all[key].amount, c.Total}
		}
		for _, d := range p.Draws {
			inv, _ := p.Inventory(d.Class)
			top, found := ledger.CounterAbove(s, p.Parent, d.Counter)
			if !found || inv.Used == 0 {
				continue
			}
			key := counterOf{top.UUID, d.Counter}
			sum := all[key]
			if mode := fmt.Sprint(key, d.Mode); d.Mode == "" {
				sum.amount += inv.Used * d.Amount
			} else if !modes[mode] {
				modes[mode] = true
				sum.amount++
			}
			all[key] = sum
		}
		return true
	})
	return all
}
