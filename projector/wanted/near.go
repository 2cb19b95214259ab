package wanted

import "github.com/allot-project/allot/ledger"

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
