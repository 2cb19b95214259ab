package present

import (
	"context"
	"slices"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// maxTrees is how many trees a page has at most.
const maxTrees = 1000

// CapacityAsked counts for a query as Candidates searches.
func CapacityAsked(
	ctx context.Context, v Reader, world *candidates.World, q *wire.CapacityQuery, maxSteps int,
) (*wire.Capacity, error) {
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	if q.Limit < 0 {
		return nil, bad("limit: %d is below 1", q.Limit)
	}
	request, err := candidatesRequest(&wire.CandidatesQuery{
		Groups: q.Groups, Isolate: q.Isolate, SameSubtree: q.SameSubtree, RootRequired: q.RootRequired,
		RootForbidden: q.RootForbidden,
	}, classes)
	if err != nil {
		return nil, err
	}
	request.Limit, request.MaxSteps, request.Pause = q.Limit, maxSteps, fair.Pause
	capacity, err := Capacity(ctx, world, request, q.By, q.Marker)
	return capacity, overBudget(err)
}

// Capacity counts how often a request can be served, up to its limit: by trees, of which it
// gives those behind a marker or the first ones, and by aggregates, if that is asked for. The
// error wraps ErrQuery if by or the marker is at fault.
func Capacity(
	ctx context.Context, world *candidates.World, req *candidates.Request, by string, marker *ledger.UUID,
) (*wire.Capacity, error) {
	if by != "" && by != "aggregate" {
		return nil, bad("by: %q is not aggregate", by)
	}
	counted, err := candidates.CountCapacity(ctx, world, req)
	if err != nil {
		return nil, err
	}
	out := &wire.Capacity{
		Capacity: counted.AtLeast, Exact: counted.AtLeast == counted.AtMost, AtLeast: counted.AtLeast,
		AtMost: counted.AtMost, Trees: []wire.TreeCapacity{},
	}
	if by != "" {
		out.Aggregates = byAggregate(counted.Trees)
	}
	page := counted.Trees
	if marker != nil {
		known := false
		if page, known = world.Behind(*marker, page); !known {
			return nil, bad("marker: there is no tree %s any more: begin again without a marker", marker)
		}
	}
	for i, tree := range page {
		if i == maxTrees {
			out.Next = &page[i-1].Root.UUID
			break
		}
		out.Trees = append(out.Trees, wire.TreeCapacity{Root: tree.Root.UUID, Capacity: tree.Copies})
	}
	return out, nil
}

// byAggregate adds up the trees of each aggregate: those whose roots are in it.
func byAggregate(trees []candidates.TreeCapacity) []wire.AggregateCapacity {
	list := []wire.AggregateCapacity{}
	sums := make(map[ledger.UUID]int)
	for _, tree := range trees {
		for _, id := range tree.Root.Aggregates {
			sums[id] += tree.Copies
		}
	}
	for id, sum := range sums {
		list = append(list, wire.AggregateCapacity{Aggregate: id, Capacity: sum})
	}
	slices.SortFunc(list, func(a, b wire.AggregateCapacity) int { return a.Aggregate.Compare(b.Aggregate) })
	return list
}
