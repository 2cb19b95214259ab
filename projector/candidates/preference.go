package candidates

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Preference says which candidates are better: those with the higher score,
// and of equal ones those whose root comes first after the point that Seed
// stands for, around the circle of all uuids. So claims with different seeds
// do not all choose the same of many equal providers, and each chooses the
// same again as long as nothing changes.
type Preference struct {
	// Weights are multiplied with the free shares of classes, see Score.
	Weights []ClassWeight
	// Traits and Aggregates are preferred, or avoided if the weight is below 0.
	Traits     []TraitWeight
	Aggregates []AggregateWeight
	// Near adds its weight to the score of candidates that are near, or says which
	// candidates there are.
	Near []Near
	// Accept, if set, says of the providers of a candidate whether it is one.
	Accept func([]*ledger.Provider) bool
	// Fits, if set, says the same of what a candidate uses. It is asked last, only of
	// what is a candidate but for that.
	Fits func([]Use) bool
	// Random draws the order of equal candidates from Seed, for each root by
	// itself. It goes over all of them.
	Random bool
	Seed   uint64
	// Once says that of candidates of a tree which differ only in which of like providers
	// serves which of like groups the first is enough. Providers are alike if they are
	// equal for the request and the preference.
	Once bool
	// Apart says that Accept tells providers of a tree apart that are in the same
	// aggregates.
	Apart bool
}

// ClassWeight is the weight of the free share of a class.
type ClassWeight struct {
	Class  ledger.ClassID
	Weight float64
}

// TraitWeight is what a trait is worth.
type TraitWeight struct {
	Trait  string
	Weight float64
}

// AggregateWeight is what it is worth to be in an aggregate.
type AggregateWeight struct {
	Aggregate ledger.UUID
	Weight    float64
}

// Ranked is a candidate with its score.
type Ranked struct {
	Candidate
	Root  *ledger.Provider // of the first provider
	Score float64
	// Seen are its providers and those above them, as the search saw them.
	Seen []*ledger.Provider

	from distance // of the root, from the seed's point
}

// Score is the sum of the weights, each multiplied with the mean free share of
// its class over those providers that have inventory of it, and of the weights
// of those traits and aggregates that some of the providers, or the root, has. A
// free share is what is free before the claim, over the capacity.
func (p *Preference) Score(root *ledger.Provider, providers []*ledger.Provider) float64 {
	return p.shares(providers) + p.bonus(root, providers)
}

func (p *Preference) shares(providers []*ledger.Provider) (score float64) {
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

func (p *Preference) bonus(root *ledger.Provider, providers []*ledger.Provider) (bonus float64) {
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

// bound is at least the score that any candidate of some providers has by its
// free shares.
func (p *Preference) bound(providers []*ledger.Provider, classes []demanded) (score float64) {
	if len(providers) == 1 {
		return p.shares(providers)
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

// distance is how far a uuid lies behind a seed's point, or what was drawn for it.
type distance struct{ high, low uint64 }

func (d distance) before(other distance) bool {
	return d.high < other.high || d.high == other.high && d.low < other.low
}

func wordsOf(id ledger.UUID) distance {
	return distance{binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])}
}

// point is the uuid from which on roots of equal score are taken.
func (p *Preference) point() ledger.UUID {
	var id ledger.UUID
	binary.BigEndian.PutUint64(id[:8], mix(p.Seed))
	binary.BigEndian.PutUint64(id[8:], mix(p.Seed+1))
	return id
}

func (p *Preference) distance(point, root ledger.UUID) distance {
	at := wordsOf(root)
	if p.Random {
		return distance{mix(p.Seed ^ mix(at.high^mix(at.low))), at.low}
	}
	from := wordsOf(point)
	d := distance{at.high - from.high, at.low - from.low}
	if at.low < from.low {
		d.high--
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
	return from.before(otherFrom)
}
