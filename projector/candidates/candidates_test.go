package candidates_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

// brute finds candidates without a thought for speed: for every root, every
// way to give each class of each group to any provider of the world, and then
// every rule, one after the other.
func brute(all []*ledger.Provider, req *candidates.Request) []string {
	byID := map[ledger.UUID]*ledger.Provider{}
	for _, p := range all {
		byID[p.UUID] = p
	}
	type slot struct {
		group int
		res   candidates.Resource
	}
	var slots []slot
	for i, g := range req.Groups {
		for _, r := range g.Resources {
			slots = append(slots, slot{i, r})
		}
	}
	found := map[string]bool{}
	for _, root := range all {
		if root.UUID != root.Root {
			continue
		}
		chosen := make([]*ledger.Provider, len(slots))
		var try func(int)
		try = func(i int) {
			if i < len(slots) {
				for _, p := range all {
					if anchored(all, p, root) {
						chosen[i] = p
						try(i + 1)
					}
				}
				return
			}
			sums := map[string]int64{}
			for j, s := range slots {
				sums[fmt.Sprint(chosen[j].UUID, s.res.Class)] += s.res.Amount
			}
			mappings := map[string]map[string]bool{}
			perGroup := make([][]*ledger.Provider, len(req.Groups))
			for j, s := range slots {
				g := req.Groups[s.group]
				p := chosen[j]
				inv, ok := p.Inventory(s.res.Class)
				sum := sums[fmt.Sprint(p.UUID, s.res.Class)]
				if !ok || s.res.Amount < inv.MinUnit || s.res.Amount%inv.StepSize != 0 || sum > inv.MaxUnit || float64(inv.Used+sum) > inv.Capacity() {
					return
				}
				guest := p.Root != root.UUID
				for _, set := range g.MemberOf {
					direct := slices.ContainsFunc(set, func(a ledger.UUID) bool { return slices.Contains(p.Aggregates, a) })
					rooted := slices.ContainsFunc(set, func(a ledger.UUID) bool { return slices.Contains(root.Aggregates, a) })
					if !direct && (g.Suffix != "" || guest || !rooted) {
						return
					}
				}
				for _, name := range g.Forbidden {
					if slices.Contains(p.Traits, name) {
						return
					}
				}
				perGroup[s.group] = append(perGroup[s.group], p)
				if mappings[g.Suffix] == nil {
					mappings[g.Suffix] = map[string]bool{}
				}
				mappings[g.Suffix][p.UUID.String()] = true
			}
			var suffixed []ledger.UUID
			for j, g := range req.Groups {
				for _, set := range g.Required {
					if !slices.ContainsFunc(perGroup[j], func(p *ledger.Provider) bool {
						return slices.ContainsFunc(set, func(name string) bool { return slices.Contains(p.Traits, name) })
					}) {
						return
					}
				}
				if g.Suffix == "" {
					continue
				}
				if len(mappings[g.Suffix]) != 1 {
					return
				}
				if req.Isolate && slices.Contains(suffixed, perGroup[j][0].UUID) {
					return
				}
				suffixed = append(suffixed, perGroup[j][0].UUID)
			}
			found[text(sums, mappings)] = true
		}
		try(0)
	}
	var list []string
	for c := range found {
		list = append(list, c)
	}
	sort.Strings(list)
	return list
}

// anchored: p is in root's tree, or shares an aggregate with a member of it.
func anchored(all []*ledger.Provider, p, root *ledger.Provider) bool {
	if p.Root == root.UUID {
		return true
	}
	if !slices.Contains(p.Traits, candidates.SharingTrait) {
		return false
	}
	for _, member := range all {
		if member.Root == root.UUID && slices.ContainsFunc(member.Aggregates, func(a ledger.UUID) bool { return slices.Contains(p.Aggregates, a) }) {
			return true
		}
	}
	return false
}

