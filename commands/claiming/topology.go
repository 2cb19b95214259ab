package claiming

import (
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// standing reads the topology of a claim's gang; nil: it stands in none.
func (s *Search) standing(c *demand.Claim) (*demand.Standing, error) {
	kept, how, r, err := demand.InTopology(c.Gang, c.Size(), s.Named.Topology)
	if r != nil {
		return nil, &demand.Rejected{Rejection: r}
	}
	if kept == nil || err != nil {
		return nil, err
	}
	return &demand.Standing{Kept: kept, How: how}, nil
}

// host is a tree in which some members of a gang stand.
type host struct {
	root   *ledger.Provider
	domain ledger.UUID
	share  int
}

// stand finds places for all consumers in one domain. By what trees have room for that is exact; that
// some other rule of the claim leaves nothing in one of them makes it uncertain.
func (g *gang) stand() (whole bool, err error) {
	hosts, err := g.hosts()
	if len(hosts) == 0 || err != nil {
		return false, err
	}
	whole = true
	for _, h := range hosts {
		here := candidates.Near{
			Providers: []ledger.UUID{h.root.UUID}, Reach: candidates.SameTree, Rule: candidates.RequireNear,
		}
		for end := len(g.members) + h.share; whole && err == nil && len(g.members) < end; {
			whole, err = g.give(end-len(g.members), here)
		}
	}
	g.spent = !whole
	g.undo(whole)
	return whole, err
}

// hosts are the trees of the domain that holds the gang, domain by domain.
func (g *gang) hosts() (hosts []host, err error) {
	room, err := g.Ranking.Capacity(g.ctx, g.requests[0])
	if err != nil {
		return nil, err
	}
	top := demand.TopologyOf(g.standing.Kept)
	var all []demand.Host
	for _, tree := range room.Trees {
		domain, stands := top.DomainOf(tree.Root.Aggregates)
		if stands && !tree.Root.HasTrait(candidates.SharingTrait) {
			hosts = append(hosts, host{root: tree.Root, domain: domain})
			all = append(all, demand.Host{Domain: domain, Room: tree.Copies})
		}
	}
	_, shares, fits := g.standing.How.Fit(top, all, len(g.consumers))
	if !fits {
		g.spent = room.AtLeast < room.AtMost || room.Shared
		return nil, nil
	}
	for i, share := range shares {
		hosts[i].share = share
	}
	hosts = slices.DeleteFunc(hosts, func(h host) bool { return h.share == 0 })
	slices.SortStableFunc(hosts, func(a, b host) int { return a.domain.Compare(b.domain) })
	return hosts, nil
}
