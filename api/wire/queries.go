package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// When is the moment that a query asks about. Every query has it.
type When struct {
	// At is a commit's sequence or an RFC 3339 time; empty: now. A sequence may
	// be a number, too.
	At Instant `json:"at,omitempty"`
	// MinSequence waits until this commit can be read. The commit of an answered
	// command always can, on the server that answered it.
	MinSequence uint64 `json:"min_sequence,omitempty"`
	// Stale makes the server answer at once from what it has, however old that is.
	// It works even while no server leads. Otherwise, and without MinSequence, an
	// answer holds everything that any server reported before the request.
	Stale bool `json:"stale,omitempty"`
}

// Instant is a commit's sequence, as a text or a number, or an RFC 3339 time.
type Instant string

// UnmarshalJSON implements json.Unmarshaler.
func (i *Instant) UnmarshalJSON(text []byte) error {
	var sequence uint64
	if err := json.Unmarshal(text, &sequence); err == nil && string(text) != "null" {
		*i = Instant(strconv.FormatUint(sequence, 10))
		return nil
	}
	return json.Unmarshal(text, (*string)(i))
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (i *Instant) DecodeMsgpack(d *msgpack.Decoder) error {
	value, err := d.DecodeInterfaceLoose()
	if err != nil {
		return err
	}
	switch v := value.(type) {
	case nil:
	case string:
		*i = Instant(v)
	case int64:
		if v < 0 {
			return fmt.Errorf("at: %d is not a sequence", v)
		}
		*i = Instant(strconv.FormatInt(v, 10))
	case uint64:
		*i = Instant(strconv.FormatUint(v, 10))
	default:
		return fmt.Errorf("at: %v is neither a sequence nor a time", v)
	}
	return nil
}

// Moment implements Query.
func (w When) Moment() When { return w }

// Query asks about the present or the past. The queries are types in this
// package.
type Query interface {
	// Moment returns the moment that the query asks about.
	Moment() When
}

// NameOf returns a query's name on NATS and in the docs: its type's, less "Query".
func NameOf(q Query) string { return strings.TrimSuffix(reflect.TypeOf(q).Elem().Name(), "Query") }

// Queries are the kinds of queries, by name.
var Queries = map[string]Kind{
	"Allocations":    kind[AllocationsQuery, Allocations](),
	"Usages":         kind[UsagesQuery, []Usage](),
	"Provider":       kind[ProviderQuery, Provider](),
	"Candidates":     kind[CandidatesQuery, []Candidate](),
	"Capacity":       kind[CapacityQuery, Capacity](),
	"Node":           kind[NodeQuery, Node](),
	"NodeAllocation": kind[NodeAllocationQuery, NodeAllocation](),
	"Chassis":        kind[ChassisQuery, Chassis](),
	"History":        kind[HistoryQuery, History](),
	"Commits":        kind[CommitsQuery, Commits](),
	"Checkpoint":     kind[CheckpointQuery, Checkpoint](),
	"Holders":        kind[HoldersQuery, Holders](),
	"Consumption":    kind[ConsumptionQuery, Consumption](),
	"Rejections":     kind[RejectionsQuery, []RejectedCommand](),
}

// Kind is a kind of queries.
type Kind struct {
	Empty  func() Query // makes an empty query
	Answer any          // an empty Answer
}

func kind[Q, A any, P interface {
	*Q
	Query
}]() Kind {
	return Kind{func() Query { return P(new(Q)) }, Answer[A]{}}
}

// Answer is the reply to a query: a result, or an error.
type Answer[T any] struct {
	// Sequence is that of the commit that the answer holds for.
	Sequence uint64 `json:"sequence,omitempty"`
	Result   T      `json:"result,omitempty"`
	Error    *Error `json:"error,omitempty"`
}

// AllocationsQuery asks what a consumer holds.
type AllocationsQuery struct {
	When
	Consumer ledger.UUID `json:"consumer"`
}

// Allocations is what a consumer holds. A consumer that holds nothing does not
// exist.
type Allocations struct {
	Consumer   ledger.UUID `json:"consumer"`
	Generation uint64      `json:"generation"` // to be sent with the next change
	Project    string      `json:"project"`
	User       string      `json:"user"`
	Type       string      `json:"type,omitempty"`
	Since      string      `json:"since"`   // RFC 3339; when the consumer first held something
	Changed    string      `json:"changed"` // RFC 3339; time of the last change
	// ReservedUntil is the end of a reservation, RFC 3339; absent: the
	// allocations are permanent.
	ReservedUntil string `json:"reserved_until,omitempty"`
	// Projects may draw on the reservation, beside the consumer's.
	Projects    []string     `json:"projects,omitempty"`
	Allocations []Allocation `json:"allocations"`
}

// Allocation is an amount of a class on a provider.
type Allocation struct {
	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
	Amount   int64       `json:"amount"`
}

// UsagesQuery asks what the consumers of a project, or of one of its users, hold
// together.
type UsagesQuery struct {
	When
	Project string `json:"project"`
	User    string `json:"user,omitempty"`
}

// Usage is what the consumers of one user and type hold together.
type Usage struct {
	User      string           `json:"user"`
	Type      string           `json:"type,omitempty"`
	Consumers int64            `json:"consumers"`
	Amounts   map[string]int64 `json:"amounts"` // amounts by class
}

// ProviderQuery asks for a provider by its uuid or its name.
type ProviderQuery struct {
	When
	Provider ledger.UUID `json:"provider,omitempty"`
	Name     string      `json:"name,omitempty"`
}

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
	Counters    []Counter     `json:"counters,omitempty"`
	// Draws are what a unit of a class draws from the counters of the providers above.
	Draws []ledger.DrawRecord `json:"draws,omitempty"`
}

