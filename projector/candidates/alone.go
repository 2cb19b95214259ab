package candidates

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// servesAlone reports whether a provider that is a tree by itself satisfies a
// request, as a search would find.
func servesAlone(req *Request, p *ledger.Provider) bool {
	for _, name := range req.RootRequired {
		if !p.HasTrait(name) {
			return false
		}
	}
	if hasAny(p, req.RootForbidden) {
		return false
	}
	suffixed := 0
	for i := range req.Groups {
		g := &req.Groups[i]
		if g.Suffix != "" {
			if suffixed++; suffixed > 1 && req.Isolate {
				return false
			}
			if len(g.Resources)+len(g.Required)+len(g.MemberOf) == 0 {
				return false
			}
		}
		if !passes(g, p) || !fits(p, g.Resources) {
			return false
		}
	}
	return len(req.Groups) == 1 || fitTogether(req, p)
}

// passes makes a group's checks of names for a provider that serves it alone.
func passes(g *Group, p *ledger.Provider) bool {
	for _, anyOf := range g.Required {
		if !hasAny(p, anyOf) {
			return false
		}
	}
	return memberOfAll(p, g.MemberOf) && !hasAny(p, g.Forbidden) && !memberOfAny(p, g.NotMemberOf) &&
		(g.InTree == nil || len(g.Resources) == 0 || *g.InTree == p.UUID)
}

// fitTogether checks the sums of what groups take of a provider.
func fitTogether(req *Request, p *ledger.Provider) bool {
	for _, use := range usesOf(req, p) {
		inv, _ := p.Inventory(use.Class)
		if use.Amount > inv.MaxUnit || float64(inv.Used+use.Amount) > inv.Capacity() {
			return false
		}
	}
	return true
}

// usesOf is what a request takes of a provider that serves all of it, in the
// order in which a search has it.
func usesOf(req *Request, p *ledger.Provider) []Use {
	var uses []Use
	for i := range req.Groups {
		for _, r := range req.Groups[i].Resources {
			sum := r.Amount
			if j := slices.IndexFunc(uses, func(u Use) bool { return u.Class == r.Class }); j >= 0 {
				sum += uses[j].Amount
				uses = slices.Delete(uses, j, j+1)
			}
			uses = append(uses, Use{Provider: p, Class: r.Class, Amount: sum})
		}
	}
	return uses
}

// Serving lists the providers that alone satisfy a group, in the order of their
// creation, as GET /resource_providers asks for them. Unlike in a search, every
// provider serves a group without requirements, and in_tree always counts.
func (w *World) Serving(g *Group) []*ledger.Provider {
	var list []*ledger.Provider
	forests := forests{world: w}
	for it := w.inGroup(g).bits().Iterator(); it.HasNext(); {
		if p := w.entries.get(it.Next()).p; fits(p, g.Resources) && forests.admitAlone(p, g) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *ledger.Provider) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), a.UUID.Compare(b.UUID))
	})
	return list
}

// Serves finds a provider if it alone satisfies a group, by the rules of Serving.
func (w *World) Serves(id ledger.UUID, g *Group) (*ledger.Provider, bool) {
	number, found := w.number(id)
	if !found || !w.inGroup(g).contains(number) {
		return nil, false
	}
	p := w.entries.get(number).p
	forests := forests{world: w}
	return p, fits(p, g.Resources) && forests.admitAlone(p, g)
}

func (w *World) inGroup(g *Group) *set {
	members := w.allowed(g)
	if g.InTree != nil {
		members.and(w.treeOf(*g.InTree))
	}
	return members
}
