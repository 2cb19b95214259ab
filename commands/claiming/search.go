// Package claiming finds what claims ask for: for each consumer the best candidate by what is
// preferred, and for several together what the rules of their gang, limits of aggregates and
// reservations leave. It is pure; the decision of a claim (commands.Claim) takes what it finds.
package claiming

import (
	"context"
	"errors"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Search finds what claims ask for. It is pure: the same Ranking and the
// same claim give the same.
type Search struct {
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
	// Named finds what has a name.
	Named demand.Named
	// Consumer finds a consumer; nil: it holds nothing.
	Consumer func(ledger.UUID) (*ledger.Consumer, error)
	// Limits are those of aggregates, with what is used of them.
	Limits []*ledger.AggregateLimit
}

const (
	// gangBreadth is how many candidates of one consumer are tried with all those
	// of the others before it is given up.
	gangBreadth = 16
	// gangSteps is how often a candidate is tried for a claim of several consumers.
	gangSteps = 4096
	// gangTurn is for how many consumers that ask the same one search is made.
	gangTurn = 64
)

// run searches for what has no alternatives.
func (s *Search) run(ctx context.Context, c *demand.Claim) (*demand.Found, error) {
	found := &demand.Found{AsOf: s.AsOf, Seed: s.Seed, Several: c.Size() > 1}
	prefer, r, err := c.Prefer.Expand(s.Named.Preference)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return nil, &demand.Rejected{Rejection: r}
	}
	found.Prefer = prefer
	near, err := prefer.Nearness(s.held)
	if err != nil {
		return nil, err
	}
	requests := make([]*candidates.Request, len(c.Requests))
	prefs := make([]*candidates.Preference, len(c.Requests))
	for i := range c.Requests {
		if requests[i], r = c.Requests[i].Resolve(s.Classes); r == nil {
			prefs[i], r = prefer.Resolve(s.Classes, requests[i], s.Seed)
		}
		if r != nil {
			return nil, &demand.Rejected{Rejection: r}
		}
		requests[i].MaxSteps, requests[i].Pause = s.MaxSteps, s.Pause
		prefs[i].Near, prefs[i].Once = near, true
		found.Seed = prefs[i].Seed
	}
	if found.Asked, r = c.Asked(prefer); r != nil {
		return nil, &demand.Rejected{Rejection: r}
	}
	if found.Standing, err = s.standing(c); err != nil {
		return nil, err
	}
	members := c.Members()
	room, err := s.room(c, members)
	if err != nil {
		return nil, err
	}
	if room != nil {
		for _, pref := range prefs {
			pref.Fits = room.fits
		}
		defer func() { found.OverAggregate = room.first }()
	}
	if c.OwnFree {
		held, err := s.free(members)
		if err != nil {
			return nil, err
		}
		defer s.Ranking.Assume(held, 1)
	}
	pools, promised, err := s.pools(c, near)
	if err != nil {
		return nil, err
	}
	found.Draws, found.Promised = len(pools) > 0, promised
	if len(members) == 1 {
		ranking, pref := pools.of(&members[0], s.Ranking, prefs[0])
		best, err := ranking.Best(ctx, requests[0], pref, 1+c.Alternates+s.Spare)
		for _, one := range best {
			found.Choices = append(found.Choices, demand.Choice{Members: []candidates.Ranked{one}})
		}
		return found, err
	}
	g := gang{Search: s, ctx: ctx, claim: c, consumers: members, pools: pools, requests: requests, prefs: prefs}
	_, g.rules = demand.PartGang(c.Gang)
	g.standing = found.Standing
	whole, err := g.all()
	if whole {
		found.Choices = []demand.Choice{{Members: g.members}}
	}
	found.Spent, found.Ganged = g.spent, len(c.Gang) > 0
	return found, err
}

