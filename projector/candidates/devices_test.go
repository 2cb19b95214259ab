package candidates_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

const (
	coreClass ledger.ClassID = iota
	numaClass
	deviceClass
	portClass
)

// small draws worlds and requests in which much is alike.
type small struct{ *rand.Rand }

func (d small) often(n int) bool { return d.IntN(n) == 0 }

// world draws one or two trees of up to three levels, and now and then a sharing provider, or several.
func (d small) world() (all []*ledger.Provider) {
	sharing := d.often(6)
	add := func(parent *ledger.Provider, inventories ...ledger.Inventory) *ledger.Provider {
		p := &ledger.Provider{
			UUID: ledgertest.ID(1, byte(len(all)+1)), CreatedAt: int64(len(all)), Inventories: inventories,
		}
		p.Root = p.UUID
		if parent != nil {
			p.Parent, p.Root = parent.UUID, parent.Root
		}
		for _, name := range traits[:2] {
			if d.often(3) {
				p.Traits = append(p.Traits, name)
			}
		}
		if sharing && d.often(3) {
			p.Traits = append(p.Traits, candidates.SharingTrait)
		}
		for a := range byte(2) {
			if d.often(5) {
				p.Aggregates = append(p.Aggregates, ledgertest.ID(3, a+1))
			}
		}
		all = append(all, p)
		return p
	}
	for range 1 + d.IntN(2) {
		root := add(nil, d.inventory(coreClass))
		for range d.IntN(3) {
			node := add(root, d.inventory(numaClass))
			d.siblings(node, add)
		}
		d.siblings(root, add)
	}
	if d.often(5) {
		shared := add(nil, d.inventory(deviceClass))
		shared.Traits = append(shared.Traits, candidates.SharingTrait)
	}
	if d.often(3) {
		drawCounters(all, d.Rand)
	}
	return all
}

func (d small) siblings(parent *ledger.Provider, add func(*ledger.Provider, ...ledger.Inventory) *ledger.Provider) {
	device := d.inventory(deviceClass)
	for range d.IntN(4) {
		if d.often(3) {
			device = d.inventory(deviceClass + ledger.ClassID(d.IntN(2)))
		}
		one := add(parent, device)
		if d.often(6) {
			one.Inventories = append(one.Inventories, d.inventory(portClass+1))
		}
	}
}

func (d small) inventory(class ledger.ClassID) ledger.Inventory {
	inv := inventory(class, 1+int64(d.IntN(3)), 0)
	inv.MaxUnit, inv.Used = 3, int64(d.IntN(int(inv.Total)+1))
	switch {
	case d.often(3):
		inv.Used = 0
	case d.often(15):
		inv.Used = inv.Total + 1
	}
	if d.often(6) {
		inv.MaxUnit, inv.Ratio = 1+int64(d.IntN(3)), 1.5
	}
	return inv
}

// request draws groups of up to three kinds.
func (d small) request(all []*ledger.Provider) *candidates.Request {
	req := &candidates.Request{Nested: !d.often(12), Isolate: d.often(2), MaxSteps: 10_000_000}
	if d.often(3) {
		g := candidates.Group{Resources: []candidates.Resource{
			{Class: coreClass, Amount: 1}, {Class: deviceClass, Amount: 1},
		}}
		switch d.IntN(4) {
		case 0, 1:
			g.Resources = g.Resources[:1]
		case 2:
			g.Resources = g.Resources[1:]
		}
		d.filters(&g, all)
		if d.often(4) {
			g.NotMemberOf = []ledger.UUID{ledgertest.ID(3, byte(1+d.IntN(2)))}
		}
		req.Groups = append(req.Groups, g)
	}
	for kind := range 1 + d.IntN(3) {
		g := candidates.Group{Resources: []candidates.Resource{{
			Class: deviceClass + ledger.ClassID(d.IntN(4)/3), Amount: 1 + int64(d.IntN(5)/4),
		}}}
		switch {
		case d.often(8):
			g.Resources, g.Required = nil, [][]string{{"A"}}
		case d.often(8):
			g.Resources[0].Class = numaClass
		case d.often(8):
			g.Resources = append(g.Resources, candidates.Resource{Class: portClass + 1, Amount: 1})
		}
		d.filters(&g, all)
		for range 1 + d.IntN(3-kind) {
			g.Suffix = strconv.Itoa(len(req.Groups) + 1)
			req.Groups = append(req.Groups, g)
		}
	}
	d.Shuffle(len(req.Groups), func(i, j int) { req.Groups[i], req.Groups[j] = req.Groups[j], req.Groups[i] })
	for range 2 {
		var together []string
		for _, g := range req.Groups {
			if g.Suffix != "" && d.often(2) {
				together = append(together, g.Suffix)
			}
		}
		if len(together) > 0 && d.often(3) {
			req.SameSubtree = append(req.SameSubtree, together)
		}
	}
	if d.often(8) {
		req.RootRequired = []string{"A"}
	}
	if d.often(8) {
		req.RootForbidden = []string{"B"}
	}
	return req
}

