package candidates_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

// brute finds candidates without regard to speed: for every root it tries every way to take each class of each group
// from any provider of the world, and then checks every rule.
func brute(all []*ledger.Provider, req *candidates.Request) []string {
	return slices.Sorted(maps.Keys(assignments(all, req)))
}

// assignments are what all candidates use, by their texts.
func assignments(all []*ledger.Provider, req *candidates.Request) map[string]map[useKey]int64 {
	b := bruteForce{all: all, req: req, byID: map[ledger.UUID]*ledger.Provider{}, found: map[string]map[useKey]int64{}}
	for _, p := range all {
		b.byID[p.UUID] = p
		b.nested = b.nested || !p.Parent.IsNil()
	}
	for i, g := range req.Groups {
		for j := range g.Resources {
			b.asked = append(b.asked, choice{i, &g.Resources[j]})
		}
		if len(g.Resources) == 0 {
			b.asked = append(b.asked, choice{i, nil})
		}
	}
	for _, c := range b.asked {
		b.fitting = append(b.fitting, slices.DeleteFunc(slices.Clone(all), func(p *ledger.Provider) bool {
			return c.res != nil && !takes(p, c.res)
		}))
	}
	for _, root := range all {
		if root.UUID == root.Root && carries(root, req.RootRequired) && !carriesAny(root, req.RootForbidden) {
			b.root, b.chosen = root, make([]*ledger.Provider, len(b.asked))
			b.try(0)
		}
	}
	return b.found
}

// choice is a class of a group, for which a provider is chosen.
type choice struct {
	group int
	res   *candidates.Resource // nil: a resourceless group
}

type bruteForce struct {
	all    []*ledger.Provider
	byID   map[ledger.UUID]*ledger.Provider
	nested bool // some providers have parents
	req    *candidates.Request
	asked  []choice
	found  map[string]map[useKey]int64
	// fitting are the providers that could take a choice's amount, per choice.
	fitting [][]*ledger.Provider

	root   *ledger.Provider
	chosen []*ledger.Provider // per choice
}

// try chooses providers for the choices from the ith on, in every way.
func (b *bruteForce) try(i int) {
	if i == len(b.asked) {
		b.judge()
		return
	}
	for _, p := range b.fitting[i] {
		if anchored(b.all, p, b.root) {
			b.chosen[i] = p
			b.try(i + 1)
		}
	}
}

func takes(p *ledger.Provider, r *candidates.Resource) bool {
	inv, has := p.Inventory(r.Class)
	return has && r.Amount <= inv.MaxUnit && float64(inv.Used+r.Amount) <= inv.Capacity()
}

// judge keeps the choices if they break no rule.
func (b *bruteForce) judge() {
	sums := map[useKey]int64{}
	for j, s := range b.asked {
		if s.res != nil {
			sums[useKey{b.chosen[j].UUID, s.res.Class}] += s.res.Amount
		}
	}
	perGroup := make([][]*ledger.Provider, len(b.req.Groups))
	for j, s := range b.asked {
		g, p := b.req.Groups[s.group], b.chosen[j]
		if s.res == nil && len(g.Required)+len(g.MemberOf) == 0 || s.res != nil && !b.offers(j, sums) {
			return
		}
		if !b.inAggregates(j) || carriesAny(p, g.Forbidden) {
			return
		}
		perGroup[s.group] = append(perGroup[s.group], p)
	}
	if !b.groupsHold(perGroup) || !b.subtreesHold(perGroup) || !countersHold(b.all, b.byID, sums) {
		return
	}
	mappings := map[string]map[string]bool{}
	for j, s := range b.asked {
		g, p := b.req.Groups[s.group], b.chosen[j]
		if mappings[g.Suffix] == nil {
			mappings[g.Suffix] = map[string]bool{}
		}
		mappings[g.Suffix][p.UUID.String()] = true
	}
	b.found[text(sums, mappings)] = sums
}

