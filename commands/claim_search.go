package commands

import (
	"context"
	"errors"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// ClaimSearch finds what claims ask for. It is pure: the same Ranking and the
// same claim give the same.
type ClaimSearch struct {
	Ranking *candidates.Ranking
	Classes *ledger.ClassTable
	AsOf    uint64
	Seed    uint64
	// MaxSteps bounds the work; 0: no bound.
	MaxSteps int
	Pause    func(context.Context) error
	// Spare is how many more choices are found than are told, in case that the
	// best does not fit any more when it is decided.
	Spare int
	// Held finds what a consumer holds.
	Held func(ledger.UUID) ([]ledger.Allocation, error)
}

const (
	// gangBreadth is how many candidates of one consumer are tried with all those
	// of the others before it is given up.
	gangBreadth = 16
	// gangSteps is how often a candidate is tried for a claim of several consumers.
	gangSteps = 4096
)

// Run searches. The error wraps candidates.ErrBudget if it would take too
// long, or is a *RejectedClaim.
func (s *ClaimSearch) Run(ctx context.Context, c *Claim) (*Found, error) {
	found := &Found{AsOf: s.AsOf, Seed: s.Seed}
	requests := make([]*candidates.Request, len(c.Requests))
	prefs := make([]*candidates.Preference, len(c.Requests))
	for i := range c.Requests {
		var r *Rejection
		if requests[i], r = c.Requests[i].Resolve(s.Classes); r == nil {
			prefs[i], r = c.Prefer.resolve(s.Classes, requests[i], s.Seed)
		}
		if r != nil {
			return nil, &RejectedClaim{r}
		}
		requests[i].MaxSteps, requests[i].Pause = s.MaxSteps, s.Pause
		found.Seed = prefs[i].Seed
	}
	var r *Rejection
	if found.Asked, r = c.asked(); r != nil {
		return nil, &RejectedClaim{r}
	}
	if c.OwnFree {
		held, err := s.free(c)
		if err != nil {
			return nil, err
		}
		defer s.Ranking.Assume(held, 1)
	}
	if len(c.For) == 1 {
		best, err := s.Ranking.Best(ctx, requests[0], prefs[0], 1+c.Alternates+s.Spare)
		for _, one := range best {
			found.Choices = append(found.Choices, Choice{Members: []candidates.Ranked{one}})
		}
		return found, err
	}
	g := gang{ClaimSearch: s, ctx: ctx, claim: c, requests: requests, prefs: prefs}
	whole, err := g.fill(0)
	if whole {
		found.Choices = []Choice{{Members: g.members}}
	}
	found.Spent = g.spent
	return found, err
}

// free has what the claim's consumers hold given back, and returns what that is.
func (s *ClaimSearch) free(c *Claim) (held []candidates.Use, err error) {
	for i := range c.For {
		one, err := s.Held(c.For[i].Consumer)
		if err != nil {
			return nil, err
		}
		for _, a := range one {
			held = append(held, candidates.Use{
				Provider: &ledger.Provider{UUID: a.Provider}, Class: a.Class, Amount: a.Amount,
			})
		}
	}
	s.Ranking.Assume(held, -1)
	return held, nil
}

// gang is the search for several consumers: the best of the first for which
// there is something for all others, and so on.
type gang struct {
	*ClaimSearch
	ctx      context.Context
	claim    *Claim
	requests []*candidates.Request
	prefs    []*candidates.Preference

	members []candidates.Ranked // of the consumers so far
	tried   int
	spent   bool // not everything was tried
}

// fill finds something for the consumers from one on.
func (g *gang) fill(i int) (whole bool, err error) {
	if i == len(g.claim.For) {
		return true, nil
	}
	at := g.claim.For[i].Request
	best, err := g.Ranking.Best(g.ctx, g.requests[at], g.prefs[at], gangBreadth)
	if err != nil {
		return false, err
	}
	for j := range best {
		if g.tried++; g.tried > gangSteps {
			g.spent = true
			return false, nil
		}
		g.members = append(g.members, best[j])
		g.Ranking.Assume(best[j].Uses, 1)
		whole, err = g.fill(i + 1)
		g.Ranking.Assume(best[j].Uses, -1)
		if whole || err != nil {
			return whole, err
		}
		g.members = g.members[:i]
	}
	if len(best) == gangBreadth && i < len(g.claim.For)-1 {
		g.spent = true // there may be more
	}
	return false, nil
}

// Spent reports whether an error of a search is that it would take too long.
func Spent(err error) bool { return errors.Is(err, candidates.ErrBudget) }

// Claims are the claims that a command is or holds: they must be searched before
// it is decided.
func Claims(c Command) (claims []*Claim) {
	switch c := c.(type) {
	case *Claim:
		return []*Claim{c}
	case *Batch:
		for _, one := range c.Commands {
			if claim, is := one.(*Claim); is {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// WithFound is a command with what was found for each of its claims.
func WithFound(c Command, found []*Found) Command {
	switch c := c.(type) {
	case *Claim:
		out := *c
		out.found = found[0]
		return &out
	case *Batch:
		out := &Batch{Commands: make([]Command, len(c.Commands))}
		for i, one := range c.Commands {
			if _, is := one.(*Claim); is {
				one, found = WithFound(one, found[:1]), found[1:]
			}
			out.Commands[i] = one
		}
		return out
	}
	return c
}
