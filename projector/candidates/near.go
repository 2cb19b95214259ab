package candidates

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// nearTo finds the providers that are near; nil: nothing is said.
func (w *World) nearTo(n *Near) *roaring.Bitmap {
	var numbers []uint32
	var aggregates []ledger.UUID
	said := false
	for _, id := range n.Providers {
		number, known := w.number(id)
		if !known {
			continue
		}
		e := w.entries.get(number)
		if e.p.HasTrait(SharingTrait) {
			continue
		}
		said = true
		switch n.Reach {
		case SameProvider:
			numbers = append(numbers, number)
		case SameTree:
			numbers = w.treeNumbers(numbers, e.root)
		case SameAggregate:
			aggregates = append(append(aggregates, e.p.Aggregates...), w.entries.get(e.root).p.Aggregates...)
		}
	}
	if !said {
		return nil
	}
	set := roaring.BitmapOf(numbers...)
	if len(aggregates) > 0 {
		set = w.spanned(w.inAnyAggregate(aggregates))
	}
	set.AndNot(bitsOf(w.traits, SharingTrait))
	return set
}

// nearSets are the providers that each rule of a preference is about.
func (w *World) nearSets(pref *Preference) []*roaring.Bitmap {
	if len(pref.Near) == 0 {
		return nil
	}
	sets := make([]*roaring.Bitmap, len(pref.Near))
	for i := range pref.Near {
		sets[i] = w.nearTo(&pref.Near[i])
	}
	return sets
}

// judge is the score of a candidate; false: a rule is against it.
func (s *selection) judge(root *ledger.Provider, providers []*ledger.Provider) (float64, bool) {
	score := scoreOf(s.pref, root, providers)
	for i, set := range s.near {
		if set == nil {
			continue
		}
		near := s.anyOf(set, providers)
		switch s.pref.Near[i].Rule {
		case PreferNear:
			if near {
				score += s.pref.Near[i].Weight
			}
		case RequireNear:
			if !near {
				return 0, false
			}
		case ForbidNear:
			if near {
				return 0, false
			}
		}
	}
	return score, s.pref.Accept == nil || s.pref.Accept(providers)
}

func (s *selection) anyOf(set *roaring.Bitmap, providers []*ledger.Provider) bool {
	for _, p := range providers {
		if number, known := s.world.number(p.UUID); known && set.Contains(number) {
			return true
		}
	}
	return false
}

// soft is how many preferences divide roots.
func soft(p *Preference) int {
	n := len(p.Traits) + len(p.Aggregates)
	for i := range p.Near {
		if p.Near[i].Rule == PreferNear {
			n++
		}
	}
	return n
}
