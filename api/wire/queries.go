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

// NodeQuery asks for a bare metal node by its uuid or its name.
type NodeQuery struct {
	When
	Node ledger.UUID `json:"node,omitzero"`
	Name string      `json:"name,omitempty"`
}

// Node is a bare metal node, as its operator declares it.
type Node struct {
	Node ledger.UUID `json:"node"`
	ledger.NodeDescription
	Instance          *ledger.UUID `json:"instance,omitempty"`
	Allocation        *ledger.UUID `json:"allocation,omitempty"`
	ProvisionState    string       `json:"provision_state"`
	PowerState        string       `json:"power_state,omitempty"` // absent: unknown
	Maintenance       bool         `json:"maintenance"`
	MaintenanceReason string       `json:"maintenance_reason,omitempty"`
	Traits            []string     `json:"traits"`
	Since             string       `json:"since"`             // RFC 3339
	Changed           string       `json:"changed,omitempty"` // RFC 3339; time of the last change
}

// NodeAllocationQuery asks for the allocation of a whole node by its uuid or its
// name.
type NodeAllocationQuery struct {
	When
	Allocation ledger.UUID `json:"allocation,omitzero"`
	Name       string      `json:"name,omitempty"`
}

// NodeAllocation is a request for one whole node, and its outcome.
type NodeAllocation struct {
	Allocation     ledger.UUID     `json:"allocation"`
	Name           string          `json:"name,omitempty"`
	ResourceClass  string          `json:"resource_class,omitempty"`
	Owner          string          `json:"owner,omitempty"`
	Traits         []string        `json:"traits"`
	CandidateNodes []ledger.UUID   `json:"candidate_nodes"`
	Extra          ledger.Document `json:"extra"`
	State          string          `json:"state"` // allocating, active or error
	LastError      string          `json:"last_error,omitempty"`
	Node           *ledger.UUID    `json:"node,omitempty"`
	Since          string          `json:"since"`             // RFC 3339
	Changed        string          `json:"changed,omitempty"` // RFC 3339; time of the last change
}

// ChassisQuery asks for a chassis by its uuid.
type ChassisQuery struct {
	When
	Chassis ledger.UUID `json:"chassis"`
}

// Chassis is an enclosure of nodes, as its operator declares it.
type Chassis struct {
	Chassis ledger.UUID `json:"chassis"`
	ledger.ChassisDescription
	Since   string `json:"since"`             // RFC 3339
	Changed string `json:"changed,omitempty"` // RFC 3339; time of the last change
}

// ConsumptionQuery asks how much of what was held for how long, from one moment until
// another one: amounts times time, exact to the nanosecond. With a provider it asks how much
// of that one was used, and how much there was. It is about an interval: at has no meaning.
type ConsumptionQuery struct {
	When
	// From and To are moments, as at is; To may be absent: until now. What was so at From
	// counts, and what came to be at To does not.
	From Instant `json:"from"`
	To   Instant `json:"to,omitempty"`
	// By are the keys of the rows, in their order: project, user, type, class, and one of
	// hour, day and month (of UTC); ["class"] if absent. With a provider: provider, class and
	// hour, day or month.
	By []string `json:"by,omitempty"`
	// Project, User, Type and Class narrow it down; whole nodes have the type NODE and no user.
	Project string `json:"project,omitempty"`
	User    string `json:"user,omitempty"`
	Type    string `json:"type,omitempty"`
	Class   string `json:"class,omitempty"`
	// Provider is not together with project, user or type. With Tree the whole tree counts
	// that it is in at To.
	Provider ledger.UUID `json:"provider,omitzero"`
	Tree     bool        `json:"tree,omitempty"`
	// Strict makes an error of a project, provider or class that there never was until To.
	Strict bool `json:"strict,omitempty"`
	// Limit is the number of rows on a page, 1 to 10000, which is the default.
	Limit int `json:"limit,omitempty"`
	// After is next of the page before; with the same To as that one says.
	After string `json:"after,omitempty"`
}

