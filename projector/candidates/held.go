package candidates

import (
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Held returns a Ranking of the trees of some providers in which there is room for what is
// left of a reservation, and for nothing else.
func (r *Ranking) Held(left []ledger.Allocation, beside []ledger.UUID) *Ranking {
	room := make(map[ledger.UUID][]ledger.Allocation)
	ids := beside
	for _, a := range left {
		room[a.Provider] = append(room[a.Provider], a)
		ids = append(ids, a.Provider)
	}
	seen := make(map[ledger.UUID]bool)
	var providers []*ledger.Provider
	for _, id := range ids {
		p, known := r.base.Provider(id)
		if !known || seen[p.Root] {
			continue
		}
		seen[p.Root] = true
		r.base.Tree(p.Root, func(one *ledger.Provider) { providers = append(providers, holding(one, room[one.UUID])) })
	}
	out := NewRanking(NewWorld(providers))
	out.GiveWay = r.GiveWay
	return out
}

// holding is a provider with room for what is left alone. That is drawn from counters already.
func holding(p *ledger.Provider, left []ledger.Allocation) *ledger.Provider {
	out := *p
	out.Inventories, out.Counters, out.Draws = nil, nil, nil
	for _, inv := range p.Inventories {
		i := slices.IndexFunc(left, func(a ledger.Allocation) bool { return a.Class == inv.Class })
		if i < 0 || left[i].Amount <= 0 {
			continue
		}
		inv.Total, inv.Reserved, inv.Ratio = max(min(inv.Units(), exactly), left[i].Amount), 0, 1
		inv.Used = inv.Total - left[i].Amount
		out.Inventories = append(out.Inventories, inv)
	}
	return &out
}

// Assumed is what is assumed of what has an id.
func (r *Ranking) Assumed(id ledger.UUID) []ledger.ClassAmount { return r.assumed[id] }
