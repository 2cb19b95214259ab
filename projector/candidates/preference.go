package candidates

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// scoreOf is the sum of the weights, each multiplied with the mean free share of
// its class over those providers that have inventory of it, and of the weights
// of those traits and aggregates that some of the providers, or the root, has. A
// free share is what is free before the claim, over the capacity.
func scoreOf(p *Preference, root *ledger.Provider, providers []*ledger.Provider) float64 {
	return shares(p, providers) + bonusOf(p, root, providers)
}

func shares(p *Preference, providers []*ledger.Provider) (score float64) {
	for i := range p.Weights {
		var few [16]float64
		list := few[:0]
		for _, one := range providers {
			if inv, has := one.Inventory(p.Weights[i].Class); has {
				list = append(list, freeShare(inv))
			}
		}
		if len(list) > 0 {
			score += p.Weights[i].Weight * mean(list)
		}
	}
	return score
}

// mean is the mean of some numbers, in whatever order they come, and not beyond any of
// them by rounding.
func mean(list []float64) (sum float64) {
	if len(list) == 1 {
		return list[0]
	}
	slices.Sort(list)
	for _, one := range list {
		sum += one
	}
	return max(list[0], min(sum/float64(len(list)), list[len(list)-1]))
}

func bonusOf(p *Preference, root *ledger.Provider, providers []*ledger.Provider) (bonus float64) {
	for _, t := range p.Traits {
		if root.HasTrait(t.Trait) || slices.ContainsFunc(
			providers, func(one *ledger.Provider) bool { return one.HasTrait(t.Trait) },
		) {
			bonus += t.Weight
		}
	}
	for _, a := range p.Aggregates {
		if slices.Contains(root.Aggregates, a.Aggregate) || slices.ContainsFunc(
			providers, func(one *ledger.Provider) bool { return slices.Contains(one.Aggregates, a.Aggregate) },
		) {
			bonus += a.Weight
		}
	}
	return bonus
}

// freeShare is 1 for what is unused and 0 for what is full.
func freeShare(inv ledger.Inventory) float64 {
	capacity := inv.Capacity()
	if !(capacity > 0) {
		return 0
	}
	return math.Max(0, (capacity-float64(inv.Used))/capacity)
}

// boundSlack is more than what rounding can add to a mean or a sum.
const boundSlack = 1e-9

// demanded is what is known of a request about the class of a weight.
type demanded byte

const (
	notAsked   demanded = iota
	asked               // by some group
	askedAlone          // and there is no group without resources
)

// boundOf is at least the score that any candidate of some providers has by its
// free shares.
func boundOf(p *Preference, providers []*ledger.Provider, classes []demanded) (score float64) {
	if len(providers) == 1 {
		return shares(p, providers)
	}
	for i, w := range p.Weights {
		best := math.Inf(-1)
		for _, one := range providers {
			inv, has := one.Inventory(w.Class)
			switch {
			case !has && classes[i] == notAsked:
				best = math.Max(best, 0)
			case !has:
			case classes[i] == askedAlone && len(one.Inventories) == 1 && float64(inv.Used+1) > inv.Capacity():
				// It has nothing to give.
			default:
				best = math.Max(best, w.Weight*freeShare(inv))
			}
		}
		if !math.IsInf(best, -1) {
			score += best
		}
	}
	return score
}

func wordsOf(id ledger.UUID) distance {
	return distance{High: binary.BigEndian.Uint64(id[:8]), Low: binary.BigEndian.Uint64(id[8:])}
}

// pointOf is the uuid from which on roots of equal score are taken.
func pointOf(p *Preference) ledger.UUID {
	var id ledger.UUID
	binary.BigEndian.PutUint64(id[:8], mix(p.Seed))
	binary.BigEndian.PutUint64(id[8:], mix(p.Seed+1))
	return id
}

func distanceOf(p *Preference, point, root ledger.UUID) distance {
	at := wordsOf(root)
	if p.Random {
		return distance{High: mix(p.Seed ^ mix(at.High^mix(at.Low))), Low: at.Low}
	}
	from := wordsOf(point)
	d := distance{High: at.High - from.High, Low: at.Low - from.Low}
	if at.Low < from.Low {
		d.High--
	}
	return d
}

// mix is the finalizer of splitmix64, which spreads whatever it is given.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// precedes reports whether a candidate with this score and root stands before
// another.
func precedes(score float64, from distance, otherScore float64, otherFrom distance) bool {
	if score != otherScore {
		return score > otherScore
	}
	return from.Before(otherFrom)
}

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
	return slices.ContainsFunc(providers, func(p *ledger.Provider) bool {
		number, known := s.world.number(p.UUID)
		return known && set.Contains(number)
	})
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