// Consumption is how much was held for how long.
type Consumption struct {
	From     string `json:"from"`     // RFC 3339
	To       string `json:"to"`       // RFC 3339
	Sequence uint64 `json:"sequence"` // of the last commit until To
	// Rows are sorted by their keys, in the order of by. A row of nothing is absent.
	Rows []ConsumptionRow `json:"rows"`
	Next string           `json:"next,omitempty"` // the value of after for the next page
}

// ConsumptionRow is the sum of a group: what has the same keys. It has those of by alone.
type ConsumptionRow struct {
	Project  *string `json:"project,omitempty"`
	User     *string `json:"user,omitempty"`
	Type     *string `json:"type,omitempty"` // unknown: of consumers without one
	Provider *string `json:"provider,omitempty"`
	Class    *string `json:"class,omitempty"` // as it is called at To, or was called last
	Hour     *string `json:"hour,omitempty"`  // its beginning, such as 2026-05-01T13:00:00Z
	Day      *string `json:"day,omitempty"`   // such as 2026-05-01
	Month    *string `json:"month,omitempty"` // such as 2026-05
	// AmountNS is the amount times nanoseconds, in decimal digits. Hours is the amount times
	// hours, with nine digits after the point: the nearest one, or of two that are as near the
	// one away from zero.
	AmountNS string `json:"amount_ns"`
	Hours    string `json:"hours"`
	// Capacity is what there was of a provider's class, (total - reserved) * allocation_ratio
	// in whole units. Idle is capacity less the amount, below 0 where more was used.
	CapacityNS    string `json:"capacity_ns,omitempty"`
	CapacityHours string `json:"capacity_hours,omitempty"`
	IdleNS        string `json:"idle_ns,omitempty"`
	IdleHours     string `json:"idle_hours,omitempty"`
}

// Subjects of histories.
const (
	OfConsumer       = "consumer"
	OfProvider       = "provider"
	OfProject        = "project"
	OfUser           = "user"
	OfNode           = "node"
	OfNodeAllocation = "node_allocation"
	OfChassis        = "chassis"
	OfCommand        = "command"
)

// Subjects are all of them.
var Subjects = []string{
	OfConsumer, OfProvider, OfProject, OfUser, OfNode, OfNodeAllocation, OfChassis, OfCommand,
}

// HistoryQuery asks for the history of one entity, newest first.
type HistoryQuery struct {
	When
	Of   string `json:"of"`   // one of the subjects above
	Name string `json:"name"` // a uuid, or the id of a project or user
	// Limit is the number of entries on a page, 1 to 1000; 50 if absent.
	Limit int `json:"limit,omitempty"`
	// Before is the SEQUENCE.INDEX of the last entry of the page before.
	Before string `json:"before,omitempty"`
	// After is the SEQUENCE.INDEX of an entry. The answer has the entries after
	// it, oldest first.
	After string `json:"after,omitempty"`
	// Brief leaves out the state before each record, and the usages of projects.
	Brief bool `json:"brief,omitempty"`
	// Since and Until bound the time of the records, inclusive; RFC 3339.
	Since string `json:"since,omitempty"`
	Until string `json:"until,omitempty"`
	// Kind selects records of this command, such as Reshape.
	Kind string `json:"kind,omitempty"`
}

// History is one page of a history.
type History struct {
	Entries []HistoryEntry `json:"entries"`
	// Next is the value of before, or after, for the next page; empty: this is
	// the last page.
	Next string `json:"next,omitempty"`
}

// HistoryEntry is one record as it concerned the subject of a history.
type HistoryEntry struct {
	Address   string          `json:"address"` // SEQUENCE.INDEX
	Time      string          `json:"time"`    // RFC 3339
	Actor     string          `json:"actor"`
	Command   string          `json:"command"`
	CommandID ledger.UUID     `json:"command_id"`
	RequestID string          `json:"request_id,omitempty"`
	Cause     *ledger.Address `json:"cause,omitempty"`
	// Text says in words what the record did; absent in notices and brief histories.
	Text string `json:"text,omitempty"`
	// Before and After are the subject before and after the record's commit; null
	// where it did not exist. For a command they hold the entities that it was
	// about, such as "consumer UUID", at most 100. Users have neither.
	Before any `json:"before"`
	After  any `json:"after"`
	// Incomplete means that a command was about more entities than are shown.
	Incomplete bool `json:"incomplete,omitempty"`
}

