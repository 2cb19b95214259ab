package claiming_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

const vcpu = "VCPU"

// searchOf searches among providers, whose class 0 has a name, while no one holds anything.
func searchOf(class string, providers []*ledger.Provider) *claiming.Search {
	return &claiming.Search{
		Ranking: candidates.NewRanking(candidates.NewWorld(providers)), Seed: 7,
		Classes:  ledger.NewClassTable([]ledger.Class{{ID: 0, Name: class}}),
		Consumer: func(ledger.UUID) (*ledger.Consumer, error) { return nil, nil },
	}
}

// units is an inventory of so many units of class 0.
func units(total int64) []ledger.Inventory {
	return []ledger.Inventory{{Class: 0, Total: total, MinUnit: 1, MaxUnit: total, StepSize: 1, Ratio: 1}}
}

// crowd is a small world of providers for gangs.
type crowd []*ledger.Provider

func drawCrowd(rt *rapid.T) (all crowd) {
	for i := range rapid.IntRange(2, 6).Draw(rt, "providers") {
		p := &ledger.Provider{UUID: ledgertest.ID(1, byte(i+1)), CreatedAt: int64(i)}
		p.Root = p.UUID
		if i > 0 && rapid.IntRange(0, 2).Draw(rt, "child") == 0 {
			parent := all[rapid.IntRange(0, i-1).Draw(rt, "parent")]
			p.Parent, p.Root = parent.UUID, parent.Root
		}
		if rapid.IntRange(0, 9).Draw(rt, "shares") == 0 {
			p.Traits = []string{candidates.SharingTrait}
		}
		for a := range byte(3) {
			if rapid.IntRange(0, 2).Draw(rt, "aggregate") == 0 {
				p.Aggregates = append(p.Aggregates, ledgertest.ID(3, a+1))
			}
		}
		p.Inventories = units(rapid.Int64Range(1, 6).Draw(rt, "total"))
		p.Inventories[0].MaxUnit = 6
		all = append(all, p)
	}
	return all
}

// with is the same world with something taken.
func (all crowd) with(uses []candidates.Use) (out crowd) {
	for _, p := range all {
		other := *p
		other.Inventories = slices.Clone(p.Inventories)
		for _, use := range uses {
			if use.Provider.UUID == p.UUID {
				other.Inventories[0].Used += use.Amount
			}
		}
		out = append(out, &other)
	}
	return out
}

func (all crowd) find(id ledger.UUID) *ledger.Provider {
	i := slices.IndexFunc(all, func(p *ledger.Provider) bool { return p.UUID == id })
	return all[i]
}

// places are what a rule calls the places of a member.
func (all crowd) places(rule demand.GangRule, member candidates.Ranked) (places []ledger.UUID) {
	for _, group := range member.Groups {
		for _, p := range group {
			if slices.Contains(p.Traits, candidates.SharingTrait) {
				continue
			}
			switch rule.By {
			case "provider":
				places = append(places, p.UUID)
			case "tree":
				places = append(places, p.Root)
			case "aggregate":
				for _, id := range slices.Concat(p.Aggregates, all.find(p.Root).Aggregates) {
					if len(rule.Among) == 0 || slices.Contains(rule.Among, id) {
						places = append(places, id)
					}
				}
			}
		}
	}
	return places
}

// obeys judges a whole gang by what a rule says.
func (all crowd) obeys(rule demand.GangRule, members []candidates.Ranked) bool {
	var places [][]ledger.UUID
	for _, m := range members {
		places = append(places, all.places(rule, m))
	}
	switch rule.Rule {
	case "together":
		return slices.ContainsFunc(places[0], func(id ledger.UUID) bool {
			return !slices.ContainsFunc(places, func(theirs []ledger.UUID) bool { return !slices.Contains(theirs, id) })
		})
	case "apart":
		for i := range places {
			for j := range i {
				if slices.ContainsFunc(places[i], func(id ledger.UUID) bool { return slices.Contains(places[j], id) }) {
					return false
				}
			}
		}
		return true
	}
	return mostApart(places, nil) >= rule.Spread.Places
}

// mostApart is how many members can have a place of their own, by trying all ways.
func mostApart(places [][]ledger.UUID, taken []ledger.UUID) int {
	if len(places) == 0 {
		return 0
	}
	most := mostApart(places[1:], taken)
	for _, id := range places[0] {
		if !slices.Contains(taken, id) {
			most = max(most, 1+mostApart(places[1:], append(slices.Clone(taken), id)))
		}
	}
	return most
}

// first tries all candidates of all members, the best of the first first, and judges only whole gangs.
func (all crowd) first(
	rt *rapid.T, c *demand.Claim, reqs []*candidates.Request, prefs []*candidates.Preference,
	members []candidates.Ranked,
) []candidates.Ranked {
	if len(members) == len(c.For) {
		if slices.ContainsFunc(c.Gang, func(rule demand.GangRule) bool { return !all.obeys(rule, members) }) {
			return nil
		}
		return members
	}
	var uses []candidates.Use
	for _, m := range members {
		uses = append(uses, m.Uses...)
	}
	at := c.For[len(members)].Request
	world := candidates.NewWorld(all.with(uses))
	best, _, err := candidates.Page(context.Background(), world, reqs[at], prefs[at], 1000, nil)
	ledgertest.OK(rt, err)
	for _, one := range best {
		if whole := all.first(rt, c, reqs, prefs, append(slices.Clone(members), one)); whole != nil {
			return whole
		}
	}
	return nil
}