func text(sums map[string]int64, mappings map[string]map[string]bool) string {
	var parts []string
	for key, sum := range sums {
		parts = append(parts, fmt.Sprint(key, " ", sum))
	}
	for suffix, ids := range mappings {
		for id := range ids {
			parts = append(parts, suffix+"="+id)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ";")
}

func textOf(c candidates.Candidate) string {
	sums, mappings := map[string]int64{}, map[string]map[string]bool{}
	for _, u := range c.Uses {
		sums[fmt.Sprint(u.Provider.UUID, u.Class)] += u.Amount
	}
	for suffix, ids := range c.Mappings {
		mappings[suffix] = map[string]bool{}
		for _, id := range ids {
			mappings[suffix][id.String()] = true
		}
	}
	return text(sums, mappings)
}

var traits = []string{"A", "B", candidates.SharingTrait}

func drawWorld(rt *rapid.T) []*ledger.Provider {
	n := rapid.IntRange(1, 6).Draw(rt, "providers")
	all := make([]*ledger.Provider, n)
	for i := range all {
		p := &ledger.Provider{UUID: ledgertest.ID(1, byte(i+1))}
		p.Root = p.UUID
		if i > 0 && rapid.Bool().Draw(rt, "child") {
			parent := all[rapid.IntRange(0, i-1).Draw(rt, "parent")]
			p.Parent, p.Root = parent.UUID, parent.Root
		}
		for _, name := range traits {
			if rapid.IntRange(0, 2).Draw(rt, name) == 0 {
				p.Traits = append(p.Traits, name)
			}
		}
		for a := range byte(2) {
			if rapid.IntRange(0, 2).Draw(rt, "aggregate") == 0 {
				p.Aggregates = append(p.Aggregates, ledgertest.ID(3, a+1))
			}
		}
		for class := range ledger.ClassID(3) {
			if rapid.Bool().Draw(rt, "class") {
				p.Inventories = append(p.Inventories, ledger.Inventory{
					Class: class, Total: rapid.Int64Range(1, 5).Draw(rt, "total"), MinUnit: 1, MaxUnit: rapid.Int64Range(1, 5).Draw(rt, "max"),
					StepSize: 1, Ratio: 1, Used: rapid.Int64Range(0, 3).Draw(rt, "used"),
				})
			}
		}
		all[i] = p
	}
	return all
}

func drawRequest(rt *rapid.T) *candidates.Request {
	req := &candidates.Request{Nested: true, Isolate: rapid.Bool().Draw(rt, "isolate"), MaxSteps: 1_000_000}
	for _, suffix := range []string{"", "1", "2"} {
		if len(req.Groups) > 0 && rapid.Bool().Draw(rt, "skip") {
			continue
		}
		g := candidates.Group{Suffix: suffix}
		for class := range ledger.ClassID(3) {
			if class == 0 || rapid.IntRange(0, 3).Draw(rt, "more") == 0 {
				g.Resources = append(g.Resources, candidates.Resource{Class: class, Amount: rapid.Int64Range(1, 3).Draw(rt, "amount")})
			}
		}
		if rapid.IntRange(0, 3).Draw(rt, "required") == 0 {
			g.Required = append(g.Required, rapid.SliceOfNDistinct(rapid.SampledFrom(traits), 1, 2, rapid.ID[string]).Draw(rt, "any"))
		}
		if rapid.IntRange(0, 4).Draw(rt, "forbidden") == 0 {
			g.Forbidden = append(g.Forbidden, rapid.SampledFrom(traits).Draw(rt, "none"))
		}
		if rapid.IntRange(0, 3).Draw(rt, "member") == 0 {
			g.MemberOf = append(g.MemberOf, []ledger.UUID{ledgertest.ID(3, byte(rapid.IntRange(1, 2).Draw(rt, "of")))})
		}
		req.Groups = append(req.Groups, g)
	}
	return req
}

// TestBruteForce compares the search with the obvious one on small worlds.
func TestBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range 20 {
			all, req := drawWorld(rt), drawRequest(rt)
			found, err := candidates.Search(context.Background(), candidates.NewWorld(all), req)
			if err != nil {
				rt.Fatal(err)
			}
			got := make([]string, len(found))
			for i, c := range found {
				got[i] = textOf(c)
			}
			sort.Strings(got)
			if want := brute(all, req); !slices.Equal(got, want) {
				rt.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// TestBudgetAndCancel: a search that explodes ends with an error, and one
// whose client has gone ends, too. A limit ends it early.
func TestBudgetAndCancel(t *testing.T) {
	root := &ledger.Provider{UUID: ledgertest.ID(1, 1), Root: ledgertest.ID(1, 1)}
	all := []*ledger.Provider{root}
	for i := range 20 {
		all = append(all, &ledger.Provider{
			UUID: ledgertest.ID(1, byte(i+2)), Parent: root.UUID, Root: root.UUID,
			Inventories: []ledger.Inventory{{Class: 0, Total: 100, MinUnit: 1, MaxUnit: 100, StepSize: 1, Ratio: 1}},
		})
	}
	req := &candidates.Request{Nested: true, MaxSteps: 100_000}
	for i := range 10 {
		req.Groups = append(req.Groups, candidates.Group{Suffix: fmt.Sprint(i + 1), Resources: []candidates.Resource{{Amount: 1}}})
	}
	world := candidates.NewWorld(all)
	if _, err := candidates.Search(context.Background(), world, req); !errors.Is(err, candidates.ErrBudget) {
		t.Errorf("20 to the power of 10 combinations: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req.MaxSteps = 0
	if _, err := candidates.Search(ctx, world, req); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	req.Limit = 7
	if found, err := candidates.Search(context.Background(), world, req); err != nil || len(found) != 7 {
		t.Errorf("limit 7: %d, %v", len(found), err)
	}
}
