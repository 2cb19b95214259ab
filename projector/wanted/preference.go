package wanted

import "github.com/allot-project/allot/ledger"

// Preference says which candidates are better: those with the higher score,
// and of equal ones those whose root comes first after the point that Seed
// stands for, around the circle of all uuids. So claims with different seeds
// do not all choose the same of many equal providers, and each chooses the
// same again as long as nothing changes.
type Preference struct {
	// Weights are multiplied with the mean free share of their class: what is free of it before the
	// claim, over the capacity.
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

	From Distance // of the root, from the seed's point
}

// Distance is how far a uuid lies behind a seed's point, or what was drawn for it.
type Distance struct{ High, Low uint64 }

// Before reports whether it is less far than another.
func (d Distance) Before(other Distance) bool {
	return d.High < other.High || d.High == other.High && d.Low < other.Low
}