func (d small) filters(g *candidates.Group, all []*ledger.Provider) {
	if d.often(5) {
		g.Required = append(g.Required, []string{"A"})
	}
	if d.often(8) {
		g.Required = append(g.Required, []string{"B", "A"}[d.IntN(2):])
	}
	if d.often(8) {
		g.Forbidden = []string{"B"}
	}
	if d.often(8) {
		g.MemberOf = [][]ledger.UUID{{ledgertest.ID(3, 1)}, {ledgertest.ID(3, 2)}}[:1+d.IntN(2)]
	}
	if d.often(12) {
		g.NotMemberOf = []ledger.UUID{ledgertest.ID(3, 2)}
	}
	if d.often(12) {
		g.InTree = &all[d.IntN(len(all))].UUID
	}
}

// preferences are those by which claims choose.
func (d small) preference() *candidates.Preference {
	pref := &candidates.Preference{Seed: d.Uint64()}
	weigh := func(class ledger.ClassID, weight float64) {
		pref.Weights = append(pref.Weights, candidates.ClassWeight{Class: class, Weight: weight})
	}
	switch d.IntN(4) {
	case 0:
		pref.Random = true
	case 1:
		weigh(deviceClass, 1)
	case 2:
		weigh(deviceClass, -1)
	case 3:
		for class := range portClass + 2 {
			weigh(class, float64(d.IntN(5)-2))
		}
	}
	if d.often(3) {
		pref.Traits = []candidates.TraitWeight{{Trait: "A", Weight: float64(d.IntN(5) - 2)}}
	}
	if d.often(4) {
		pref.Aggregates = []candidates.AggregateWeight{{Aggregate: ledgertest.ID(3, 1), Weight: float64(d.IntN(5) - 2)}}
	}
	for d.often(4) {
		pref.Near = append(pref.Near, candidates.Near{
			Providers: []ledger.UUID{ledgertest.ID(1, byte(1+d.IntN(6)))}, Reach: candidates.Reach(d.IntN(3)),
			Rule: candidates.NearRule(d.IntN(3)), Weight: float64(d.IntN(5) - 2),
		})
	}
	if d.often(4) {
		pref.Apart = true
		pref.Accept = func(list []*ledger.Provider) bool {
			return !slices.ContainsFunc(list, func(p *ledger.Provider) bool { return p.UUID[15]%4 == 0 })
		}
	}
	return pref
}

// worldsToTry is ALLOT_LIKE_THINGS, if it is set.
func worldsToTry(t *testing.T, usual int) int {
	if text := os.Getenv("ALLOT_LIKE_THINGS"); text != "" {
		worlds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("ALLOT_LIKE_THINGS is %q, which is not how many worlds are tried", text)
		}
		return worlds
	}
	return ledgertest.Cases(usual, usual/10)
}

// TestLikeThings compares searches of small worlds, in which many providers and groups are
// alike, with all assignments: the whole set, its beginning with a limit, and the best by a
// preference. ALLOT_LIKE_THINGS is how many worlds are tried: 1000000 take about 25 minutes.
func TestLikeThings(t *testing.T) {
	worlds := worldsToTry(t, 3000)
	served, several, seed := 0, 0, uint64(0)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last seed was %d", seed)
		}
	})
	for ; seed < uint64(worlds); seed++ {
		d := small{rand.New(rand.NewPCG(seed, 39))}
		all := d.world()
		req := d.request(all)
		n := compareLike(t, d, all, req)
		if t.Failed() {
			t.Fatalf("%+v", req)
		}
		if n > 0 {
			served++
		}
		if n > 20 {
			several++
		}
	}
	if served < worlds/10 || several < worlds/100 {
		t.Errorf("of %d requests %d were served, %d in many ways", worlds, served, several)
	}
}

