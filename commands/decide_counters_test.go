package commands_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// A card below the spare host shares its slices out among two profiles.
var (
	card, oneSlice, threeSlices = ledgertest.ID(1, 31), ledgertest.ID(1, 32), ledgertest.ID(1, 33)

	slices7 = []ledger.Counter{{Name: "COMPUTE", Total: 7}, {Name: "MEMORY", Total: 8}, {Name: "MODE", Total: 1}}
	fewer   = []ledger.Counter{{Name: "COMPUTE", Total: 1}, slices7[1], slices7[2]}
)

func counters(
	provider ledger.UUID, list []ledger.Counter, draws ...ledger.DrawRecord,
) *commands.ReplaceProviderCounters {
	return &commands.ReplaceProviderCounters{Provider: provider, Counters: list, Draws: draws}
}

func draws(class, counter string, amount int64) ledger.DrawRecord {
	return ledger.DrawRecord{Class: class, Counter: counter, Amount: amount}
}

func modeOf(class, mode string) ledger.DrawRecord {
	return ledger.DrawRecord{Class: class, Counter: "MODE", Amount: 1, Mode: mode}
}

// cards are commands that make the card and its profiles: a oneSlice one draws 1 and 1, a threeSlices one 3 and 4.
func cards(more ...commands.Command) []commands.Command {
	return append(steps{
		&commands.CreateProvider{Provider: card, Name: "card", Parent: spare},
		&commands.CreateProvider{Provider: oneSlice, Name: "small", Parent: card},
		&commands.CreateProvider{Provider: threeSlices, Name: "large", Parent: card},
		&commands.ReplaceInventories{Provider: oneSlice, Inventories: []commands.Inventory{{Class: used, Total: 7}}},
		&commands.ReplaceInventories{Provider: threeSlices, Inventories: []commands.Inventory{
			{Class: used, Total: 2}, {Class: free, Total: 2},
		}},
		counters(card, slices7),
		counters(oneSlice, nil, draws(used, "COMPUTE", 1), draws(used, "MEMORY", 1), modeOf(used, "MIG")),
		counters(threeSlices, nil, draws(used, "COMPUTE", 3), draws(used, "MEMORY", 4), modeOf(used, "MIG"), modeOf(free, "WHOLE")),
	}, more...)
}

func exceeded(name string, asked, total, drawn int64) string {
	return rejected(demand.CodeCapacityExceeded, demand.Facts{
		Provider: &card, Class: name, Asked: asked, Total: total, Ratio: 1, Used: drawn,
	})
}

// counterDecisions are about counters, what draws from them, and what they admit.
func counterDecisions() []decision {
	set := func(p ledger.UUID, generation int64, list []ledger.Counter, draws ...ledger.DrawRecord) string {
		return happens(ledger.ProviderCountersReplaced{
			Provider: p, Generation: generation, Counters: list, Draws: draws,
		})
	}
	unknown := func(p ledger.UUID, name string) string {
		return rejected(demand.CodeCounterUnknown, demand.Facts{Provider: &p, Name: name})
	}
	inUse := rejected(demand.CodeCounterInUse, demand.Facts{Provider: &card, Name: "COMPUTE"})
	backwards := []ledger.Counter{slices7[2], slices7[1], slices7[0]}
	return append([]decision{
		{"sorted", nil, counters(spare, backwards), set(spare, 1, slices7)},
		{"as they are, and the generation moves", cards(), counters(card, slices7), set(card, 2, slices7)},
		{"fewer than are drawn", cards(allocations(allocate(gone, oneSlice, used, 2))), counters(card, fewer),
			set(card, 2, fewer)},
		{"none, that are drawn from", cards(), counters(card, slices7[1:]), inUse},
		{"none, where one above has it", cards(counters(spare, slices7)), counters(card, slices7[1:]),
			set(card, 2, slices7[1:])},
		{"none, of what its children no more draw from", cards(counters(oneSlice, nil), counters(threeSlices, nil)),
			counters(card, nil), set(card, 2, nil)},
		{"draws of no class", cards(), counters(oneSlice, nil, draws(none, "COMPUTE", 1)),
			"class_unknown{Class:CUSTOM_NONE}"},
		{"draws from no counter", cards(), counters(oneSlice, nil, draws(used, "OTHER", 1)), unknown(oneSlice, "OTHER")},
		{"draws from its own counter", cards(), counters(card, slices7, draws(used, "MEMORY", 1)), unknown(card, "MEMORY")},
		{"an old generation", cards(), &commands.ReplaceProviderCounters{Provider: card, Generation: ptr[int64](0)},
			providerConflict(card, 1, 0)},
		{"a counter twice", nil, counters(spare, []ledger.Counter{slices7[0], slices7[0]}), invalid("counters")},
		{"a name that is none", nil, counters(spare, []ledger.Counter{{Name: "a b"}}), invalid("counters")},
		{"a total below 0", nil, counters(spare, []ledger.Counter{{Name: "A", Total: -1}}), invalid("counters")},
		{"too many", nil, counters(spare, make([]ledger.Counter, 65)), invalid("counters")},
		{"draws from itself", nil, counters(spare, nil, draws("A", "A", 1)), invalid("draws")},
		{"draws twice", nil, counters(spare, nil, draws("B", "A", 1), draws("B", "A", 1)), invalid("draws")},
		{"draws nothing", nil, counters(spare, nil, draws("B", "A", 0)), invalid("draws")},
		{"draws of no name", nil, counters(spare, nil, draws("", "A", 1)), invalid("draws")},
		{"draws from no name", nil, counters(spare, nil, draws("B", "", 1)), invalid("draws")},
		{"a mode that is none", nil,
			counters(spare, nil, ledger.DrawRecord{Class: "B", Counter: "A", Amount: 1, Mode: "x y"}), invalid("draws")},
		{"a mode with an amount", nil,
			counters(spare, nil, ledger.DrawRecord{Class: "B", Counter: "A", Amount: 2, Mode: "M"}), invalid("draws")},
		{"away from what it draws from", cards(), &commands.ReparentProvider{Provider: oneSlice, Parent: rack},
			unknown(oneSlice, "COMPUTE")},
	}, drawnDecisions()...)
}

