package blocks

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/s2"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
)

// A server of a cluster acknowledges what is durable in its Raft log. The stream's blocks are synced with the
// next snapshot, and at a start the server cuts them back to that, and applies what comes after again when a
// majority of servers has voted. Until then the newest commits of a server are in its Raft log alone.
//
// That is a file store, too, in which each message is an entry (server/raft.go, appendEntry):
//
//	leader 8 | term 8 | commit 8 | previous term 8 | previous index 8 | number 2 | [length 4 | type 1 | content]...
//
// and the content of a normal entry, for a message (server/jetstream_cluster.go, encodeStreamMsg):
//
//	operation 1 | sequence 8 | time 8 | three of [length 2 | text]: subject, reply, headers | length 4 | message
//
// This is how nats-server 2.15 writes it; the simulator heals by it.
const (
	normalEntry       = 0
	messageOperation  = 4
	compressedMessage = 14 // with S2, but for the operation
)

// Proposed is a commit of a Raft log. It may not have been acknowledged.
type Proposed struct {
	Term uint64
	ledger.Entry
}

// Proposed yields the commits in the Raft logs, each with the sequence that it says. What is damaged or of
// another stream is passed over.
func (f Folder) Proposed(ctx context.Context, yield func(Proposed)) error {
	groups, err := durable.Files(filepath.Join(f.Store, "jetstream", "$SYS", "_js_"), "")
	for _, group := range groups {
		list, failed := blocksIn(filepath.Join(group, messagesFolder))
		if errors.Is(failed, os.ErrNotExist) {
			continue
		}
		err = errors.Join(err, failed)
		for _, b := range list {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err = errors.Join(err, f.proposedInBlock(filepath.Base(group), b, yield))
		}
	}
	return joinErrors(err)
}

func (f Folder) proposedInBlock(group string, b block, yield func(Proposed)) error {
	buf, err := os.ReadFile(b.path) // with an error, too, it returns what comes before
	sum, last := blockHash(group, b.number), uint64(0)
	for offset := 0; offset < len(buf); {
		r, reason := parse(buf, offset, sum)
		if reason != "" {
			next, found := goodAfter(buf, offset+1, last, sum)
			if !found {
				break
			}
			r = next
		}
		f.proposedIn(r.data, yield)
		offset, last = r.offset+r.length, r.sequence
	}
	return err
}

// proposedIn yields the commits in an entry.
func (f Folder) proposedIn(entry []byte, yield func(Proposed)) {
	in := &numbers{data: entry}
	in.bytes(8)
	term := in.fixed(8)
	in.bytes(24)
	for range in.fixed(2) {
		one := &numbers{data: in.bytes(in.fixed(4))}
		kind, operation := one.fixed(1), one.fixed(1)
		if in.bad || one.bad {
			return
		}
		message := &numbers{data: one.data}
		switch {
		case kind != normalEntry:
			continue
		case operation == compressedMessage:
			if n, err := s2.DecodedLen(one.data); err != nil || n > maxRecordBytes {
				continue
			}
			message.data, _ = s2.Decode(nil, one.data) // what cannot be decoded is too short
		case operation != messageOperation:
			continue
		}
		message.bytes(16)
		subject := message.bytes(message.fixed(2))
		message.bytes(message.fixed(2))
		message.bytes(message.fixed(2))
		data := message.bytes(message.fixed(4))
		sequence, _, err := ledger.CommitLink(data)
		if err == nil && !message.bad && string(subject) == f.Subject {
			yield(Proposed{term, ledger.Entry{Sequence: sequence, Data: data}})
		}
	}
}
