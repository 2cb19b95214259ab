package candidates_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

// judged is a candidate as the model sees it.
type judged struct {
	text  string
	score float64
	from  *big.Int
	at    int // where the search found it
}

// modelBest judges every candidate by itself, sorts them, and takes the first.
func modelBest(
	t rapid.TB, w *candidates.World, req *candidates.Request, pref *candidates.Preference, k int,
) []string {
	var list []judged
	err := candidates.Search(context.Background(), w, req, func(c *candidates.Candidate) bool {
		providers := providersOf(c)
		one := judged{text: textOf(req, c), at: len(list), score: modelShares(pref, c)}
		shares := func(p *ledger.Provider) bool { return p.HasTrait(candidates.SharingTrait) }
		homes := append(slices.DeleteFunc(slices.Clone(providers), shares), providers[0])
		root, _ := w.Provider(homes[0].Root)
		one.score += modelBonus(pref, root, providers)
		near, holds := modelNear(w, pref, providers, one.score)
		if !holds {
			return true
		}
		one.score = near
		one.from = modelDistance(pref, root.UUID)
		list = append(list, one)
		return true
	})
	ledgertest.OK(t, err)
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].score != list[j].score {
			return list[i].score > list[j].score
		}
		return list[i].from.Cmp(list[j].from) < 0
	})
	var texts []string
	for _, one := range list[:min(k, len(list))] {
		texts = append(texts, fmt.Sprintf("%s scores %v", one.text, one.score))
	}
	return texts
}

// providersOf are the providers of a candidate, each once, in the order of its
// groups, so that sums are rounded alike.
func providersOf(c *candidates.Candidate) (providers []*ledger.Provider) {
	for _, members := range c.Groups {
		for _, p := range members {
			if !slices.Contains(providers, p) {
				providers = append(providers, p)
			}
		}
	}
	return providers
}

func modelShares(pref *candidates.Preference, c *candidates.Candidate) (score float64) {
	providers := providersOf(c)
	for _, w := range pref.Weights {
		var free []float64
		for _, p := range providers {
			for _, inv := range p.Inventories {
				if inv.Class == w.Class {
					capacity := float64(inv.Total-inv.Reserved) * inv.Ratio
					free = append(free, max(0, (capacity-float64(inv.Used))/capacity))
				}
			}
		}
		if len(free) > 0 {
			sort.Float64s(free) // whatever group each of them serves
			sum := 0.0
			for _, one := range free {
				sum += one
			}
			score += w.Weight * min(max(sum/float64(len(free)), free[0]), free[len(free)-1])
		}
	}
	return score
}

func modelBonus(pref *candidates.Preference, root *ledger.Provider, providers []*ledger.Provider) (bonus float64) {
	providers = append(providers, root)
	for _, t := range pref.Traits {
		if slices.ContainsFunc(providers, func(p *ledger.Provider) bool { return slices.Contains(p.Traits, t.Trait) }) {
			bonus += t.Weight
		}
	}
	for _, a := range pref.Aggregates {
		in := func(p *ledger.Provider) bool { return slices.Contains(p.Aggregates, a.Aggregate) }
		if slices.ContainsFunc(providers, in) {
			bonus += a.Weight
		}
	}
	return bonus
}

// modelNear compares each provider with each, and adds to a score, one rule after the
// other, so that sums are rounded alike.
func modelNear(
	w *candidates.World, pref *candidates.Preference, providers []*ledger.Provider, before float64,
) (score float64, holds bool) {
	score = before
	for _, n := range pref.Near {
		said, near := false, false
		for _, id := range n.Providers {
			other, exists := w.Provider(id)
			if !exists || slices.Contains(other.Traits, candidates.SharingTrait) {
				continue
			}
			said = true
			for _, p := range providers {
				if !slices.Contains(p.Traits, candidates.SharingTrait) {
					near = near || modelReach(w, n.Reach, p, other)
				}
			}
		}
		switch {
		case !said:
		case n.Rule == candidates.PreferNear && near:
			score += n.Weight
		case n.Rule == candidates.RequireNear && !near, n.Rule == candidates.ForbidNear && near:
			return 0, false
		}
	}
	return score, true
}