// Counter is an amount that a provider shares out among the inventories below it.
type Counter struct {
	Name  string `json:"name"`
	Total int64  `json:"total"`
	// Left is below 0 where more is drawn than there is; absent in histories.
	Left *int64 `json:"left,omitempty"`
}

// Inventory is one class of a provider, with its usage.
type Inventory struct {
	Class string `json:"class"`
	InventoryAmounts
	Capacity int64 `json:"capacity"` // (total - reserved) * allocation_ratio
	Used     int64 `json:"used"`
}

// InventoryAmounts are the amount of a class on a provider, and the units in
// which it is allocated.
type InventoryAmounts struct {
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
	Ratio    float64 `json:"allocation_ratio"`
}

// AmountsOf returns the amounts of an inventory.
func AmountsOf(inv *ledger.Inventory) InventoryAmounts {
	return InventoryAmounts{
		Total: inv.Total, Reserved: inv.Reserved, MinUnit: inv.MinUnit, MaxUnit: inv.MaxUnit, StepSize: inv.StepSize,
		Ratio: inv.Ratio,
	}
}

// CandidatesQuery asks which allocations would satisfy a request, in the terms of
// Placement's GET /allocation_candidates.
type CandidatesQuery struct {
	When
	Groups        []CandidateGroup `json:"groups"`
	Isolate       bool             `json:"isolate,omitempty"`
	SameSubtree   [][]string       `json:"same_subtree,omitempty"`
	RootRequired  []string         `json:"root_required,omitempty"`
	RootForbidden []string         `json:"root_forbidden,omitempty"`
	Limit         int              `json:"limit,omitempty"` // 1..10000; default 1000
	// Prefer orders the candidates, the best first, as a claim with it would choose.
	// An answer is then a page of at most 1000.
	Prefer *demand.ClaimPreference `json:"prefer,omitempty"`
	// Marker is that of the last candidate of the page before; with prefer alone.
	Marker string `json:"marker,omitempty"`
}

// CandidateGroup is one request group.
type CandidateGroup = demand.RequestGroup

// Candidate is one way to satisfy the request.
type Candidate struct {
	Allocations []Allocation             `json:"allocations"`
	Mappings    map[string][]ledger.UUID `json:"mappings"` // providers by the suffix of the group that they serve
	// Score is what the preference gives it, if there is one.
	Score *float64 `json:"score,omitempty"`
	// Marker says where the page behind this candidate begins; absent: nothing
	// comes after it.
	Marker string `json:"marker,omitempty"`
}

// CapacityQuery asks how many more allocations fit that each satisfy a request, in the terms
// of CandidatesQuery.
type CapacityQuery struct {
	When
	Groups        []CandidateGroup `json:"groups"`
	Isolate       bool             `json:"isolate,omitempty"`
	SameSubtree   [][]string       `json:"same_subtree,omitempty"`
	RootRequired  []string         `json:"root_required,omitempty"`
	RootForbidden []string         `json:"root_forbidden,omitempty"`
	Limit         int              `json:"limit,omitempty"` // counting stops there; absent: it does not stop
	By            string           `json:"by,omitempty"`    // aggregate, or topology: also a sum for each of its domains
	Topology      string           `json:"topology,omitempty"`
	// Marker is next of the page of trees before.
	Marker *ledger.UUID `json:"marker,omitempty"`
}

// Capacity is how many more allocations fit. Sums are over all trees, not those of the page.
type Capacity struct {
	Capacity int `json:"capacity"` // the same as at_least
	// Exact: at_least and at_most are the same.
	Exact   bool           `json:"exact"`
	AtLeast int            `json:"at_least"`
	AtMost  int            `json:"at_most"`
	Trees   []TreeCapacity `json:"trees"` // at most 1000, in the order of their creation; those with none are absent
	// Aggregates have the sums of the trees whose roots are in them, or in a domain in them.
	Aggregates []AggregateCapacity `json:"aggregates,omitempty"`
	// Next is the marker of the next page of trees; absent: there is none.
	Next *ledger.UUID `json:"next,omitempty"`
}

// TreeCapacity is how many of the allocations fit into a tree.
type TreeCapacity struct {
	Root     ledger.UUID `json:"root"`
	Capacity int         `json:"capacity"`
}

// AggregateCapacity is how many of the allocations fit into the trees of an aggregate.
type AggregateCapacity struct {
	Aggregate ledger.UUID `json:"aggregate"`
	Level     string      `json:"level,omitempty"` // of the topology
	Name      string      `json:"name,omitempty"`  // there
	Capacity  int         `json:"capacity"`
}
