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
// A search first intersects bitmaps: what does not depend on amounts (classes,
// traits, aggregates, trees) is decided for all providers at once and leaves
// the anchors worth a look. These are then visited one by one, and their
// combinations are tried depth first, so that a candidate is passed on as soon
// as it is found and nothing but the present combination is held in memory.
package candidates

import (
	"context"
	"errors"

	"github.com/allot-project/allot/ledger"
)

// SharingTrait marks sharing providers.
const SharingTrait = "MISC_SHARES_VIA_AGGREGATE"

// ErrBudget says that the search would take more steps than Request.MaxSteps.
var ErrBudget = errors.New("candidates: the request would take too long to answer")

// Resource is an amount of one class.
type Resource struct {
	Class  ledger.ClassID
	Amount int64
}

// Group is one request group. The one without a suffix may spread its
// resources over providers; every other one is served by one provider.
type Group struct {
	Suffix      string
	Resources   []Resource      // none: a resourceless group (1.36)
	Required    [][]string      // of each list, any
	Forbidden   []string        // none of these
	MemberOf    [][]ledger.UUID // of each list, any
	NotMemberOf []ledger.UUID   // none of these
	InTree      *ledger.UUID
}

// Order says which candidates come first.
type Order byte

const (
	// DepthFirst finds all candidates of one tree before those of the next,
	// trees in the order of their creation.
	DepthFirst Order = iota
	// BreadthFirst finds one candidate of each tree, then up to two more of
	// each, then up to four more, and so on.
	BreadthFirst
)

// Request is what is asked for.
type Request struct {
	Groups        []Group
	Isolate       bool       // group_policy=isolate
	SameSubtree   [][]string // suffixes whose providers share a subtree
	RootRequired  []string
	RootForbidden []string
	// Limit ends the search after this many candidates; 0: none.
	Limit int
	// Nested is false below 1.29: no candidate then takes from two
	// providers of one tree.
	Nested bool
	// MaxSteps bounds the work: the search fails with ErrBudget beyond. A
	// step is one thing looked at: a provider, a filter, a part of a
	// combination or of a candidate. 0: no bound.
	MaxSteps int
	// Pause is called every 1024 steps or so, and its error ends the search;
	// nil: the search goes on until it has ended.
	Pause func(context.Context) error
	Order Order
	// Shuffle visits trees, and providers in them, in an order drawn from
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
	// Groups lists the providers that serve each of the request's groups,
	// in the request's order.
	Groups [][]*ledger.Provider
}