// drawnDecisions are what consumers may draw.
func drawnDecisions() []decision {
	gets := func(p ledger.UUID, class string, amount, generation int64) string {
		return happens(replaced(allocate(gone, p, class, amount)), advanced(p, generation))
	}
	three := allocations(allocate(ledgertest.ID(2, 90), oneSlice, used, 3))
	return []decision{
		{"all of a counter", cards(), allocations(allocate(gone, oneSlice, used, 7)), gets(oneSlice, used, 7, 3)},
		{"a mix that fits", cards(three), allocations(allocate(gone, threeSlices, used, 1)), gets(threeSlices, used, 1, 3)},
		{"a mix that does not", cards(three), allocations(allocate(gone, threeSlices, used, 2)),
			exceeded("COMPUTE", 6, 7, 3)},
		{"another mode", cards(three), allocations(allocate(gone, threeSlices, free, 1)), exceeded("MODE", 1, 1, 1)},
		{"the same mode twice", cards(), allocations(allocate(gone, threeSlices, free, 2)), gets(threeSlices, free, 2, 3)},
		{"the other mode, instead", cards(allocations(allocate(gone, oneSlice, used, 3))),
			allocations(regenerated(allocate(gone, threeSlices, free, 1))), gets(threeSlices, free, 1, 3)},
		{"less, of what is drawn too much", cards(allocations(allocate(gone, oneSlice, used, 5)), counters(card, fewer)),
			allocations(regenerated(allocate(gone, oneSlice, used, 4))), gets(oneSlice, used, 4, 4)},
	}
}

// regenerated leaves the consumer's generation unchecked.
func regenerated(a commands.ConsumerAllocations) commands.ConsumerAllocations {
	a.AnyGeneration, a.Generation = true, nil
	return a
}

// TestCountersNeverExceeded plays random commands: what is drawn from a counter is the sum over all that
// find it above them, and only a change of providers or counters leaves more drawn than there is.
func TestCountersNeverExceeded(t *testing.T) {
	t.Parallel()
	grown, refused := map[string]int{}, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, cards()...)
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
		c := counters(card, slices.Clone(slices7))
		c.Counters[0].Total = rapid.Int64Range(0, 9).Draw(rt, "total")
		return c
	}
	c := allocations(regenerated(allocate(
		ledgertest.ID(2, byte(rapid.IntRange(40, 43).Draw(rt, "consumer"))),
		rapid.SampledFrom([]ledger.UUID{oneSlice, threeSlices}).Draw(rt, "profile"),
		rapid.SampledFrom([]string{used, free}).Draw(rt, "class"), rapid.Int64Range(1, 4).Draw(rt, "amount"),
	)))
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

// TestReservedSlices: what a reservation holds is drawn from its counters already, so a claim that draws on
// it gets all of it, also where the inventory has more units than the counters allow.
func TestReservedSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cards(
		&commands.ReplaceInventories{Provider: oneSlice, Inventories: []commands.Inventory{{Class: used, Total: 20}}},
		reserve(60, allocate(gone, oneSlice, used, 5)), allocations(allocate(ledgertest.ID(2, 90), oneSlice, used, 2)),
	)...)
	c := claim(map[string]int64{used: 5}, fresh)
	c.For[0].FromReservation = &gone
	if _, rejection := w.carry(c); rejection != nil {
		t.Fatal(rejection)
	}
	if drawn := ledger.Drawn(w.State(), card, "COMPUTE", nil); drawn != 7 {
		t.Errorf("%d slices are drawn, and not 7", drawn)
	}
}
