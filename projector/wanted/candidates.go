// Package wanted says what candidates are wanted, and what they are: the words of package
// candidates, for those who ask and do not search.
package wanted

import (
	"context"
	"errors"

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
