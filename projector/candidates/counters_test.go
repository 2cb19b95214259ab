package candidates_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
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

// slicedHosts are hosts of cards with 7 compute and 8 memory slices. Of each profile a card has an
// inventory, in one provider below it or each in one of its own.
func slicedHosts(hosts, cards int, apart bool) (all []*ledger.Provider) {
	add := func(parent *ledger.Provider) *ledger.Provider {
		p := &ledger.Provider{UUID: ledger.UUID{byte(len(all) >> 8), byte(len(all)), 1}, CreatedAt: int64(len(all))}
		if p.Root = p.UUID; parent != nil {
			p.Parent, p.Root = parent.UUID, parent.Root
		}
		all = append(all, p)
		return p
	}
	for range hosts {
		host := add(nil)
		for range cards {
			card := add(host)
			card.Counters = []ledger.Counter{{Name: "COMPUTE", Total: 7}, {Name: "MEMORY", Total: 8}}
			below := add(card)
			for class, each := range [][2]int64{{1, 1}, {2, 2}, {3, 4}, {4, 4}, {7, 8}} {
				if apart && class > 0 {
					below = add(card)
				}
				id := ledger.ClassID(class)
				below.Inventories = append(below.Inventories, inventory(id, 7/each[0], 0))
				below.Draws = append(below.Draws, ledger.Draw{Class: id, Counter: "COMPUTE", Amount: each[0]},
					ledger.Draw{Class: id, Counter: "MEMORY", Amount: each[1]})
			}
		}
	}
	return all
}

// TestMixesOfSlices: whether some mix of profiles fits several cards is known within the steps that
// are searched in turn.
func TestMixesOfSlices(t *testing.T) {
	served := 0
	for seed := range uint64(400) {
		draw := rand.New(rand.NewPCG(seed, 48))
		cards, hosts := 1+draw.IntN(8), 1+draw.IntN(3)
		req := &candidates.Request{Nested: true, MaxSteps: 40_000}
		for g := range min(2+draw.IntN(7*cards/2+1), 16) {
			req.Groups = append(req.Groups, candidates.Group{
				Suffix: fmt.Sprint("_", g), Resources: []candidates.Resource{{Class: ledger.ClassID(draw.IntN(5)), Amount: 1}},
			})
		}
		ranking := candidates.NewRanking(candidates.NewWorld(slicedHosts(hosts, cards, seed%2 == 0)))
		found, err := ranking.Best(context.Background(), req, &candidates.Preference{Once: true}, 1)
		if err != nil {
			t.Errorf("seed %d, %d groups of %d cards: %v", seed, len(req.Groups), cards, err)
		}
		served += len(found)
	}
	if served < 40 || served > 360 {
		t.Errorf("%d of 400 requests were served", served)
	}
}