// offers reports whether the jth provider has what the choice needs, and is in a permitted place.
func (b *bruteForce) offers(j int, sums map[useKey]int64) bool {
	res, g, p := b.asked[j].res, b.req.Groups[b.asked[j].group], b.chosen[j]
	inv, ok := p.Inventory(res.Class)
	sum := sums[useKey{p.UUID, res.Class}]
	if !ok || res.Amount < inv.MinUnit || res.Amount%inv.StepSize != 0 ||
		sum > inv.MaxUnit || float64(inv.Used+sum) > inv.Capacity() {
		return false
	}
	if g.InTree != nil {
		u := b.byID[*g.InTree]
		if u == nil || u.Root != p.Root || g.Suffix == "" && p.Root != b.root.UUID {
			return false
		}
	}
	for k, other := range b.asked[:j] {
		if !b.req.Nested && b.nested && other.res != nil && b.chosen[k] != p && b.chosen[k].Root == p.Root {
			return false
		}
	}
	return true
}

// inAggregates reports whether the jth provider is in the aggregates that its
// group requires, and in none that it forbids.
func (b *bruteForce) inAggregates(j int) bool {
	g, p := b.req.Groups[b.asked[j].group], b.chosen[j]
	in := func(p *ledger.Provider) bool {
		in := func(a ledger.UUID) bool { return slices.Contains(p.Aggregates, a) }
		return !slices.ContainsFunc(g.MemberOf, func(set []ledger.UUID) bool { return !slices.ContainsFunc(set, in) })
	}
	if !in(p) && (g.Suffix != "" || p.Root != b.root.UUID || !in(b.root)) {
		return false
	}
	for _, a := range g.NotMemberOf {
		if slices.Contains(p.Aggregates, a) || g.Suffix == "" && slices.Contains(b.root.Aggregates, a) {
			return false
		}
	}
	return true
}

// groupsHold checks the requirements on a group's providers together.
func (b *bruteForce) groupsHold(perGroup [][]*ledger.Provider) bool {
	var suffixed []ledger.UUID
	for j, g := range b.req.Groups {
		for _, set := range g.Required {
			if !slices.ContainsFunc(perGroup[j], func(p *ledger.Provider) bool { return carriesAny(p, set) }) {
				return false
			}
		}
		if g.Suffix == "" {
			continue
		}
		if len(slices.Compact(slices.Clone(perGroup[j]))) > 1 ||
			b.req.Isolate && slices.Contains(suffixed, perGroup[j][0].UUID) {
			return false
		}
		suffixed = append(suffixed, perGroup[j][0].UUID)
	}
	return true
}

// subtreesHold reports whether each set of groups has one provider above all the others.
func (b *bruteForce) subtreesHold(perGroup [][]*ledger.Provider) bool {
	for _, suffixes := range b.req.SameSubtree {
		var members []*ledger.Provider
		for j, g := range b.req.Groups {
			if slices.Contains(suffixes, g.Suffix) {
				members = append(members, perGroup[j]...)
			}
		}
		topped := false
		for _, top := range members {
			above := true
			for _, p := range members {
				for p != nil && p != top {
					p = b.byID[p.Parent]
				}
				above = above && p == top
			}
			topped = topped || above
		}
		if !topped {
			return false
		}
	}
	return true
}

func carries(p *ledger.Provider, traits []string) bool {
	return !slices.ContainsFunc(traits, func(name string) bool { return !slices.Contains(p.Traits, name) })
}

func carriesAny(p *ledger.Provider, traits []string) bool {
	return slices.ContainsFunc(traits, func(name string) bool { return slices.Contains(p.Traits, name) })
}

// anchored reports whether p is in root's tree, or shares an aggregate with a member of it.
func anchored(all []*ledger.Provider, p, root *ledger.Provider) bool {
	if p.Root == root.UUID {
		return true
	}
	if !slices.Contains(p.Traits, candidates.SharingTrait) {
		return false
	}
	for _, member := range all {
		if member.Root == root.UUID &&
			slices.ContainsFunc(member.Aggregates, func(a ledger.UUID) bool { return slices.Contains(p.Aggregates, a) }) {
			return true
		}
	}
	return false
}