func drawGang(rt *rapid.T) *demand.Claim {
	c := &demand.Claim{}
	for i := range rapid.IntRange(2, 4).Draw(rt, "members") {
		c.For = append(c.For, demand.ClaimConsumer{Consumer: ledgertest.ID(2, byte(i+1)), Project: "p", User: "u"})
	}
	c.Requests = []demand.CandidateRequest{{
		Groups: []demand.RequestGroup{{Resources: map[string]int64{vcpu: rapid.Int64Range(1, 3).Draw(rt, "amount")}}},
	}}
	if rapid.IntRange(0, 3).Draw(rt, "another") == 0 {
		c.Requests = append(c.Requests, demand.CandidateRequest{Groups: []demand.RequestGroup{
			{Suffix: "_1", Resources: map[string]int64{vcpu: 1}}, {Suffix: "_2", Resources: map[string]int64{vcpu: 1}},
		}})
		c.For[len(c.For)-1].Request = 1
	}
	for range rapid.IntRange(1, 2).Draw(rt, "rules") {
		rule := demand.GangRule{
			By:   rapid.SampledFrom([]string{"provider", "tree", "aggregate"}).Draw(rt, "by"),
			Rule: rapid.SampledFrom([]string{"together", "apart", "spread"}).Draw(rt, "rule"),
		}
		if rule.Rule == "spread" {
			rule.Spread.Places = rapid.IntRange(2, len(c.For)).Draw(rt, "spread")
		}
		if rule.By == "aggregate" && rapid.Bool().Draw(rt, "among") {
			rule.Among = []ledger.UUID{ledgertest.ID(3, 1), ledgertest.ID(3, 2)}
		}
		c.Gang = append(c.Gang, rule)
	}
	c.Prefer = &demand.ClaimPreference{Order: rapid.SampledFrom([]string{"", "pack", "spread"}).Draw(rt, "order")}
	return c
}

// TestGangsAgree compares the search for gangs with a model that tries all ways
// and judges whole gangs alone. What the search calls impossible must be so.
func TestGangsAgree(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		all := drawCrowd(rt)
		for range 5 {
			c := drawGang(rt)
			if r := c.Check(); r != nil {
				outcomes["contradictory"]++
				continue
			}
			search := searchOf(vcpu, all)
			found := commandstest.Must(search.Run(context.Background(), c))
			var reqs []*candidates.Request
			var prefs []*candidates.Preference
			for i := range c.Requests {
				req, r := c.Requests[i].Resolve(search.Classes)
				if r != nil {
					rt.Fatal(r)
				}
				pref, r := c.Prefer.Resolve(search.Classes, req, 7)
				if r != nil {
					rt.Fatal(r)
				}
				reqs, prefs = append(reqs, req), append(prefs, pref)
			}
			want := all.first(rt, c, reqs, prefs, nil)
			switch {
			case found.Spent && len(found.Choices) == 0:
				outcomes["spent"]++
			case len(found.Choices) == 0:
				outcomes["impossible"]++
				if want != nil {
					rt.Fatalf("%+v is possible:\n%s", c.Gang, gangText(want))
				}
			default:
				outcomes["found"]++
				if got := gangText(found.Choices[0].Members); want == nil || got != gangText(want) {
					rt.Fatalf("%+v: found\n%s\nwant\n%s", c.Gang, got, gangText(want))
				}
			}
		}
	})
	t.Log(outcomes)
	if outcomes["found"] == 0 || outcomes["impossible"] == 0 {
		t.Errorf("%v", outcomes)
	}
}

func gangText(members []candidates.Ranked) (text string) {
	for _, m := range members {
		for _, use := range m.Uses {
			text += fmt.Sprintf("%s:%d ", use.Provider.UUID, use.Amount)
		}
		text += fmt.Sprintf("scores %v\n", m.Score)
	}
	return text
}

// TestGangOfDevices: each of 64 consumers gets the 8 devices of a host, of 100 that have all
// of theirs among thousands, and each search takes no more steps than are searched in turn.
func TestGangOfDevices(t *testing.T) {
	var hosts []*ledger.Provider
	for h := range 2000 {
		root := &ledger.Provider{UUID: commandstest.NewID(), CreatedAt: int64(len(hosts))}
		root.Root = root.UUID
		hosts = append(hosts, root)
		for i := range 8 {
			p := &ledger.Provider{UUID: commandstest.NewID(), Root: root.UUID, Parent: root.UUID, CreatedAt: int64(len(hosts))}
			p.Inventories = units(1)
			if i == 0 && h%20 > 0 {
				p.Inventories[0].Used = 1
			}
			hosts = append(hosts, p)
		}
	}
	for _, order := range []string{"", demand.OrderPack, demand.OrderSpread, demand.OrderRandom} {
		for _, by := range []string{"", "provider", "tree"} {
			c := commandstest.ClaimOfDevices(8, 64, order)
			if by != "" {
				c.Gang = []demand.GangRule{{By: by, Rule: demand.GangApart}}
			}
			search := searchOf("PGPU", hosts)
			search.MaxSteps, search.Spare, search.Seed = 40_000, 1, 0
			found, err := search.Run(context.Background(), c)
			if err != nil || len(found.Choices) != 1 {
				t.Fatalf("apart by %q, %q: %v", by, order, err)
			}
			taken := map[ledger.UUID]bool{}
			for _, member := range found.Choices[0].Members {
				for _, use := range member.Uses {
					if taken[use.Provider.UUID] || use.Provider.Root != member.Root.UUID {
						t.Fatalf("apart by %q, %q: %s is given twice, or is not of host %s", by, order, use.Provider.UUID, member.Root.UUID)
					}
					taken[use.Provider.UUID] = true
				}
			}
			if len(taken) != 64*8 {
				t.Errorf("apart by %q, %q: %d devices", by, order, len(taken))
			}
		}
	}
}