// ways is how many ways there are to choose providers, whatever else is asked.
func ways(all []*ledger.Provider, req *candidates.Request) int {
	n := 1
	for _, g := range req.Groups {
		if len(g.Resources) == 0 {
			n *= len(all)
		}
		for i := range g.Resources {
			fitting := slices.DeleteFunc(slices.Clone(all), func(p *ledger.Provider) bool { return !takes(p, &g.Resources[i]) })
			n *= 1 + len(fitting)
		}
	}
	return n
}

// compareLike returns how many candidates there are.
func compareLike(t *testing.T, d small, all []*ledger.Provider, req *candidates.Request) int {
	if ways(all, req) > 20_000 {
		return 0 // it takes too long to try them all
	}
	world := candidates.NewWorld(all)
	want := brute(all, req)
	for _, order := range []candidates.Order{candidates.DepthFirst, candidates.BreadthFirst} {
		req.Order, req.Shuffle, req.Seed = order, d.often(3), d.Uint64()
		whole := search(t, world, req)
		if got := slices.Sorted(slices.Values(whole)); !slices.Equal(got, want) {
			t.Errorf("found\n%q\nwant\n%q", got, want)
		}
		req.Limit = 1 + d.IntN(6)
		if got := search(t, world, req); !slices.Equal(got, whole[:min(req.Limit, len(whole))]) {
			t.Errorf("with limit %d\n%q\nof\n%q", req.Limit, got, whole)
		}
		req.Limit = 0
	}
	req.Order, req.Shuffle = candidates.DepthFirst, false
	pref, k := d.preference(), 1+d.IntN(3)
	judged := bestOf(t, world, req, pref, everything)
	best := textsOf(req, judged)
	ranking := candidates.NewRanking(world)
	if d.often(2) {
		ranking.Eager()
	}
	found, err := ranking.Best(context.Background(), req, pref, k)
	if got := textsOf(req, found); err != nil || !slices.Equal(got, best[:min(k, len(best))]) {
		t.Errorf("%+v: the best %d are\n%q, %v\nof\n%q", pref, k, got, err, best)
	}
	pref.Once = true
	found, err = ranking.Best(context.Background(), req, pref, k)
	if got := textsOf(req, found); err != nil || (len(got) == 0) != (len(best) == 0) ||
		len(got) > 0 && got[0] != best[0] || !inOrder(got, best) {
		t.Errorf("%+v: once, the best %d are\n%q, %v\nof\n%q", pref, k, got, err, best)
	}
	compareInTurn(t, ranking, req, pref, 2+d.IntN(4))
	return len(want)
}

// compareInTurn compares what is found for several in one go with what is found for one after the
// other, twice: it must leave nothing assumed.
func compareInTurn(t *testing.T, r *candidates.Ranking, req *candidates.Request, pref *candidates.Preference, n int) {
	var want []candidates.Ranked
	for range n {
		best := ledgertest.Must(r.Best(context.Background(), req, pref, 1))
		for _, one := range best {
			want = append(want, one)
			r.Assume(one.Uses, 1)
		}
	}
	for i := range want {
		r.Assume(want[i].Uses, -1)
	}
	for range 2 {
		found, err := r.InTurn(context.Background(), req, pref, n)
		if err != nil || len(found) < min(1, len(want)) || r.Assumes() {
			t.Fatal(len(found), err, r.Assumes())
		}
		whole := len(found) > 1 || len(want) < 2
		got, all := textsOf(req, found), textsOf(req, want)
		if whole && !slices.Equal(got, all) || got != nil && got[0] != all[0] {
			t.Errorf("%+v: in turn\n%q\nwant\n%q", pref, got, all)
		}
	}
}