// useKey is what something is used of.
type useKey struct {
	provider ledger.UUID
	class    ledger.ClassID
}

func text(sums map[useKey]int64, mappings map[string]map[string]bool) string {
	var parts []string
	for key, sum := range sums {
		parts = append(parts, fmt.Sprint(key.provider, key.class, " ", sum))
	}
	for suffix, ids := range mappings {
		for id := range ids {
			parts = append(parts, suffix+"="+id)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, ";")
}

func textOf(req *candidates.Request, c *candidates.Candidate) string {
	sums, mappings := map[useKey]int64{}, map[string]map[string]bool{}
	for _, u := range c.Uses {
		sums[useKey{u.Provider.UUID, u.Class}] += u.Amount
	}
	for i, members := range c.Groups {
		suffix := req.Groups[i].Suffix
		mappings[suffix] = map[string]bool{}
		for _, p := range members {
			mappings[suffix][p.UUID.String()] = true
		}
	}
	return text(sums, mappings)
}

// search runs a search to its end.
func search(t rapid.TB, w *candidates.World, req *candidates.Request) []string {
	var list []string
	err := candidates.Search(context.Background(), w, req, func(c *candidates.Candidate) bool {
		list = append(list, textOf(req, c))
		return true
	})
	ledgertest.OK(t, err)
	return list
}

var traits = []string{"A", "B", candidates.SharingTrait}

// drawSmall draws from what a property draws.
func drawSmall(rt *rapid.T) small {
	return small{rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "small"), 0))}
}

func drawWorld(rt *rapid.T) []*ledger.Provider { return drawSmall(rt).world() }

// drawRequest draws a request that can be served in not too many ways.
func drawRequest(rt *rapid.T, all []*ledger.Provider) *candidates.Request {
	for d := drawSmall(rt); ; {
		if req := d.request(all); ways(all, req) <= 1000 {
			return req
		}
	}
}

// TestServing compares Serving and Serves with what a group could get of each provider alone.
func TestServing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for range 50 {
			all := drawWorld(rt)
			world := candidates.NewWorld(all)
			for _, g := range drawRequest(rt, all).Groups {
				g.Suffix = "1" // all of it comes from one provider
				alone := strings.Join(brute(all, &candidates.Request{Nested: true, Groups: []candidates.Group{g}}), ";")
				var want []*ledger.Provider
				for _, p := range all { // in the order of their uuids
					good := strings.Contains(alone, "1="+p.UUID.String())
					if g.InTree != nil { // for groups without resources, too
						in, _ := world.Provider(*g.InTree)
						good = good && in.Root == p.Root
					}
					if _, serves := world.Serves(p.UUID, &g); serves != good {
						rt.Fatalf("%+v serves %+v: %v", p, g, serves)
					}
					if good {
						want = append(want, p)
					}
				}
				if got := world.Serving(&g); !slices.Equal(got, want) {
					rt.Fatalf("%+v is served by %v, not %v", g, got, want)
				}
			}
		}
	})
}

// TestBreadthFirst: every tree gives a candidate before any tree gives its second.
func TestBreadthFirst(t *testing.T) {
	all, req := hosts(4, 5, none, nil), devices(1)
	req.Order = candidates.BreadthFirst
	at, found := map[ledger.UUID]int64{}, []int64{}
	for _, p := range all {
		at[p.UUID] = p.CreatedAt / 6
	}
	err := candidates.Search(context.Background(), candidates.NewWorld(all), req, func(c *candidates.Candidate) bool {
		found = append(found, at[c.Uses[0].Provider.Root])
		return true
	})
	want := []int64{0, 1, 2, 3, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1, 2, 2, 3, 3}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%v, %v", found, err)
	}
}

