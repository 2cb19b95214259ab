// Package candidates answers GET /allocation_candidates: which sets of
// allocations would satisfy a request. It is pure: a Request against a World
// gives Candidates, always in the same order.
//
// The words are Placement's. A provider with the trait
// MISC_SHARES_VIA_AGGREGATE is a sharing provider: trees that have a member in
// one of its aggregates may use it, and their roots are its anchors. Every
// candidate belongs to one anchor and uses providers of that tree and sharing
// providers anchored there.
//
// Bitmaps decide everything that does not depend on amounts (classes, traits,
// aggregates, trees), and leave the anchors that may have candidates. They are
// intersected as far as the search goes, or as a whole once that costs less. The
// search visits the anchors one by one, and tries their combinations depth first.
// So a candidate is passed on as soon as it is found, only the present combination
// is held in memory, and a search with a limit costs what its answer does.
//
// Once some choices under an anchor have come to nothing, none is made any more
// behind which there is no candidate: canServe counts what is alike to know that.
package candidates

import "github.com/allot-project/allot/projector/wanted"

// What a search is asked and what it finds: package wanted has it for those who do not search.
//
//nolint:revive // and says what each is
type (
	Request          = wanted.Request
	Group            = wanted.Group
	Resource         = wanted.Resource
	Order            = wanted.Order
	Candidate        = wanted.Candidate
	Use              = wanted.Use
	Preference       = wanted.Preference
	ClassWeight      = wanted.ClassWeight
	TraitWeight      = wanted.TraitWeight
	AggregateWeight  = wanted.AggregateWeight
	Ranked           = wanted.Ranked
	Near             = wanted.Near
	Reach            = wanted.Reach
	NearRule         = wanted.NearRule
	Explanation      = wanted.Explanation
	GroupExplanation = wanted.GroupExplanation
	Step             = wanted.Step

	distance = wanted.Distance
)

// Their values.
const (
	SharingTrait = wanted.SharingTrait

	DepthFirst   = wanted.DepthFirst
	BreadthFirst = wanted.BreadthFirst

	SameProvider  = wanted.SameProvider
	SameTree      = wanted.SameTree
	SameAggregate = wanted.SameAggregate

	PreferNear  = wanted.PreferNear
	RequireNear = wanted.RequireNear
	ForbidNear  = wanted.ForbidNear
)

// ErrBudget means that the search would take more steps than Request.MaxSteps.
var ErrBudget = wanted.ErrBudget
