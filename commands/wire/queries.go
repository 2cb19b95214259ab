package wire

import (
	"github.com/allot-project/allot/ledger"
)

// When is what every query can say of the moment that it asks about.
type When struct {
	// At is a commit's sequence or an RFC 3339 time; empty: now.
	At string `json:"at,omitempty"`
	// MinSequence waits until this commit can be read: that of an answered
	// command always can, on the server that answered it.
	MinSequence uint64 `json:"min_sequence,omitempty"`
}

// Moment implements Query.
func (w When) Moment() When { return w }

// Query asks for something as it is or was. The queries are the types in this
// package.
type Query interface {
	// QueryName is the query's name on NATS and in the docs.
	QueryName() string
	// Moment is when it asks about.
	Moment() When
}

// Queries makes an empty query of each kind, by name.
var Queries = map[string]func() Query{
	"Allocations": func() Query { return new(AllocationsQuery) },
	"Usages":      func() Query { return new(UsagesQuery) },
	"Provider":    func() Query { return new(ProviderQuery) },
	"Candidates":  func() Query { return new(CandidatesQuery) },
}

// Answer is the reply to a query: what was asked for, or an error.
type Answer[T any] struct {
	// Sequence is of the commit after which it is so.
	Sequence uint64 `json:"sequence,omitempty"`
	Result   T      `json:"result,omitempty"`
	Error    *Error `json:"error,omitempty"`
}

// AllocationsQuery asks what a consumer holds.
type AllocationsQuery struct {
	When
	Consumer ledger.UUID `json:"consumer"`
}

// QueryName implements Query.
func (*AllocationsQuery) QueryName() string { return "Allocations" }

// Allocations is what a consumer holds. One that holds nothing is not there.
type Allocations struct {
	Consumer    ledger.UUID  `json:"consumer"`
	Generation  uint64       `json:"generation"` // to be sent with the next change
	Project     string       `json:"project"`
	User        string       `json:"user"`
	Type        string       `json:"type,omitempty"`
	Since       string       `json:"since"`   // when the consumer first held something, RFC 3339
	Changed     string       `json:"changed"` // when that changed last, RFC 3339
	Allocations []Allocation `json:"allocations"`
}

// Allocation is an amount of a class on a provider.
type Allocation struct {
	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
	Amount   int64       `json:"amount"`
}

// UsagesQuery asks what the consumers of a project, or of one of its users, hold.
type UsagesQuery struct {
	When
	Project string `json:"project"`
	User    string `json:"user,omitempty"`
}

// QueryName implements Query.
func (*UsagesQuery) QueryName() string { return "Usages" }

// Usage is what the consumers of one user and type hold together.
type Usage struct {
	User      string           `json:"user"`
	Type      string           `json:"type,omitempty"`
	Consumers int64            `json:"consumers"`
	Amounts   map[string]int64 `json:"amounts"` // by class
}

// ProviderQuery asks for a provider by its uuid or its name.
type ProviderQuery struct {
	When
	Provider ledger.UUID `json:"provider,omitempty"`
	Name     string      `json:"name,omitempty"`
}

// QueryName implements Query.
func (*ProviderQuery) QueryName() string { return "Provider" }

// Provider is everything about a provider.
type Provider struct {
	Provider    ledger.UUID   `json:"provider"`
	Name        string        `json:"name"`
	Parent      *ledger.UUID  `json:"parent,omitempty"`
	Root        ledger.UUID   `json:"root"`
	Generation  int64         `json:"generation"`
	Inventories []Inventory   `json:"inventories"`
	Traits      []string      `json:"traits"`
	Aggregates  []ledger.UUID `json:"aggregates"`
}

// Inventory is one class of a provider's, with what is used of it.
type Inventory struct {
	Class    string  `json:"class"`
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
	Ratio    float64 `json:"allocation_ratio"`
	Capacity int64   `json:"capacity"` // (total - reserved) * allocation_ratio
	Used     int64   `json:"used"`
}

// CandidatesQuery asks which allocations would satisfy a request; the words
// are those of Placement's GET /allocation_candidates.
type CandidatesQuery struct {
	When
	Groups        []CandidateGroup `json:"groups"`
	Isolate       bool             `json:"isolate,omitempty"`
	SameSubtree   [][]string       `json:"same_subtree,omitempty"`
	RootRequired  []string         `json:"root_required,omitempty"`
	RootForbidden []string         `json:"root_forbidden,omitempty"`
	Limit         int              `json:"limit,omitempty"` // 1..10000; default 1000
}

// CandidateGroup is one request group. The one without a suffix may be served
// by several providers, every other one is served by one.
type CandidateGroup struct {
	Suffix      string           `json:"suffix,omitempty"`
	Resources   map[string]int64 `json:"resources,omitempty"` // class: amount
	Required    [][]string       `json:"required,omitempty"`  // of each list, any
	Forbidden   []string         `json:"forbidden,omitempty"`
	MemberOf    [][]ledger.UUID  `json:"member_of,omitempty"` // of each list, any
	NotMemberOf []ledger.UUID    `json:"not_member_of,omitempty"`
	InTree      *ledger.UUID     `json:"in_tree,omitempty"`
}

// QueryName implements Query.
func (*CandidatesQuery) QueryName() string { return "Candidates" }

// Candidate is one way to satisfy the request.
type Candidate struct {
	Allocations []Allocation             `json:"allocations"`
	Mappings    map[string][]ledger.UUID `json:"mappings"` // providers by the suffix of the group they serve
}
