package candidates

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/ledger"
)

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
