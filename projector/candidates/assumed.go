package candidates

import (
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Assume has amounts taken, or with sign -1 given back, until the same is
// assumed with the other sign. Sync does not end it.
func (r *Ranking) Assume(uses []Use, sign int64) { r.refile(r.assume(uses, sign)) }

// assume is Assume, but for the orders. It returns the roots that belong elsewhere.
func (r *Ranking) assume(uses []Use, sign int64) (moved []uint32) {
	for i := range uses {
		r.note(uses[i].Provider.UUID, uses[i].Class, sign*uses[i].Amount)
	}
	return r.effects(uses)
}

// effects puts the providers of uses into the world with what is assumed of them, and returns
// the roots that belong elsewhere.
func (r *Ranking) effects(uses []Use) (roots []uint32) {
	for i := range uses {
		id := uses[i].Provider.UUID
		if i > 0 && id == uses[i-1].Provider.UUID {
			continue
		}
		if root, moves := r.effect(id); moves {
			roots = append(roots, root)
		}
	}
	return roots
}

// SyncAfter is Sync to a moment in which some of what was assumed has come true,
// or never will.
func (r *Ranking) SyncAfter(w *World, settled []Use) {
	for _, use := range settled {
		r.note(use.Provider.UUID, use.Class, -use.Amount)
	}
	r.Sync(w)
	r.refile(r.effects(settled)) // what has not come true is in none of the changes
}

func (r *Ranking) note(provider ledger.UUID, class ledger.ClassID, amount int64) {
	if r.within != nil {
		r.noteWithin(provider, class, amount)
	}
	list := r.assumed[provider]
	i := slices.IndexFunc(list, func(a ledger.ClassAmount) bool { return a.Class == class })
	if i < 0 {
		list, i = append(list, ledger.ClassAmount{Class: class}), len(list)
	}
	list[i].Amount += amount
	if list[i].Amount == 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(r.assumed, provider)
	} else {
		r.assumed[provider] = list
	}
}

// CountAggregates has the Ranking count what is assumed in each aggregate.
func (r *Ranking) CountAggregates() {
	if r.within == nil {
		r.countAssumed()
	}
}

// AssumedIn is what is assumed of a class in an aggregate. What a root is in, its tree
// is in. CountAggregates must have been called.
func (r *Ranking) AssumedIn(key ledger.AggregateKey) int64 { return r.within[key] }

// countAssumed counts anew, since providers may be in other aggregates than they were.
func (r *Ranking) countAssumed() {
	r.within = make(map[ledger.AggregateKey]int64)
	for id, list := range r.assumed {
		for _, a := range list {
			r.noteWithin(id, a.Class, a.Amount)
		}
	}
}

func (r *Ranking) noteWithin(provider ledger.UUID, class ledger.ClassID, amount int64) {
	p, known := r.base.Provider(provider)
	if !known {
		return
	}
	root, _ := r.base.Provider(p.Root)
	for _, id := range ledger.WithRoot(p, root) {
		r.within[ledger.AggregateKey{Aggregate: id, Class: class}] += amount
	}
}

// Assumes reports whether anything is assumed.
func (r *Ranking) Assumes() bool { return len(r.assumed) > 0 }

// assuming is a provider with something assumed of it.
func assuming(p *ledger.Provider, list []ledger.ClassAmount) *ledger.Provider {
	if len(list) == 0 {
		return p
	}
	out := *p
	out.Inventories = slices.Clone(p.Inventories)
	for _, a := range list {
		for i := range out.Inventories {
			if out.Inventories[i].Class == a.Class {
				out.Inventories[i].Used += a.Amount
			}
		}
	}
	return &out
}

// Held returns a Ranking of the trees of some providers in which there is room for what is
// left of a reservation, and for nothing else.
func (r *Ranking) Held(left []ledger.Allocation, beside []ledger.UUID) *Ranking {
	room := make(map[ledger.UUID][]ledger.Allocation)
	ids := slices.Clip(beside)
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
