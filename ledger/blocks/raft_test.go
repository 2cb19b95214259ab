package blocks

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// entry is a Raft log's entry with one commit, as nats-server writes it.
func entry(subject string, commit []byte, compressed bool) []byte {
	little := binary.LittleEndian
	message := append(little.AppendUint16(make([]byte, 16), uint16(len(subject))), subject...)
	message = append(little.AppendUint32(append(message, 0, 0, 0, 0), uint32(len(commit))), commit...)
	operation := byte(messageOperation)
	if compressed {
		message, operation = s2.Encode(nil, message), compressedMessage
	}
	head := append(little.AppendUint64(make([]byte, 8), 7), make([]byte, 24)...)
	head = little.AppendUint32(little.AppendUint16(head, 1), uint32(len(message)+2))
	return append(append(head, normalEntry, operation), message...)
}

// FuzzProposed: whatever stands in an entry, what is read from it are commits that it holds.
func FuzzProposed(f *testing.F) {
	record := ledger.Record{Command: "CreateTrait", Events: ledgertest.Vocabulary()[:1]}
	_, commit := ledgertest.Commit(f, ledger.Head{}, record)
	folder := Folder{Subject: "log"}
	for _, whole := range [][]byte{entry("log", commit, false), entry("log", commit, true)} {
		var found []Proposed
		folder.proposedIn(whole, func(p Proposed) { found = append(found, p) })
		if len(found) != 1 || found[0].Term != 7 || found[0].Sequence != 1 || !bytes.Equal(found[0].Data, commit) {
			f.Fatalf("read %+v of an entry with one commit", found)
		}
		f.Add(whole)
	}
	folder.proposedIn(entry("other", commit, false), func(Proposed) { f.Fatal("another stream's commit is read") })
	f.Fuzz(func(t *testing.T, data []byte) {
		folder.proposedIn(data, func(p Proposed) {
			if sequence, _, err := ledger.CommitLink(p.Data); err != nil || sequence != p.Sequence {
				t.Errorf("read %d, which says that it is %d: %v", p.Sequence, sequence, err)
			}
		})
	})
}