// free has what a claim's consumers hold given back, and returns what that is.
func (s *Search) free(members []demand.ClaimConsumer) (held []candidates.Use, err error) {
	for i := range members {
		one, err := s.held(members[i].Consumer)
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
	*Search
	ctx      context.Context
	claim    *demand.Claim
	requests []*candidates.Request
	prefs    []*candidates.Preference
	// consumers are those that it is for.
	consumers []demand.ClaimConsumer
	pools     pools
	standing  *demand.Standing
	places    []candidates.Near // of each consumer, in a topology: the tree in which it stands
	rules     []demand.GangRule // but for the topology

	members []candidates.Ranked // of the consumers so far
	assumed int                 // of how many of them it is assumed, for those behind them
	tried   int
	spent   bool // not everything was tried
}

func (g *gang) all() (whole bool, err error) {
	if g.standing != nil {
		return g.stand()
	}
	if whole, err = g.first(); whole || err != nil {
		return whole, err
	}
	if enough, err := g.enough(); !enough || err != nil {
		return false, err
	}
	return g.fill(0)
}

// first finds the best for each consumer, without regard to those that come after it.
// Mostly that is possible. If it is not, fill tries more, also what differs only in which
// of like providers serves which of like groups: to the others they may not be alike.
func (g *gang) first() (whole bool, err error) {
	for whole = true; whole && err == nil && len(g.members) < len(g.consumers); {
		whole, err = g.give()
	}
	g.undo(whole)
	return whole, err
}

// give finds the best for the next consumer, and for those behind it that ask the same.
func (g *gang) give() (found bool, err error) {
	first := len(g.members)
	next := g.consumers[first:]
	at, n := next[0].Request, 1
	alike := func(i int) bool {
		return next[i].Request == at && next[i].FromReservation == nil && g.together(first, first+i)
	}
	for len(g.rules) == 0 && alike(0) && n < min(gangTurn, len(next)) && alike(n) {
		n++
	}
	ranking, prefer := g.pools.of(&next[0], g.Ranking, g.prefs[at])
	best, err := ranking.InTurn(g.ctx, g.requests[at], g.within(prefer), n)
	if err != nil {
		return false, err
	}
	g.members = append(g.members, best...)
	if len(g.members) < len(g.consumers) {
		for i := range best {
			ranking.Assume(best[i].Uses, 1)
		}
		g.assumed = len(g.members)
	}
	return len(best) > 0, nil
}

// enough compares how many consumers ask for the same with how many can have it at most.
func (g *gang) enough() (bool, error) {
	for at, req := range g.requests {
		n := 0
		for i := range g.consumers {
			if g.consumers[i].Request == at && g.consumers[i].FromReservation == nil {
				n++
			}
		}
		if most, err := g.Ranking.Copies(g.ctx, req, n); most < n || err != nil {
			return false, err
		}
	}
	return true, nil
}

// undo takes back what is assumed for the members so far, which are kept if they are all.
func (g *gang) undo(whole bool) {
	for i := range g.members[:g.assumed] {
		ranking, _ := g.pools.of(&g.consumers[i], g.Ranking, g.prefs[g.consumers[i].Request])
		ranking.Assume(g.members[i].Uses, -1)
	}
	if g.assumed = 0; !whole {
		g.members = nil
	}
}

// fill finds something for the consumers from one on.
func (g *gang) fill(i int) (whole bool, err error) {
	if i == len(g.consumers) {
		return true, nil
	}
	at := g.consumers[i].Request
	ranking, prefer := g.pools.of(&g.consumers[i], g.Ranking, g.prefs[at])
	pref := *g.within(prefer)
	pref.Once = false
	best, err := ranking.Best(g.ctx, g.requests[at], &pref, gangBreadth)
	if err != nil {
		return false, err
	}
	for j := range best {
		if g.tried++; g.tried > gangSteps {
			g.spent = true
			return false, nil
		}
		g.members = append(g.members, best[j])
		ranking.Assume(best[j].Uses, 1)
		whole, err = g.fill(i + 1)
		ranking.Assume(best[j].Uses, -1)
		if whole || err != nil {
			return whole, err
		}
		g.members = g.members[:i]
	}
	if len(best) == gangBreadth && i < len(g.consumers)-1 {
		g.spent = true // there may be more
	}
	return false, nil
}

// together reports whether two consumers stand in one tree, if that is said.
func (g *gang) together(one, other int) bool {
	return g.places == nil || g.places[one].Providers[0] == g.places[other].Providers[0]
}

// within adds to a preference where the next member stands, and what the members so far leave to it by
// the rules of the gang: only those are candidates with which they can still be
// obeyed.
func (g *gang) within(pref *candidates.Preference) *candidates.Preference {
	if len(g.rules) == 0 && g.places == nil {
		return pref
	}
	out := *pref
	out.Near = slices.Clone(pref.Near)
	if g.places != nil {
		out.Near = append(out.Near, g.places[len(g.members)])
	}
	if len(g.rules) == 0 {
		return &out
	}
	out.Apart = slices.ContainsFunc(g.rules, func(rule demand.GangRule) bool {
		return rule.Reach() == candidates.SameProvider
	})
	rules := make([]*ganged, len(g.rules))
	for i := range g.rules {
		rule := &g.rules[i]
		members := make([][]ledger.UUID, len(g.members))
		for j := range g.members {
			members[j] = rule.PlacesBy(g.members[j].Providers(), g.rootOf)
		}
		rules[i] = gangedBy(rule, members, len(g.consumers)-len(g.members))
		if rule.Rule == demand.GangTogether && len(g.members) > 0 {
			// The index finds these; what else is to hold is judged one by one.
			near := candidates.Near{Reach: rule.Reach(), Rule: candidates.RequireNear}
			for _, p := range g.members[0].Providers() {
				near.Providers = append(near.Providers, p.UUID)
			}
			out.Near = append(out.Near, near)
		}
	}
	out.Accept = func(providers []*ledger.Provider) bool {
		return !slices.ContainsFunc(rules, func(r *ganged) bool { return !r.allows(r.rule.PlacesBy(providers, g.rootOf)) })
	}
	return &out
}

func (g *gang) rootOf(p *ledger.Provider) *ledger.Provider {
	root, _ := g.Ranking.Provider(p.Root)
	return root
}

// Spent reports whether an error of a search is that it would take too long.
func Spent(err error) bool { return errors.Is(err, candidates.ErrBudget) }

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
		if slices.Contains(c.Beyond, i) {
			earlier = append(earlier, "a limit of the project, or of one above it, left no room")
			continue
		}
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

const (
	// maxInState is up to how many providers a State itself is searched, which takes as long as
	// there are any, and maxStepsInState bounds that.
	maxInState      = 4096
	maxStepsInState = 200_000
)

// InState searches a State itself for what a claim asks for: what-if questions do, whose State is
// in no index.
func InState(s *ledger.State, c *demand.Claim) (*demand.Found, *demand.Rejection) {
	if n := s.ProviderCount(); n > maxInState {
		return nil, demand.Refuse(demand.CodeClaimBudget, demand.Facts{},
			"a claim is not tried out among more than %d providers, and there are %d", maxInState, n)
	}
	providers := make([]*ledger.Provider, 0, s.ProviderCount())
	s.Providers(func(p *ledger.Provider) bool { providers = append(providers, p); return true })
	var limits []*ledger.AggregateLimit
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool { limits = append(limits, l); return true })
	search := Search{
		Limits:  limits,
		Ranking: candidates.NewRanking(candidates.NewWorld(providers)), Classes: s.Classes(), AsOf: s.Head().Sequence,
		MaxSteps: maxStepsInState, Named: demand.NamedIn(s), Consumer: func(id ledger.UUID) (*ledger.Consumer, error) {
			consumer, _ := s.Consumer(id)
			return consumer, nil
		},
	}
	found, err := search.Run(context.Background(), c)
	var rejected *demand.Rejected
	if errors.As(err, &rejected) {
		return nil, rejected.Rejection
	}
	if err != nil {
		return nil, demand.Invalid("requests", "%v", err)
	}
	found.Last = true
	return found, nil
}
