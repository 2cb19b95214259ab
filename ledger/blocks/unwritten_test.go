package blocks

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// TestUnwritten: what a power cut leaves of a write that was not synced is told apart
// from a record that was changed, wherever either of them ends or is changed.
func TestUnwritten(t *testing.T) {
	sum := blockHash("ALLOT", 1)
	whole := recordOf(7, bytes.Repeat([]byte("contents"), 20), sum)
	if r, reason := parse(whole, 0, sum); reason != "" || r.sequence != 7 {
		t.Fatal(reason, r.sequence)
	}
	for n := range len(whole) {
		begun := whole[:n]
		if !unwritten(begun, 6) {
			t.Errorf("%d of %d bytes and the end of the file are taken for damage", n, len(whole))
		}
		if zeros := append(bytes.Clone(begun), make([]byte, 4096)...); n <= len(whole)-checksumBytes && !unwritten(zeros, 6) {
			t.Errorf("%d of %d bytes and zeros are taken for damage", n, len(whole))
		}
	}
	// A changed length may say that the record is longer than it was: then its end
	// cannot be known.
	for at := 4; at < len(whole); at++ {
		for bit := range 8 {
			changed := bytes.Clone(whole)
			changed[at] ^= 1 << bit
			for _, behind := range []int{0, 4096} {
				if unwritten(append(bytes.Clone(changed), make([]byte, behind)...), 6) {
					t.Errorf("bit %d of byte %d is flipped, with %d zeros behind, and it is taken for unwritten", bit, at, behind)
				}
			}
		}
	}
	if unwritten(whole[:len(whole)-1], 5) {
		t.Error("a record that does not follow is taken for unwritten")
	}
}

// recordOf makes a record as nats-server does.
func recordOf(sequence uint64, message []byte, sum interface {
	Reset()
	Write([]byte) (int, error)
	Sum64() uint64
}) []byte {
	const subject = "allot.log"
	b := binary.LittleEndian.AppendUint32(nil, uint32(emptyRecordBytes+len(subject)+len(message)))
	b = binary.LittleEndian.AppendUint64(b, sequence)
	b = binary.LittleEndian.AppendUint64(b, 1_700_000_000_000_000_000)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(append(b, subject...), message...)
	sum.Reset()
	_, _ = sum.Write(b[4:20])
	_, _ = sum.Write(b[recordHeaderBytes:])
	return binary.LittleEndian.AppendUint64(b, sum.Sum64())
}