// TestIndex drives an index with random changes, and compares every snapshot,
// even older ones, with an index built at once from the same providers.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		index := candidates.NewIndex()
		type moment struct {
			world *candidates.World
			all   []*ledger.Provider
		}
		var moments []moment
		now := map[ledger.UUID]*ledger.Provider{}
		for step := range 12 {
			all := drawWorld(rt)
			if rapid.IntRange(0, 3).Draw(rt, "flat") == 0 {
				flatten(all)
			}
			if rapid.Bool().Draw(rt, "younger parents") { // one that is there moves below one that comes
				for _, p := range all {
					for _, id := range []*ledger.UUID{&p.UUID, &p.Root, &p.Parent} {
						if !id.IsNil() {
							id[15] = 40 - id[15]
						}
					}
				}
			}
			now = changed(rt, index, now, all, int64(step))
			moments = append(moments, moment{index.Snapshot(), slices.Collect(maps.Values(now))})
		}
		for _, m := range moments {
			fresh := candidates.NewWorld(m.all)
			if m.world.Len() != len(m.all) || m.world.Nested() != fresh.Nested() {
				rt.Fatalf("%d providers, nested %v; not %d, %v", m.world.Len(), m.world.Nested(), len(m.all), fresh.Nested())
			}
			for range 5 {
				req := drawRequest(rt, m.all)
				if got, want := search(rt, m.world, req), search(rt, fresh, req); !slices.Equal(got, want) {
					rt.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	})
}

// TestExplainAgrees: an explanation names the filter that removed the last
// provider or tree exactly if there are no candidates, and no filter adds any.
func TestExplainAgrees(t *testing.T) {
	classes := ledger.NewClassTable(
		[]ledger.Class{{ID: 0, Name: "VCPU"}, {ID: 1, Name: "MEMORY_MB"}, {ID: 2, Name: "DISK_GB"}},
	)
	rapid.Check(t, func(rt *rapid.T) {
		for range 20 {
			all := drawWorld(rt)
			req := drawRequest(rt, all)
			world := candidates.NewWorld(all)
			found := search(rt, world, req)
			e := ledgertest.Must(candidates.Explain(context.Background(), world, req, classes))
			if (len(found) == 0) != (e.RemovedLast != "") {
				rt.Fatalf("%d candidates, explained by %+v", len(found), e)
			}
			lists := [][]candidates.Step{e.Trees}
			for _, g := range e.Groups {
				lists = append(lists, g.Steps)
			}
			for _, steps := range lists {
				if !slices.IsSortedFunc(steps, func(a, b candidates.Step) int { return b.Left - a.Left }) {
					rt.Fatalf("a filter adds something: %+v", steps)
				}
			}
		}
	})
}

// TestBudgetAndCancel: a search that exceeds its budget ends with an error, and
// one whose client has gone ends, too. A limit ends it early.
func TestBudgetAndCancel(t *testing.T) {
	world, req, found := candidates.NewWorld(hosts(1, 20, none, nil)), devices(10), 0
	req.MaxSteps = 100_000
	count := func(*candidates.Candidate) bool { found++; return true }
	if err := candidates.Search(context.Background(), world, req, count); !errors.Is(err, candidates.ErrBudget) {
		t.Errorf("20 devices for 10 groups: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	req.MaxSteps, found = 0, 0
	err := candidates.Search(ctx, world, req, func(*candidates.Candidate) bool { found++; cancel(); return true })
	if !errors.Is(err, context.Canceled) || found > 2000 {
		t.Errorf("cancelled: %v after %d", err, found)
	}
	pauses, enough := 0, errors.New("enough")
	req.Pause = func(context.Context) error {
		if pauses++; pauses == 3 {
			return enough
		}
		return nil
	}
	if err := candidates.Search(context.Background(), world, req, count); !errors.Is(err, enough) {
		t.Errorf("stopped at the third pause: %v", err)
	}
	req.Limit, found, req.Pause = 7, 0, nil
	if err := candidates.Search(context.Background(), world, req, count); err != nil || found != 7 {
		t.Errorf("limit 7: %d, %v", found, err)
	}
}
