// Package wire defines what travels over NATS: subjects, headers, queries and
// replies, for server and clients alike.
package wire

import (
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

// Subjects. Each is followed by a dot and the name of the command or query.
const (
	CommandPrefix = "allot.command"
	QueryPrefix   = "allot.query"
)

// DoorPrefix begins the subjects on which requests come in from accounts of clients. The name of the
// account is the next token, which the NATS server puts there, and what the client sent to follows.
const DoorPrefix = "allot.door"

// Services are the subjects of requests, with those of discovery.
func Services() []string {
	return []string{CommandPrefix + ".>", QueryPrefix + ".>", BatchSubject, "$SRV.>"}
}

// Streams are the subjects that clients may listen on.
func Streams() []string { return []string{NoticePrefix + ".>"} }

// Headers.
const (
	HeaderContentType = "Content-Type"
	HeaderCommandID   = "Allot-Command-Id"
	HeaderRequestID   = "Allot-Request-Id"
	// HeaderDryRun with the value "true" decides a command and answers what would
	// happen.
	HeaderDryRun = "Allot-Dry-Run"
	// HeaderDeadline is an RFC 3339 time after which the request is not carried
	// out.
	HeaderDeadline = "Allot-Deadline"
	// HeaderSequence is in every reply: the commit up to which it holds. A query
	// with this min_sequence, at any server of the ledger, sees what led to the
	// reply.
	HeaderSequence = "Allot-Sequence"
	// HeaderTraceParent and HeaderTraceState are those of W3C Trace Context. The
	// reply to a request that is recorded has the first, with the server's span.
	// Other values than Trace Context allows are ignored.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

// HeaderLimits are the sizes, in bytes, of the largest value of each header. Each
// may occur once, and must be text. Some are stored in records.
var HeaderLimits = map[string]int{
	HeaderContentType: 64,
	HeaderCommandID:   64,
	HeaderRequestID:   255,
	HeaderDryRun:      8,
	HeaderDeadline:    64,
}

// MaxHeaderBytes is the size of all headers of a request together, whatever their
// names.
const MaxHeaderBytes = 16 << 10

// LeastPayload is what a message may take at every server, headers and body.
const LeastPayload = 128 << 10

// Reply is the answer to every request. Exactly one of Sequence, Nothing, DryRun,
// Rejection and Error gives the outcome of the command.
type Reply struct {
	Sequence  uint64             `json:"sequence,omitempty"` // of the commit: the consumers' new generation
	Index     int                `json:"index,omitempty"`    // index of the record in the commit
	Repeated  bool               `json:"repeated,omitempty"` // the id was known; this is the first result
	Nothing   bool               `json:"nothing,omitempty"`  // accepted, and nothing had to change
	DryRun    bool               `json:"dry_run,omitempty"`  // accepted, and Events would happen
	Events    []ledger.EventLine `json:"events,omitempty"`   // events of a dry run
	Claimed   []Claimed          `json:"claimed,omitempty"`  // what a claim chose for each consumer
	Rejection *demand.Rejection  `json:"rejection,omitempty"`
	Error     *Error             `json:"error,omitempty"`
}

// Claimed is what a claim chose for a consumer.
type Claimed struct {
	Consumer    ledger.UUID               `json:"consumer"`
	Allocations []ledger.AllocationRecord `json:"allocations"`
	Mappings    []ledger.GroupMapping     `json:"mappings"` // providers by the suffix of the group they serve
	Score       float64                   `json:"score"`
	Seed        uint64                    `json:"seed"`
	Alternates  []ledger.Alternate        `json:"alternates,omitempty"`
	// Alternative is which of the claim's alternatives was chosen, from 0, and Earlier says of each before
	// it why it was not.
	Alternative uint64   `json:"alternative,omitempty"`
	Earlier     []string `json:"earlier,omitempty"`
}

// ClaimedIn lists what events say that claims chose.
func ClaimedIn(events []ledger.Event) (list []Claimed) {
	for _, event := range events {
		if one, is := event.(ledger.AllocationsClaimed); is {
			list = append(list, Claimed{
				Consumer: one.Consumer, Allocations: one.Allocations, Mappings: one.Mappings, Score: one.Score, Seed: one.Seed,
				Alternates: one.Alternates, Alternative: one.Alternative, Earlier: one.Earlier,
			})
		}
	}
	return list
}

// Error reports that a request was not carried out, as far as is known.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Retry means that the same request, with the same command id, may succeed.
	Retry bool `json:"retry,omitempty"`
	// RetryAfterMS is how long to wait before a retry, in milliseconds.
	RetryAfterMS int `json:"retry_after_ms,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Codes of Error.
const (
	ErrorBadRequest  = "bad_request"
	ErrorUnavailable = "unavailable"
	ErrorInternal    = "internal"
	ErrorNotFound    = "not_found" // a query about something that does not exist
	ErrorTooLarge    = "too_large" // the answer would be larger than NATS takes
	ErrorForbidden   = "forbidden" // the user may not send that request
	ErrorTooLate     = "too_late"  // the deadline had passed
)

// ErrorCodes are all codes of Error.
var ErrorCodes = []string{
	ErrorBadRequest, ErrorUnavailable, ErrorInternal, ErrorNotFound, ErrorTooLarge, ErrorForbidden, ErrorTooLate,
}

// BatchSubject takes several commands in one message.
const BatchSubject = "allot.batch"

// Batch is the body of a request on BatchSubject. Independent commands are
// answered one by one, and carried out in an undefined order. With Atomic the
// commands are carried out in order in one record: all of them or none.
type Batch struct {
	Atomic   bool           `json:"atomic,omitempty"`
	Commands []BatchCommand `json:"commands"`
}

// BatchCommand is one command of a batch.
type BatchCommand struct {
	Command string `json:"command"` // name of the command
	// ID is the command's own id: required for independent commands, except in
	// dry runs. An atomic batch has one in the header Allot-Command-Id.
	ID   ledger.UUID   `json:"id,omitzero"`
	Body encoding.Body `json:"body"`
}

// BatchReply is the reply to a batch.
type BatchReply struct {
	// Replies are the replies to independent commands, in the order of the
	// request.
	Replies []Reply `json:"replies,omitempty"`
	// Result is the reply to an atomic batch.
	Result *Reply `json:"result,omitempty"`
	Error  *Error `json:"error,omitempty"`
}
