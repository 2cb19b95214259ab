package answers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/allot-project/allot/api/turns"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Bounds of requests for candidates.
const (
	defaultCandidates = 1000
	maxCandidates     = 10_000 // in one answer
	maxGroups         = 64
)

// Candidates finds the allocations in a world that would satisfy a request, in at
// most maxSteps steps (0: no bound). If the context carries work of a pool
// (turns.Work), it takes turns with others. The error wraps ErrQuery if the
// request is at fault.
func Candidates(
	ctx context.Context, v Reader, world *candidates.World, q *wire.CandidatesQuery, maxSteps int,
) ([]wire.Candidate, error) {
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	request, err := candidatesRequest(q, classes)
	if err != nil {
		return nil, err
	}
	request.MaxSteps, request.Pause = maxSteps, turns.Pause
	found := []wire.Candidate{}
	err = candidates.Search(ctx, world, request, func(c *candidates.Candidate) bool {
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
		found = append(found, one)
		return true
	})
	if errors.Is(err, candidates.ErrBudget) {
		return nil, bad("%v: ask with a lower limit or for fewer groups", err)
	}
	return found, err
}

func candidatesRequest(q *wire.CandidatesQuery, classes *ledger.ClassTable) (*candidates.Request, error) {
	if len(q.Groups) == 0 || len(q.Groups) > maxGroups {
		return nil, bad("groups: between 1 and %d are possible, not %d", maxGroups, len(q.Groups))
	}
	if q.Limit < 0 || q.Limit > maxCandidates {
		return nil, bad("limit: %d is not between 1 and %d", q.Limit, maxCandidates)
	}
	request := &candidates.Request{
		Isolate: q.Isolate, SameSubtree: q.SameSubtree, RootRequired: q.RootRequired, RootForbidden: q.RootForbidden,
		Limit: q.Limit, Nested: true,
	}
	if request.Limit == 0 {
		request.Limit = defaultCandidates
	}
	suffixes := make(map[string]bool, len(q.Groups))
	for _, g := range q.Groups {
		if suffixes[g.Suffix] {
			return nil, bad("groups: suffix %q is given twice", g.Suffix)
		}
		suffixes[g.Suffix] = true
		group := candidates.Group{
			Suffix: g.Suffix, Required: g.Required, Forbidden: g.Forbidden, MemberOf: g.MemberOf, NotMemberOf: g.NotMemberOf,
			InTree: g.InTree,
		}
		if g.Suffix == "" && len(g.Resources) == 0 {
			return nil, bad("groups: the one without a suffix needs resources")
		}
		for _, class := range slices.Sorted(maps.Keys(g.Resources)) {
			id, known := classes.ID(class)
			if amount := g.Resources[class]; !known || amount < 1 {
				return nil, bad("groups: %d of class %q cannot be asked for", amount, class)
			}
			group.Resources = append(group.Resources, candidates.Resource{Class: id, Amount: g.Resources[class]})
		}
		request.Groups = append(request.Groups, group)
	}
	for _, subtree := range q.SameSubtree {
		for _, suffix := range subtree {
			if suffix == "" || !suffixes[suffix] {
				return nil, bad("same_subtree: there is no group %q", suffix)
			}
		}
	}
	return request, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrQuery, fmt.Sprintf(format, args...))
}