func modelReach(w *candidates.World, reach candidates.Reach, p, other *ledger.Provider) bool {
	switch reach {
	case candidates.SameProvider:
		return p.UUID == other.UUID
	case candidates.SameTree:
		return p.Root == other.Root
	}
	above, _ := w.Provider(p.Root)
	otherAbove, _ := w.Provider(other.Root)
	for _, a := range slices.Concat(p.Aggregates, above.Aggregates) {
		if slices.Contains(other.Aggregates, a) || slices.Contains(otherAbove.Aggregates, a) {
			return true
		}
	}
	return false
}

func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func modelDistance(pref *candidates.Preference, root ledger.UUID) *big.Int {
	if pref.Random {
		high, low := binary.BigEndian.Uint64(root[:8]), binary.BigEndian.Uint64(root[8:])
		drawn := new(big.Int).SetUint64(splitmix(pref.Seed ^ splitmix(high^splitmix(low))))
		return drawn.Add(drawn.Lsh(drawn, 64), new(big.Int).SetUint64(low))
	}
	var point [16]byte
	binary.BigEndian.PutUint64(point[:8], splitmix(pref.Seed))
	binary.BigEndian.PutUint64(point[8:], splitmix(pref.Seed+1))
	d := new(big.Int).Sub(new(big.Int).SetBytes(root[:]), new(big.Int).SetBytes(point[:]))
	return d.Mod(d, new(big.Int).Lsh(big.NewInt(1), 128))
}

// drawPreference draws a preference that every candidate has a place in.
func drawPreference(rt *rapid.T) *candidates.Preference {
	pref := drawSmall(rt).preference()
	pref.Apart, pref.Accept = false, nil
	return pref
}

func textsOf(req *candidates.Request, found []candidates.Ranked) (texts []string) {
	for i := range found {
		texts = append(texts, fmt.Sprintf("%s scores %v", textOf(req, &found[i].Candidate), found[i].Score))
	}
	return texts
}

// withoutSharing is what most worlds are: other ones are searched in another way.
func withoutSharing(all []*ledger.Provider) {
	for _, p := range all {
		p.Traits = slices.DeleteFunc(p.Traits, func(name string) bool { return name == candidates.SharingTrait })
	}
}

// flatten makes every provider a tree of its own.
func flatten(all []*ledger.Provider) {
	for _, p := range all {
		p.Counters, p.Draws = nil, nil
		p.Parent, p.Root = ledger.NilUUID, p.UUID
	}
}

func compareBest(
	rt *rapid.T, r *candidates.Ranking, w *candidates.World, req *candidates.Request, pref *candidates.Preference, k int,
) int {
	best := ledgertest.Must(r.Best(context.Background(), req, pref, k))
	want := modelBest(rt, w, req, pref, k)
	if got := textsOf(req, best); !slices.Equal(got, want) {
		rt.Fatalf("found\n%q\nwant\n%q", got, want)
	}
	return len(best)
}