// CommitsQuery asks for the log itself, for a replay elsewhere.
type CommitsQuery struct {
	When
	From  uint64 `json:"from"`            // sequence, 1 or more
	Limit int    `json:"limit,omitempty"` // at most 1000, which is the default; an answer may hold fewer
}

// Commits is a piece of the log. If it is empty, the log ends before it.
type Commits struct {
	Commits []Commit `json:"commits"`
}

// Commit is one commit as stored; package ledger decodes it.
type Commit struct {
	Sequence uint64 `json:"sequence"`
	Digest   string `json:"digest"` // SHA-256 of Data, in hexadecimal
	Data     []byte `json:"data"`   // in JSON as base64
}

// CheckpointQuery asks for a signed checkpoint of the log.
type CheckpointQuery struct {
	When
}

// Checkpoint is a signed checkpoint of the log; package ledger/proof reads it.
type Checkpoint struct {
	Signed string `json:"signed"`
}

// HoldersQuery asks for the holders of a provider, or of the node that it stands
// for.
type HoldersQuery struct {
	When
	Provider ledger.UUID `json:"provider"`
	// Tree asks for the holders of all that is nested in the provider, too.
	Tree bool `json:"tree,omitempty"`
	// Limit is the number of holders in an answer, 1 to 1000; 1000 if absent.
	Limit int `json:"limit,omitempty"`
	// After is the last consumer of the answer before.
	After ledger.UUID `json:"after,omitzero"`
}

// Holders are the consumers that hold something of a provider, each with its
// owner and its allocations of the provider, or of what is nested in it.
type Holders struct {
	Provider ledger.UUID   `json:"provider"`
	Name     string        `json:"name"`
	Holders  []Allocations `json:"holders"` // by uuid
	// Node is the owner of the bare metal node, if the provider is one.
	Node *Node `json:"node,omitempty"`
	// Next is the value of after for the rest; absent: there is no more.
	Next *ledger.UUID `json:"next,omitempty"`
}

// RejectionsQuery asks for rejected commands, newest first. Empty fields do not
// filter. Rejected commands are not part of the past, so at has no meaning.
type RejectionsQuery struct {
	When
	CommandID ledger.UUID `json:"command_id,omitzero"`
	Actor     string      `json:"actor,omitempty"`
	Command   string      `json:"command,omitempty"`
	Code      string      `json:"code,omitempty"`
	// Project is the project that the client was bound to, that the command names
	// as an owner, or whose consumer the command would have changed.
	Project  string      `json:"project,omitempty"`
	Consumer ledger.UUID `json:"consumer,omitzero"` // named by the command; or a node allocation
	Provider ledger.UUID `json:"provider,omitzero"` // named by the command; or a node
	Since    string      `json:"since,omitempty"`   // RFC 3339, inclusive
	Until    string      `json:"until,omitempty"`   // RFC 3339, inclusive
	Before   string      `json:"before,omitempty"`  // RFC 3339, exclusive
	Limit    int         `json:"limit,omitempty"`   // 1 to 1000; 50 if absent
}

// RejectedCommand is a command that was rejected.
type RejectedCommand struct {
	Time      string            `json:"time"` // RFC 3339
	Actor     string            `json:"actor"`
	Command   string            `json:"command"`
	CommandID ledger.UUID       `json:"command_id"`
	RequestID string            `json:"request_id,omitempty"`
	Project   string            `json:"project,omitempty"` // the project that the client is bound to
	Body      any               `json:"body"`              // the command itself
	Place     ledger.Address    `json:"place"`             // the address that its record would have had
	Rejection *demand.Rejection `json:"rejection"`
}
