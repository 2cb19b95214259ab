package present

import (
	"context"
	"slices"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/demand"
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
	sums, err := SumsBy(v, q.By, q.Topology)
	if err != nil {
		return nil, err
	}
	capacity, err := Capacity(ctx, world, request, sums, q.Marker)
	return capacity, overBudget(err)
}

// Capacity counts how often a request can be served, up to its limit: by trees, of which it
// gives those behind a marker or the first ones, and by aggregates, if sums are asked for. The
// error wraps ErrQuery if the marker is at fault.
func Capacity(
	ctx context.Context, world *candidates.World, req *candidates.Request, sums Sums, marker *ledger.UUID,
) (*wire.Capacity, error) {
	counted, err := candidates.CountCapacity(ctx, world, req)
	if err != nil {
		return nil, err
	}
	out := &wire.Capacity{
		Capacity: counted.AtLeast, Exact: counted.AtLeast == counted.AtMost, AtLeast: counted.AtLeast,
		AtMost: counted.AtMost, Trees: []wire.TreeCapacity{},
	}
	if sums != nil {
		out.Aggregates = sums(counted.Trees)
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

// Sums adds trees up by aggregates; nil: that is not asked for.
type Sums func([]candidates.TreeCapacity) []wire.AggregateCapacity

// SumsBy finds what capacity is added up by: "aggregate", or "topology" and its name. The error wraps
// ErrQuery if they are at fault.
func SumsBy(v Reader, by, topology string) (Sums, error) {
	if (by == "topology") != (topology != "") {
		return nil, bad("by=topology and the topology's name go together, and by is %q, topology %q", by, topology)
	}
	switch by {
	case "":
		return nil, nil
	case "aggregate":
		return byAggregate, nil
	case "topology":
		kept, exists, err := v.Topology(topology)
		if err == nil && !exists {
			err = bad("there is no topology %s", topology)
		}
		if err != nil {
			return nil, err
		}
		return func(trees []candidates.TreeCapacity) []wire.AggregateCapacity { return byDomain(kept, trees) }, nil
	}
	return nil, bad("by: %q is neither aggregate nor topology", by)
}

// byDomain adds up the trees of each domain, the widest first: of those whose roots are in it, or in
// one in it.
func byDomain(kept *ledger.Topology, trees []candidates.TreeCapacity) []wire.AggregateCapacity {
	top, sums := demand.TopologyOf(kept), make(map[ledger.UUID]int)
	for _, tree := range trees {
		id, stands := top.DomainOf(tree.Root.Aggregates)
		for up := &id; stands && up != nil; up = top.Members[up.String()].Parent {
			sums[*up] += tree.Copies
		}
	}
	list := make([]wire.AggregateCapacity, len(kept.Members))
	for i, one := range kept.Members {
		list[i] = wire.AggregateCapacity{
			Aggregate: one.Aggregate, Level: kept.Levels[one.Level], Name: one.Name, Capacity: sums[one.Aggregate],
		}
	}
	return list
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