// TestRankingFollows has things assumed while the world changes, and some of them come true
// or end with a change: what is found is as in a world of its own that is made like that.
func TestRankingFollows(t *testing.T) {
	found, kept, some := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		index := candidates.NewIndex()
		ranking := candidates.NewRanking(index.Snapshot())
		ranking.CountAggregates()
		if rapid.Bool().Draw(rt, "eager") {
			ranking.Eager()
		}
		now := map[ledger.UUID]*ledger.Provider{}
		var assumed []candidates.Use
		prefs := []*candidates.Preference{drawPreference(rt), drawPreference(rt)}
		trees, sharing := rapid.Bool().Draw(rt, "trees"), rapid.IntRange(0, 3).Draw(rt, "sharing") == 0
		for step := range 5 {
			all := drawWorld(rt)
			if !sharing {
				withoutSharing(all)
			}
			if !trees {
				flatten(all)
			}
			now = changed(rt, index, now, all, int64(step))
			settled := rapid.IntRange(0, len(assumed)).Draw(rt, "settled")
			ranking.SyncAfter(index.Snapshot(), assumed[:settled])
			assumed = assumed[settled:]
			kept += len(assumed)
			for i := range 8 {
				effective := withAssumed(now, assumed)
				checkAssumed(rt, ranking, effective, assumed)
				req := drawRequest(rt, effective)
				pref := rapid.SampledFrom(append(prefs, drawPreference(rt))).Draw(rt, "preference")
				found += compareBest(rt, ranking, candidates.NewWorld(effective), req, pref, rapid.IntRange(1, 3).Draw(rt, "k"))
				some += ranking.OrdersOfSome()
				use := candidates.Use{
					Provider: rapid.SampledFrom(effective).Draw(rt, "taken"),
					Class:    ledger.ClassID(rapid.IntRange(0, 2).Draw(rt, "class")),
					Amount:   rapid.SampledFrom([]int64{1, 1, 1, 3, -1}).Draw(rt, "amount"),
				}
				if i%4 == 0 {
					ranking.Assume([]candidates.Use{use}, 1)
					assumed = append(assumed, use)
				}
			}
		}
	})
	if found == 0 || kept == 0 || some == 0 {
		t.Errorf("only %d candidates were compared, with %d assumptions and %d orders of some roots", found, kept, some)
	}
}

// changed has an index go from some providers to others. Those that stay keep the moment
// at which they were made, and now and then all that they have.
func changed(
	rt *rapid.T, index *candidates.Index, now map[ledger.UUID]*ledger.Provider, all []*ledger.Provider, step int64,
) map[ledger.UUID]*ledger.Provider {
	var changes []ledger.ProviderChange
	next := map[ledger.UUID]*ledger.Provider{}
	same := rapid.Bool().Draw(rt, "the same world")
	if same && len(now) > 0 {
		all = slices.Collect(maps.Values(now))
		slices.SortFunc(all, func(a, b *ledger.Provider) int { return a.UUID.Compare(b.UUID) })
	}
	for _, p := range all {
		old := now[p.UUID]
		next[p.UUID] = p
		switch {
		case old == p && rapid.Bool().Draw(rt, "stays"):
			continue
		case old == p: // another one holds some of it
			p = withAssumed(map[ledger.UUID]*ledger.Provider{p.UUID: p}, []candidates.Use{{Provider: p, Amount: 1}})[0]
			next[p.UUID] = p
		case old != nil:
			p.CreatedAt = old.CreatedAt
		default:
			p.CreatedAt = step
		}
		changes = append(changes, ledger.ProviderChange{Before: old, After: p})
	}
	for id, p := range now {
		if next[id] == nil {
			changes = append(changes, ledger.ProviderChange{Before: p})
		}
	}
	if len(changes) > 0 {
		index.Apply(rapid.Permutation(changes).Draw(rt, "changes")) // one may move below one that comes after it
	}
	return next
}

// withAssumed is the providers as they are when what is assumed has come true.
func withAssumed(now map[ledger.UUID]*ledger.Provider, assumed []candidates.Use) (list []*ledger.Provider) {
	for _, p := range now {
		other := *p
		other.Inventories = slices.Clone(p.Inventories)
		for _, use := range assumed {
			for i := range other.Inventories {
				if use.Provider.UUID == p.UUID && other.Inventories[i].Class == use.Class {
					other.Inventories[i].Used += use.Amount
				}
			}
		}
		list = append(list, &other)
	}
	slices.SortFunc(list, func(a, b *ledger.Provider) int { return a.UUID.Compare(b.UUID) })
	return list
}

// checkAssumed compares what is assumed in each aggregate.
func checkAssumed(rt *rapid.T, r *candidates.Ranking, all []*ledger.Provider, assumed []candidates.Use) {
	byID := map[ledger.UUID]*ledger.Provider{}
	for _, p := range all {
		byID[p.UUID] = p
	}
	want := map[ledger.AggregateKey]int64{}
	for _, use := range assumed {
		if p := byID[use.Provider.UUID]; p != nil {
			for _, id := range ledger.WithRoot(p, byID[p.Root]) {
				want[ledger.AggregateKey{Aggregate: id, Class: use.Class}] += use.Amount
			}
		}
	}
	for _, p := range all {
		for _, id := range p.Aggregates {
			for class := range ledger.ClassID(3) {
				key := ledger.AggregateKey{Aggregate: id, Class: class}
				if got := r.AssumedIn(key); got != want[key] {
					rt.Fatalf("%d of class %d are assumed in aggregate %s, want %d", got, class, id, want[key])
				}
			}
		}
	}
}

