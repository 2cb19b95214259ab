package candidates_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// drawCounters lets some providers have counters, and some classes of those below draw from them.
func drawCounters(all []*ledger.Provider, random *rand.Rand) {
	byID := map[ledger.UUID]*ledger.Provider{}
	for _, p := range all {
		byID[p.UUID] = p
	}
	for _, p := range all {
		if random.IntN(3) == 0 {
			p.Counters = []ledger.Counter{{Name: "MODE", Total: 1}, {Name: "SLICE", Total: int64(random.IntN(7))}}
		}
		for _, inv := range p.Inventories {
			if above(byID, p, "SLICE") != nil && random.IntN(2) == 0 {
				p.Draws = append(p.Draws, ledger.Draw{Class: inv.Class, Counter: "SLICE", Amount: 1 + int64(random.IntN(3))})
			}
			if above(byID, p, "MODE") != nil && random.IntN(6) == 0 {
				p.Draws = append(p.Draws, ledger.Draw{Class: inv.Class, Counter: "MODE", Amount: 1, Mode: fmt.Sprint(random.IntN(2))})
			}
		}
		slices.SortFunc(p.Draws, func(a, b ledger.Draw) int {
			return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Counter, b.Counter))
		})
	}
}

// above is the nearest provider above that has a counter.
func above(byID map[ledger.UUID]*ledger.Provider, p *ledger.Provider, name string) *ledger.Provider {
	for p = byID[p.Parent]; p != nil; p = byID[p.Parent] {
		for _, c := range p.Counters {
			if c.Name == name {
				return p
			}
		}
	}
	return nil
}

type counterOf struct {
	provider ledger.UUID
	name     string
}

// drawnFrom adds up what is drawn from each counter when sums more are used.
func drawnFrom(
	all []*ledger.Provider, byID map[ledger.UUID]*ledger.Provider, sums map[useKey]int64,
) map[counterOf]int64 {
	drawn, modes := map[counterOf]int64{}, map[string]bool{}
	for _, p := range all {
		for _, d := range p.Draws {
			inv, _ := p.Inventory(d.Class)
			used := inv.Used + sums[useKey{p.UUID, d.Class}]
			key := counterOf{above(byID, p, d.Counter).UUID, d.Counter}
			if mode := fmt.Sprint(key, d.Mode); d.Mode == "" {
				drawn[key] += used * d.Amount
			} else if used > 0 && !modes[mode] {
				modes[mode] = true
				drawn[key]++
			}
		}
	}
	return drawn
}

// countersHold reports whether no counter gives more than it has.
func countersHold(all []*ledger.Provider, byID map[ledger.UUID]*ledger.Provider, sums map[useKey]int64) bool {
	before := drawnFrom(all, byID, nil)
	for key, drawn := range drawnFrom(all, byID, sums) {
		for _, c := range byID[key.provider].Counters {
			if c.Name == key.name && drawn > c.Total && drawn > before[key] {
				return false
			}
		}
	}
	return true
}
