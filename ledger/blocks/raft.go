package blocks

import (
	"context"
	"encoding/binary"
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
	in := fields{rest: entry}
	in.take(8)
	term := in.number(8)
	in.take(24)
	for range in.number(2) {
		one := fields{rest: in.take(in.number(4))}
		kind, operation := one.number(1), one.number(1)
		if in.short || one.short {
			return
		}
		message := fields{rest: one.rest}
		switch {
		case kind != normalEntry:
			continue
		case operation == compressedMessage:
			if n, err := s2.DecodedLen(one.rest); err != nil || n > maxRecordBytes {
				continue
			}
			message.rest, _ = s2.Decode(nil, one.rest) // what cannot be decoded is too short
		case operation != messageOperation:
			continue
		}
		message.take(16)
		subject := message.take(message.number(2))
		message.take(message.number(2))
		message.take(message.number(2))
		data := message.take(message.number(4))
		sequence, _, err := ledger.CommitLink(data)
		if err == nil && !message.short && string(subject) == f.Subject {
			yield(Proposed{term, ledger.Entry{Sequence: sequence, Data: data}})
		}
	}
}

// fields are numbers, little-endian, and bytes, one after the other.
type fields struct {
	rest  []byte
	short bool // more was taken than there was
}

func (f *fields) take(n uint64) (taken []byte) {
	if f.short = f.short || n > uint64(len(f.rest)); f.short {
		return nil
	}
	taken, f.rest = f.rest[:n], f.rest[n:]
	return taken
}

func (f *fields) number(size uint64) uint64 {
	var whole [8]byte
	copy(whole[:], f.take(size))
	return binary.LittleEndian.Uint64(whole[:])
}
