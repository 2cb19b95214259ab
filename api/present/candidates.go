package present

import (
	"context"
	"errors"
	"fmt"

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
	request, err := candidatesRequest(q, classes)
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

func candidatesRequest(q *wire.CandidatesQuery, classes *ledger.ClassTable) (*candidates.Request, error) {
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
