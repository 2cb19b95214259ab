// Package wanted says what candidates are wanted, and what they are: the words of package
// candidates, for those who ask and do not search.
package wanted

import (
	"context"
	"errors"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// SharingTrait marks sharing providers.
const SharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// ErrBudget means that the search would take more steps than Request.MaxSteps.
var ErrBudget = errors.New("candidates: the request would take too long to answer")

// Resource is an amount of one class.
type Resource struct {
	Class  ledger.ClassID
	Amount int64
}

// Group is one request group. The group without a suffix may spread its resources
// over providers; one provider serves each other group.
type Group struct {
	Suffix      string
	Resources   []Resource      // none: a resourceless group (1.36)
	Required    [][]string      // one of each list is required
	Forbidden   []string        // none of these
	MemberOf    [][]ledger.UUID // one of each list is required
	NotMemberOf []ledger.UUID   // none of these
	InTree      *ledger.UUID
}

// Order is the order of the candidates.
type Order byte

const (
	// DepthFirst finds all candidates of one tree before those of the next. Trees
	// are in the order of their creation.
	DepthFirst Order = iota
	// BreadthFirst finds one candidate of each tree, then up to two more of
	// each, then up to four more, and so on.
	BreadthFirst
)

// Request describes the candidates that are wanted.
type Request struct {
	Groups        []Group
	Isolate       bool       // group_policy=isolate
	SameSubtree   [][]string // suffixes of groups whose providers must share a subtree
	RootRequired  []string
	RootForbidden []string
	// Limit ends the search after this many candidates; 0: no limit.
	Limit int
	// Nested is false below 1.29: then no candidate uses two providers of one
	// tree.
	Nested bool
	// MaxSteps bounds the work: beyond it the search fails with ErrBudget. A step
	// examines one thing: a provider, a filter, or a part of a combination or of
	// a candidate. 0: no bound.
	MaxSteps int
	// Pause, if set, is called about every 256 steps. Its error ends the search.
	Pause func(context.Context) error
	Order Order
	// Shuffle visits trees, and the providers in them, in an order drawn from
	// Seed instead of that of their creation.
	Shuffle bool
	Seed    uint64
}

// Use is an amount that a candidate takes of one inventory.
type Use struct {
	Provider *ledger.Provider
	Class    ledger.ClassID
	Amount   int64
}

// Candidate is one way to satisfy a request.
type Candidate struct {
	// Uses has one element per provider and class, summed over groups.
	Uses []Use
	// Groups lists the providers that serve each of the request's groups, in the
	// request's order.
	Groups [][]*ledger.Provider
}

// Providers lists the providers of a candidate, each once.
func (c *Candidate) Providers() (list []*ledger.Provider) {
	for _, members := range c.Groups {
		for _, p := range members {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

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

// Near is about candidates that are near some providers: they are better or
// worse, or nothing else is wanted, or nothing of them is. Sharing providers are
// near nothing, and nothing is near them: everybody uses them.
type Near struct {
	// Providers are what it is about. If there is none that does not share,
	// nothing is said.
	Providers []ledger.UUID
	Reach     Reach
	Rule      NearRule
	Weight    float64 // of the rule Prefer
}

// Reach is how near a provider is.
type Reach byte

// The reaches of Near.
const (
	SameProvider Reach = iota
	SameTree
	// SameAggregate: it is in an aggregate of the other one; what an aggregate's
	// root is in, its tree is in.
	SameAggregate
)

// NearRule is what follows for candidates that are near.
type NearRule byte

// The rules of Near.
const (
	PreferNear NearRule = iota
	RequireNear
	ForbidNear
)

// Explanation shows how a request's filters, one after the other, narrow down the
// providers, and then the trees.
type Explanation struct {
	Groups []GroupExplanation `json:"groups"`
	// Trees narrows down the trees, each by its root: those that the filters of
	// roots leave, then those that can serve one group after the other, then
	// those in which a whole candidate was found.
	Trees []Step `json:"trees"`
	// RemovedLast names the first filter that left nothing; empty if the request
	// has candidates.
	RemovedLast string `json:"removed_last"`
}

// GroupExplanation is about the providers of one group; for the group without a
// suffix, about those of one of its classes.
type GroupExplanation struct {
	Suffix string `json:"suffix"`
	Class  string `json:"resource_class,omitempty"`
	Steps  []Step `json:"steps"`
}

// Step is one filter, and how many it left.
type Step struct {
	Filter string `json:"filter"`
	Left   int    `json:"left"`
}
