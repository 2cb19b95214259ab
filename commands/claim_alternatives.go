package commands

import (
	"context"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// MaxAlternatives is how many alternatives a claim has.
const MaxAlternatives = 16

// Lists are the alternatives of a claim, each a list of requests; of one without alternatives its
// requests alone.
func (c *Claim) Lists() [][]demand.CandidateRequest {
	if len(c.Alternatives) == 0 {
		return [][]demand.CandidateRequest{c.Requests}
	}
	return c.Alternatives
}

// as is the claim for one of its alternatives alone.
func (c *Claim) as(alternative int) *Claim {
	one := *c
	one.Requests, one.Alternatives = c.Alternatives[alternative], nil
	return &one
}

func (c *Claim) checkAlternatives() *demand.Rejection {
	if len(c.Requests) > 0 {
		return demand.Invalid("alternatives", "a claim has requests or alternatives, not both")
	}
	if n := len(c.Alternatives); n > MaxAlternatives {
		return demand.Invalid("alternatives", "a claim has at most %d, not %d", MaxAlternatives, n)
	}
	for i := range c.Alternatives {
		if r := c.as(i).Check(); r != nil {
			r.Message = fmt.Sprintf("%s, in alternative %d", r.Message, i)
			return r
		}
	}
	return nil
}

// decideAlternatives takes the first alternative for which something was found.
func (c *Claim) decideAlternatives(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	for i := range c.Alternatives {
		for j := range c.Alternatives[i] {
			if r := c.Alternatives[i][j].CheckTraits(s); r != nil {
				return nil, r
			}
		}
	}
	found := c.found
	if found == nil {
		var r *demand.Rejection
		if found, r = c.searchHere(s); r != nil {
			return nil, r
		}
	}
	one := c.as(found.Alternative)
	one.found = found
	return one.Decide(s)
}

// Run searches: of alternatives the first for which there is something. The error wraps
// candidates.ErrBudget if it would take too long, or is a *RejectedClaim.
func (s *ClaimSearch) Run(ctx context.Context, c *Claim) (found *Found, err error) {
	if len(c.Alternatives) == 0 {
		return s.run(ctx, c)
	}
	for _, list := range c.Alternatives {
		for i := range list {
			if _, r := list[i].Resolve(s.Classes); r != nil {
				return nil, &RejectedClaim{r}
			}
		}
	}
	var earlier []string
	for i := range c.Alternatives {
		if found, err = s.run(ctx, c.as(i)); err != nil {
			return nil, err
		}
		if found.Alternative, found.Earlier = i, earlier; len(found.Choices) > 0 {
			break
		}
		earlier = append(earlier, found.unfit())
	}
	return found, nil
}

// unfit says why an alternative was passed over, without what others hold.
func (f *Found) unfit() string {
	switch {
	case f.Spent:
		return "within the bounds of the search nothing was found"
	case f.OverAggregate != nil:
		return "limits of aggregates left no room"
	case f.draws:
		return "not enough is left of the reservation"
	case f.Prefer.Strict():
		return "nothing satisfied it, given what is required and forbidden about other consumers"
	case f.Ganged:
		return "nothing satisfied it for all consumers together by the rules of the gang"
	}
	return "nothing satisfied it"
}
