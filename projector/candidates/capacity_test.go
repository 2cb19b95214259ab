package candidates_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/candidates"
)

// repeats finds how often a request can be served at once, by trying everything.
type repeats struct {
	all    []*ledger.Provider
	req    *candidates.Request
	known  map[string]int // by what is used
	states int            // that are tried at most
}

// most returns false if there is too much to try.
func (r *repeats) most(used map[useKey]int64) (int, bool) {
	key := fmt.Sprint(used)
	if n, known := r.known[key]; known {
		return n, true
	}
	if len(r.known) == r.states {
		return 0, false
	}
	var now []*ledger.Provider
	for _, p := range r.all {
		one := *p
		one.Inventories = slices.Clone(p.Inventories)
		for i := range one.Inventories {
			one.Inventories[i].Used += used[useKey{p.UUID, one.Inventories[i].Class}]
		}
		now = append(now, &one)
	}
	r.known[key] = 0
	most, tried := 0, map[string]bool{}
	for _, sums := range assignments(now, r.req) {
		text := fmt.Sprint(sums)
		if tried[text] {
			continue
		}
		tried[text] = true
		after := map[useKey]int64{}
		maps.Copy(after, used)
		for key, amount := range sums {
			after[key] += amount
		}
		n, ok := r.most(after)
		if !ok {
			return 0, false
		}
		most = max(most, n+1)
	}
	r.known[key] = most
	return most, true
}

// TestCapacity compares how many more allocations fit into small worlds with all ways to make
// them, one after the other.
func TestCapacity(t *testing.T) {
	worlds, compared, exact, several := worldsToTry(t, 1500), 0, 0, 0
	for seed := range uint64(worlds) {
		d := small{rand.New(rand.NewPCG(seed, 42))}
		all := d.world()
		if d.often(2) { // much is free
			for _, p := range all {
				for i := range p.Inventories {
					p.Inventories[i].Used = 0
				}
			}
		}
		req := d.request(all)
		if d.often(2) { // one kind of group
			req.Groups = slices.DeleteFunc(req.Groups, func(g candidates.Group) bool {
				return g.Suffix != req.Groups[0].Suffix && !alike(&g, &req.Groups[0])
			})
			req.SameSubtree = nil
		}
		if !slices.ContainsFunc(req.Groups, func(g candidates.Group) bool { return len(g.Resources) > 0 }) {
			continue
		}
		want, ok := (&repeats{all: all, req: req, known: map[string]int{}, states: 60}).most(nil)
		if !ok {
			continue
		}
		got := capacity(t, all, req)
		if got.AtLeast > want || got.AtMost < want {
			t.Fatalf("seed %d: %d to %d, and %d can be served: %+v", seed, got.AtLeast, got.AtMost, want, req)
		}
		compared++
		if got.AtLeast == got.AtMost {
			exact++
		}
		if want > 1 {
			several++
		}
		limited := *req
		limited.Limit = 1 + d.IntN(3)
		if some := capacity(t, all, &limited); some.AtLeast > min(want, limited.Limit) ||
			some.AtMost < min(want, limited.Limit) || some.AtMost > limited.Limit {
			t.Fatalf("seed %d: up to %d: %d to %d, and %d can be served: %+v", seed, limited.Limit, some.AtLeast, some.AtMost, want, req)
		}
	}
	t.Logf("of %d worlds %d were compared, %d exactly, and %d could serve a request more than once", worlds, compared, exact, several)
	if compared < worlds/2 || exact < compared*9/10 || several < worlds/20 {
		t.Error("too few")
	}
}

func alike(a, b *candidates.Group) bool {
	x, y := *a, *b
	x.Suffix, y.Suffix = "", ""
	return fmt.Sprintf("%+v", x) == fmt.Sprintf("%+v", y)
}

// capacity counts, and adds up the trees.
func capacity(t *testing.T, all []*ledger.Provider, req *candidates.Request) *candidates.Capacity {
	t.Helper()
	got := ledgertest.Must(candidates.CountCapacity(context.Background(), candidates.NewWorld(all), req))
	sum := 0
	for i, tree := range got.Trees {
		if sum += tree.Copies; tree.Copies < 1 || i > 0 && tree.Root.CreatedAt <= got.Trees[i-1].Root.CreatedAt {
			t.Errorf("tree %d: %+v", i, tree)
		}
	}
	if sum != got.AtLeast {
		t.Errorf("the trees have %d together, not %d", sum, got.AtLeast)
	}
	return got
}

// TestCapacityWork: to count takes no more steps than to list all candidates; and what takes
// more than there may be shows as bounds.
func TestCapacityWork(t *testing.T) {
	all := hosts(10_000, 1, none, nil)
	req := devices(1)
	pauses := 0
	req.Pause = func(context.Context) error { pauses++; return nil }
	if got := capacity(t, all, req); got.AtLeast != 10_000 || got.AtMost != 10_000 || len(got.Trees) != 10_000 {
		t.Errorf("%d to %d, %d trees", got.AtLeast, got.AtMost, len(got.Trees))
	}
	counted := pauses
	pauses = 0
	search(t, candidates.NewWorld(all), req)
	if counted == 0 || counted > pauses {
		t.Errorf("there were %d pauses, and %d when all were listed", counted, pauses)
	}
	packing := devices(2)
	packing.Groups[1].Resources[0].Amount = 2
	wide := hosts(100, 4, none, func(_, _ int, p *ledger.Provider) {
		p.Inventories[0].Total, p.Inventories[0].MaxUnit = 5, 5
	})
	if whole := capacity(t, wide, packing); whole.AtLeast != 600 || whole.AtMost != 600 {
		t.Errorf("%d to %d", whole.AtLeast, whole.AtMost)
	}
	packing.MaxSteps = 15_000
	if part := capacity(t, wide, packing); part.AtLeast == 0 || part.AtLeast >= 600 || part.AtMost < 600 {
		t.Errorf("in few steps: %d to %d", part.AtLeast, part.AtMost)
	}
	packing.MaxSteps = 500
	_, err := candidates.CountCapacity(context.Background(), candidates.NewWorld(wide), packing)
	if !errors.Is(err, candidates.ErrBudget) {
		t.Errorf("in no steps: %v", err)
	}
}