// TestRankingOfMany fills many equal providers, so that the blocks of orders
// are split, emptied and passed over.
func TestRankingOfMany(t *testing.T) {
	const many = 2000
	draw := rand.New(rand.NewPCG(1, 2))
	providers := flat(many, 16)
	for i, p := range providers {
		if i%10 == 0 {
			p.Traits = []string{"A"}
		}
		if i%500 == 0 {
			p.Traits = []string{"A", "B"}
		}
	}
	index := candidates.NewIndex()
	index.Add(providers)
	ranking := candidates.NewRanking(index.Snapshot())
	for step := range ledgertest.Cases(300, 120) {
		req := threeClasses()
		for i := range req.Groups[0].Resources {
			req.Groups[0].Resources[i].Amount = draw.Int64N(16) + 1
		}
		req.Groups[0].Required = [][][]string{nil, {{"A"}}, {{"B"}}}[step%3]
		pref := &candidates.Preference{Seed: draw.Uint64(), Weights: weightOfAll([]float64{0, 1, -1}[draw.IntN(3)])}
		world := index.Snapshot()
		best := ledgertest.Must(ranking.Best(context.Background(), req, pref, 3))
		if got, want := textsOf(req, best), modelBest(t, world, req, pref, 3); !slices.Equal(got, want) {
			t.Fatalf("step %d: found\n%q\nwant\n%q", step, got, want)
		}
		var changes []ledger.ProviderChange
		for n := range 50 {
			i := draw.IntN(many)
			before := providers[i]
			after := *before
			if n%10 == 0 {
				after.Traits = [][]string{nil, {"A"}, {"A", "B"}}[draw.IntN(3)] // and nothing else
			} else {
				after.Inventories = slices.Clone(before.Inventories)
				for i := range after.Inventories {
					after.Inventories[i].Used = draw.Int64N(17)
				}
			}
			providers[i] = &after
			changes = append(changes, ledger.ProviderChange{Before: before, After: &after})
		}
		index.Apply(changes)
		ranking.Sync(index.Snapshot())
	}
	if n := ranking.OrdersOfSome(); n < 2 { // of the trait A, for each weight that is not 0
		t.Errorf("%d orders are of some roots", n)
	}
}

// TestHopelessBudget: a budget that is smaller than the number of providers which must be
// looked at is said to be spent before any work is done.
func TestHopelessBudget(t *testing.T) {
	const hosts = 2000
	world := candidates.NewWorld(flat(hosts, 8))
	wishes := make([]candidates.AggregateWeight, 5) // more than the order is divided by
	for i := range wishes {
		wishes[i] = candidates.AggregateWeight{Aggregate: ledgertest.ID(3, byte(i)), Weight: 1}
	}
	for _, c := range []struct {
		budget        int
		spent, pauses bool
	}{
		{budget: hosts - 1, spent: true}, {budget: hosts + 500, spent: true, pauses: true},
		{budget: 10 * hosts, pauses: true}, {budget: 0, pauses: true},
	} {
		paused := 0
		req := &candidates.Request{
			Groups:   []candidates.Group{{Resources: []candidates.Resource{{Class: 1, Amount: 1}}}},
			MaxSteps: c.budget, Pause: func(context.Context) error { paused++; return nil },
		}
		pref := &candidates.Preference{Aggregates: wishes}
		found, err := candidates.NewRanking(world).Best(context.Background(), req, pref, 1)
		if errors.Is(err, candidates.ErrBudget) != c.spent || (err == nil) != (len(found) == 1) || (paused > 0) != c.pauses {
			t.Errorf("with %d steps: %v, %d found, %d pauses", c.budget, err, len(found), paused)
		}
	}
}
