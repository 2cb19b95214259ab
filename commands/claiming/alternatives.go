package claiming

import (
	"context"

	"github.com/allot-project/allot/commands/demand"
)

// Run searches: of alternatives the first for which there is something. The error wraps
// candidates.ErrBudget if it would take too long, or is a *demand.Rejected.
func (s *Search) Run(ctx context.Context, c *demand.Claim) (found *demand.Found, err error) {
	if len(c.Alternatives) == 0 {
		return s.run(ctx, c)
	}
	for _, list := range c.Alternatives {
		for i := range list {
			if _, r := list[i].Resolve(s.Classes); r != nil {
				return nil, &demand.Rejected{Rejection: r}
			}
		}
	}
	var earlier []string
	for i := range c.Alternatives {
		if found, err = s.run(ctx, c.Only(i)); err != nil {
			return nil, err
		}
		if found.Alternative, found.Earlier = i, earlier; len(found.Choices) > 0 {
			break
		}
		earlier = append(earlier, unfit(found))
	}
	return found, nil
}

// unfit says why an alternative was passed over, without what others hold.
func unfit(f *demand.Found) string {
	switch {
	case f.Spent:
		return "within the bounds of the search nothing was found"
	case f.OverAggregate != nil:
		return "limits of aggregates left no room"
	case f.Draws:
		return "not enough is left of the reservation"
	case f.Prefer.Strict():
		return "nothing satisfied it, given what is required and forbidden about other consumers"
	case f.Standing != nil:
		return "no domain of topology " + f.Standing.Kept.Name + " had room for all consumers"
	case f.Ganged:
		return "nothing satisfied it for all consumers together by the rules of the gang"
	}
	return "nothing satisfied it"
}