// bestOf judges all candidates.
func bestOf(
	t *testing.T, w *candidates.World, req *candidates.Request, pref *candidates.Preference, k int,
) []candidates.Ranked {
	plain := *pref
	plain.Accept, plain.Once = nil, false
	list, _, err := candidates.Page(context.Background(), w, req, &plain, k, nil)
	ledgertest.OK(t, err)
	if got, want := textsOf(req, list), modelBest(t, w, req, &plain, k); !slices.Equal(got, want) {
		t.Errorf("%+v: judged\n%q\nwant\n%q", pref, got, want)
	}
	return slices.DeleteFunc(list, func(one candidates.Ranked) bool {
		return pref.Accept != nil && !pref.Accept(providersOf(&one.Candidate))
	})
}

// inOrder reports whether some texts are among others, in the same order.
func inOrder(some, all []string) bool {
	for _, one := range some {
		i := slices.Index(all, one)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}

func inventory(class ledger.ClassID, total, used int64) ledger.Inventory {
	return ledger.Inventory{Class: class, Total: total, Used: used, MinUnit: 1, MaxUnit: total, StepSize: 1, Ratio: 1}
}

// hosts makes trees of devices: each has so many, of which so many are used.
func hosts(
	n, devices int, used func(host int) int, also func(host, device int, p *ledger.Provider),
) []*ledger.Provider {
	draw := rand.New(rand.NewPCG(7, 7))
	id := func() (id ledger.UUID) {
		for i := range id {
			id[i] = byte(draw.Uint32())
		}
		return id
	}
	var all []*ledger.Provider
	for h := range n {
		root := &ledger.Provider{UUID: id(), CreatedAt: int64(len(all))}
		root.Root, root.Inventories = root.UUID, []ledger.Inventory{inventory(coreClass, 64, 0)}
		all = append(all, root)
		for i := range devices {
			p := &ledger.Provider{UUID: id(), Root: root.UUID, Parent: root.UUID, CreatedAt: int64(len(all))}
			p.Inventories = []ledger.Inventory{inventory(deviceClass, 1, 0)}
			if i < used(h) {
				p.Inventories[0].Used = 1
			}
			if also != nil {
				also(h, i, p)
			}
			all = append(all, p)
		}
	}
	return all
}

// devices asks for so many groups of one device.
func devices(n int) *candidates.Request {
	req := &candidates.Request{Nested: true, MaxSteps: 40_000_000}
	for i := range n {
		req.Groups = append(req.Groups, candidates.Group{
			Suffix: strconv.Itoa(i + 1), Resources: []candidates.Resource{{Class: deviceClass, Amount: 1}},
		})
	}
	return req
}

// preferencesOf are all orders of claims, of requests for a class.
func preferencesOf(class ledger.ClassID) map[string]*candidates.Preference {
	weigh := func(weight float64) []candidates.ClassWeight {
		return []candidates.ClassWeight{{Class: class, Weight: weight}}
	}
	return map[string]*candidates.Preference{
		"none": {Seed: 5}, "pack": {Seed: 5, Weights: weigh(-1)}, "spread": {Seed: 5, Weights: weigh(1)},
		"random": {Seed: 5, Random: true},
		"trait":  {Seed: 5, Weights: weigh(1), Traits: []candidates.TraitWeight{{Trait: "A", Weight: 2}}},
		"near": {Seed: 5, Weights: weigh(-1), Near: []candidates.Near{{
			Providers: []ledger.UUID{ledgertest.ID(1, 1)}, Reach: candidates.SameAggregate, Weight: 1,
		}}},
	}
}

// deviceWorld is a world of many devices, a request, and how many steps it may take.
type deviceWorld struct {
	name  string
	all   []*ledger.Provider
	req   *candidates.Request
	found int // candidates at most
	steps int
}

func none(int) int { return 0 }

func deviceWorlds() []deviceWorld {
	first := func(few, rest int) func(int) int {
		return func(host int) int {
			if host == 0 {
				return few
			}
			return rest
		}
	}
	last := func(hosts int) func(int) int {
		return func(host int) int {
			if host == hosts-1 {
				return 0
			}
			return 1
		}
	}
	differing := func(groups int, change func(*candidates.Group)) *candidates.Request {
		req := devices(groups)
		change(&req.Groups[groups-1])
		return req
	}
	needs := func(g *candidates.Group) { g.Required = [][]string{{"A"}} }
	only := func(host, device int, p *ledger.Provider) {
		if device == 0 {
			p.Traits = []string{"A"}
		}
	}
	isolated := devices(8)
	isolated.Isolate = true
	below := devices(8)
	below.Groups = append(below.Groups, candidates.Group{Suffix: "host", Required: [][]string{{"HOST"}}})
	below.SameSubtree = [][]string{{"1", "2", "3", "4", "5", "6", "7", "8", "host"}}
	under := hosts(50, 8, last(50), nil)
	for _, p := range under {
		if p.Parent.IsNil() {
			p.Traits = []string{"HOST"}
		}
	}
	list := []deviceWorld{
		{name: "7 of 8 free but for one", all: hosts(400, 8, last(400), nil), req: devices(8), found: 40320},
		{name: "11 of 12 free but for one", all: hosts(2, 12, last(2), nil), req: devices(12), found: 1000},
		{name: "only the last fits", all: hosts(1, 12, none, only), req: differing(12, needs), found: 1000},
		{name: "isolate", all: hosts(400, 8, last(400), nil), req: isolated, found: 1000},
		{name: "same_subtree", all: under, req: below, found: 1000},
		{
			name: "an amount differs", found: 1000,
			req: differing(8, func(g *candidates.Group) { g.Resources[0].Amount = 3 }),
			all: hosts(100, 8, last(100), func(_, device int, p *ledger.Provider) {
				if device == 7 {
					p.Inventories[0].Total, p.Inventories[0].MaxUnit = 3, 3
				}
			}),
		},
		{
			name: "functions of cards", req: devices(16), found: 1000,
			all: hosts(50, 4, none, func(host, device int, p *ledger.Provider) {
				p.Inventories[0].Total, p.Inventories[0].MaxUnit = 8, 8
				p.Inventories[0].Used = int64(4 + (host+device)%5)
				if host == 49 {
					p.Inventories[0].Used = int64(4 - device%2)
				}
			}),
		},
		{name: "16 of 16", all: hosts(20, 16, first(0, 1), nil), req: devices(16), found: 1000},
	}
	for n := 1; n <= 8; n++ {
		list = append(list, deviceWorld{name: fmt.Sprint("empty, groups=", n), all: hosts(20, 8, none, nil), req: devices(n)})
	}
	for i := range list {
		list[i].steps = 100_000
	}
	return list
}

// TestDevices: requests for many like things, which have answers, get them with little work
// with any limit, and so do claims under every preference.
func TestDevices(t *testing.T) {
	for _, c := range deviceWorlds() {
		t.Run(c.name, func(t *testing.T) {
			world := candidates.NewWorld(c.all)
			for _, limit := range []int{1, 10, 1000} {
				for _, order := range []candidates.Order{candidates.DepthFirst, candidates.BreadthFirst} {
					req := *c.req
					req.Limit, req.Order = limit, order
					req.MaxSteps = c.steps + limit*2000
					seen := map[string]bool{}
					err := candidates.Search(context.Background(), world, &req, func(found *candidates.Candidate) bool {
						seen[textOf(&req, found)] = true
						return true
					})
					if err != nil || len(seen) == 0 || len(seen) < min(limit, c.found) {
						t.Errorf("limit %d, order %d: %d found, %v", limit, order, len(seen), err)
					}
				}
			}
			for name, pref := range preferencesOf(deviceClass) {
				req := *c.req
				req.MaxSteps = c.steps
				pref.Once = true
				found, err := candidates.NewRanking(world).Best(context.Background(), &req, pref, 2)
				if err != nil || len(found) == 0 {
					t.Errorf("a claim, %s: %d found, %v", name, len(found), err)
				}
			}
			req := *c.req
			req.MaxSteps = c.steps + 100*2000
			found, _, err := candidates.Page(context.Background(), world, &req, preferencesOf(deviceClass)["pack"], 100, nil)
			if err != nil || len(found) == 0 {
				t.Errorf("a page: %d found, %v", len(found), err)
			}
		})
	}
}

// withTrait gives one free device of each host a trait.
func withTrait(all []*ledger.Provider, name string) []*ledger.Provider {
	last := map[ledger.UUID]*ledger.Provider{}
	for _, p := range all {
		last[p.Root] = p
		p.Traits = nil
	}
	for _, p := range last {
		p.Traits = []string{name}
	}
	return all
}
