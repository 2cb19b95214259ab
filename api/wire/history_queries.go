package wire

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

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
