package wire

import (
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

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
