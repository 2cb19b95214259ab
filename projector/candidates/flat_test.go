package candidates_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// flat is n providers with so much of three classes, each a tree by itself.
func flat(n int, total int64) []*ledger.Provider {
	all, draw := make([]*ledger.Provider, n), rand.NewPCG(7, 7)
	for i := range all {
		var id ledger.UUID
		binary.BigEndian.PutUint64(id[:8], draw.Uint64())
		binary.BigEndian.PutUint64(id[8:], draw.Uint64())
		p := &ledger.Provider{UUID: id, Root: id, CreatedAt: int64(i), Inventories: make([]ledger.Inventory, 3)}
		for class := range p.Inventories {
			p.Inventories[class] = inventory(ledger.ClassID(class), total, 0)
		}
		all[i] = p
	}
	return all
}

// taking is a change: one of all that a provider has is used, or none any more.
func taking(all []*ledger.Provider, i int) []ledger.ProviderChange {
	before := all[i]
	after := *before
	after.Inventories = slices.Clone(before.Inventories)
	for j := range after.Inventories {
		after.Inventories[j].Used ^= 1
	}
	all[i] = &after
	return []ledger.ProviderChange{{Before: before, After: &after}}
}

func threeClasses() *candidates.Request {
	return &candidates.Request{Nested: true, Groups: []candidates.Group{{Resources: []candidates.Resource{
		{Class: 0, Amount: 1}, {Class: 1, Amount: 1}, {Class: 2, Amount: 1},
	}}}}
}

// weightOfAll gives three classes the same weight.
func weightOfAll(weight float64) (all []candidates.ClassWeight) {
	for class := range ledger.ClassID(3) {
		all = append(all, candidates.ClassWeight{Class: class, Weight: weight})
	}
	return all
}

// allocated is the least that something allocates, in bytes.
func allocated(do func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestFlat: what a search with a limit allocates follows from its answer, however many
// providers there are, also when one has changed since the search before.
func TestFlat(t *testing.T) {
	one := func(class ledger.ClassID) *candidates.Request {
		return &candidates.Request{Nested: true, Groups: []candidates.Group{
			{Resources: []candidates.Resource{{Class: class, Amount: 1}}},
		}}
	}
	filtered, either := one(0), one(0)
	filtered.RootRequired, filtered.RootForbidden = []string{"A"}, []string{"B"}
	either.Groups[0].Required = [][]string{{"A", "C"}}
	flatWorld := func(n int) []*ledger.Provider { return withTrait(flat(n, 1<<20), "A") }
	nested := func(n int) []*ledger.Provider { return hosts(n/9, 8, none, nil) }
	for name, c := range map[string]struct {
		world func(int) []*ledger.Provider
		req   *candidates.Request
	}{
		"three classes": {flatWorld, threeClasses()}, "traits of the root": {flatWorld, filtered},
		"one of two traits": {flatWorld, either}, "devices": {nested, devices(2)}, "hosts of devices": {nested, one(coreClass)},
	} {
		bytes := map[int]uint64{}
		for _, n := range []int{1_000, 20_000} {
			all, x := c.world(n), candidates.NewIndex()
			x.Add(all)
			x.Snapshot() // so that what each search's change touches is copied, from the first on
			req := *c.req
			req.Limit = 10
			bytes[n] = allocated(func() {
				x.Apply(taking(all, 0))
				found := 0
				err := candidates.Search(context.Background(), x.Snapshot(), &req, func(*candidates.Candidate) bool {
					found++
					return true
				})
				if err != nil || found != req.Limit {
					t.Fatal(found, err)
				}
			})
		}
		if bytes[20_000] > 2*bytes[1_000] {
			t.Errorf("%s: %d bytes of 1,000 providers, %d of 20,000", name, bytes[1_000], bytes[20_000])
		}
	}
}

// TestMovesGiveNoWay: GiveWay is that of a search that may have ended when what changed is filed.
func TestMovesGiveNoWay(t *testing.T) {
	all, x := flat(2000, 8), candidates.NewIndex()
	x.Add(all[:1000])
	ranking := candidates.NewRanking(x.Snapshot())
	ranking.Prepare()
	ranking.GiveWay = func() { t.Error("it gives way") }
	x.Add(all[1000:])
	ranking.Sync(x.Snapshot())
	best, err := ranking.Best(context.Background(), threeClasses(), &candidates.Preference{}, 2000)
	if err != nil || len(best) != 2000 {
		t.Errorf("%d found, %v", len(best), err)
	}
}

// TestPrepared: claims find their orders there, if they pack or spread what most have, or have no
// preference.
func TestPrepared(t *testing.T) {
	all, x := flat(1000, 8), candidates.NewIndex()
	x.Add(all[:10])
	ranking := candidates.NewRanking(x.Snapshot())
	if ranking.Prepare(); ranking.Orders() != 0 {
		t.Error("an order of 10 roots")
	}
	x.Add(all[10:])
	ranking.Sync(x.Snapshot())
	ranking.Prepare()
	before := allocated(func() { ranking.Prepare() })
	for _, weight := range []float64{0, 1, -1} {
		pref := &candidates.Preference{}
		if weight != 0 {
			pref.Weights = weightOfAll(weight)
		}
		best, err := ranking.Best(context.Background(), threeClasses(), pref, 1)
		if err != nil || len(best) != 1 || ranking.Orders() != 3 || before > 1000 {
			t.Errorf("%d orders; %d found, %v; %d bytes for what is there", ranking.Orders(), len(best), err, before)
		}
	}
}
