package audit

import (
	"context"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// fleetReads bounds how many providers a series of the fleet reads: it has fewer
// points when there are many providers.
const fleetReads = 2_000_000

// leastFleetPoints is how many points such a series has in any case.
const leastFleetPoints = 8

// keptTotals is how many moments of the past are kept.
const keptTotals = 4096

// fleetPoints returns how many points a series of the fleet may have.
func (q sums) fleetPoints(wanted int64) int64 {
	world, _ := q.Views.World()
	return max(min(wanted, leastFleetPoints), min(wanted, fleetReads/max(1, int64(world.Len()))))
}

// fleetTotals are the sums of all inventories at moments of the past. The past
// does not change, so they are kept. They are made one at a time, which bounds
// what they take.
type fleetTotals struct {
	mu   sync.Mutex
	kept map[uint64]fleetTotal // by sequence; guarded by mu
}

type fleetTotal struct{ used, capacity map[string]int64 }

// of returns the sums at a moment. They must not be changed.
func (f *fleetTotals) of(ctx context.Context, v projector.View) (used, capacity map[string]int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if found, kept := f.kept[v.Sequence()]; kept {
		return found.used, found.capacity, nil
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, nil, err
	}
	sums := make(map[ledger.ClassID]amounts)
	err = v.Inventories(func(list []ledger.Inventory) bool {
		for i := range list {
			sum := sums[list[i].Class]
			sum.used, sum.capacity = sum.used+list[i].Used, sum.capacity+list[i].Units()
			sums[list[i].Class] = sum
		}
		return true
	})
	if err != nil {
		return nil, nil, err
	}
	one := fleetTotal{make(map[string]int64), make(map[string]int64)}
	for class, sum := range sums {
		one.used[classes.Name(class)], one.capacity[classes.Name(class)] = sum.used, sum.capacity
	}
	if f.kept == nil || len(f.kept) >= keptTotals {
		f.kept = make(map[uint64]fleetTotal)
	}
	f.kept[v.Sequence()] = one
	return one.used, one.capacity, nil
}
