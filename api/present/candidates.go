package present

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Bounds of requests for candidates.
const (
	defaultCandidates = 1000
	maxCandidates     = 10_000 // in one answer
)

// Candidates finds the allocations in a world that would satisfy a request, in at
// most maxSteps steps (0: no bound). If the context carries work of a pool
// (fair.Work), it takes turns with others. The error wraps ErrQuery if the
// request is at fault.
func Candidates(
	ctx context.Context, v Reader, world *candidates.World, q *wire.CandidatesQuery, maxSteps int,
) ([]wire.Candidate, error) {
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	request, err := candidatesRequest(v, q, classes)
	if err != nil {
		return nil, err
	}
	request.MaxSteps, request.Pause = maxSteps, fair.Pause
	found := []wire.Candidate{}
	if q.Prefer != nil {
		page, err := Ranked(ctx, v, world, request, q.Prefer, q.Marker)
		if err != nil {
			return nil, overBudget(err)
		}
		for i := range page.Candidates {
			one := candidateOf(&page.Candidates[i].Candidate, request, classes)
			one.Score, one.Marker = &page.Candidates[i].Score, page.Markers[i]
			found = append(found, one)
		}
		return found, nil
	}
	if q.Marker != "" {
		return nil, bad("marker: pages are in the order of a preference: give prefer, too")
	}
	err = candidates.Search(ctx, world, request, func(c *candidates.Candidate) bool {
		found = append(found, candidateOf(c, request, classes))
		return true
	})
	return found, overBudget(err)
}

func overBudget(err error) error {
	if errors.Is(err, candidates.ErrBudget) {
		return bad("%v: ask with a lower limit or for fewer groups", err)
	}
	return err
}

func candidateOf(c *candidates.Candidate, request *candidates.Request, classes *ledger.ClassTable) wire.Candidate {
	one := wire.Candidate{Mappings: make(map[string][]ledger.UUID, len(c.Groups))}
	for _, use := range c.Uses {
		one.Allocations = append(
			one.Allocations, wire.Allocation{Provider: use.Provider.UUID, Class: classes.Name(use.Class), Amount: use.Amount},
		)
	}
	for i, members := range c.Groups {
		for _, p := range members {
			suffix := request.Groups[i].Suffix
			one.Mappings[suffix] = append(one.Mappings[suffix], p.UUID)
		}
	}
	return one
}

func candidatesRequest(v Reader, q *wire.CandidatesQuery, classes *ledger.ClassTable) (*candidates.Request, error) {
	if q.Limit < 0 || q.Limit > maxCandidates {
		return nil, bad("limit: %d is not between 1 and %d", q.Limit, maxCandidates)
	}
	asked := demand.CandidateRequest{
		Groups: q.Groups, Isolate: q.Isolate, SameSubtree: q.SameSubtree, RootRequired: q.RootRequired,
		RootForbidden: q.RootForbidden,
	}
	if rejection := asked.Check(); rejection != nil {
		return nil, bad("%s", rejection.Message)
	}
	if err := checkTraits(v, "", asked.Traits()); err != nil {
		return nil, err
	}
	request, rejection := asked.Resolve(classes)
	if rejection != nil {
		return nil, bad("groups: %s", rejection.Message)
	}
	request.Limit = q.Limit
	if request.Limit == 0 {
		request.Limit = defaultCandidates
	}
	return request, nil
}

// checkTraits finds one of the traits of a field that does not exist.
func checkTraits(v Reader, field string, names []string) error {
	for _, name := range names {
		if _, known, err := v.Trait(name); err != nil {
			return err
		} else if !known {
			return bad("%sthere is no trait %s", field, name)
		}
	}
	return nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
}

// rowsAsked is how many rows a query asks for: some if it does not say, and at most so many.
func rowsAsked(limit, some, most int) (int, error) {
	if limit == 0 {
		return some, nil
	}
	if limit < 1 || limit > most {
		return 0, bad("limit: %d is not a number from 1 to %d", limit, most)
	}
	return limit, nil
}

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
	request, err := candidatesRequest(v, &wire.CandidatesQuery{
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
