package blocks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
)

// Unwritten reports whether the bytes at the end that are no record are what a power
// cut leaves of a write that was not synced: nothing but zeros, or the begin of the
// next record and then zeros or the end of the file. A record that was changed later
// has its end.
//
// JetStream syncs the files of a replicated stream later than it reports a message:
// before that, only the servers' agreements hold it, and it is taken from them at the
// next start.
func (r *Report) Unwritten() (bool, error) {
	if r.TornBytes == 0 {
		return false, nil
	}
	f, err := os.Open(r.TornPath)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	tail := make([]byte, r.TornBytes)
	if _, err := f.ReadAt(tail, r.TornAt); err != nil {
		return false, fmt.Errorf("%s: %w", r.TornPath, err)
	}
	return unwritten(tail, r.Last.Sequence), nil
}

// unwritten judges the bytes behind the record of a sequence.
func unwritten(tail []byte, last uint64) bool {
	written := len(bytes.TrimRight(tail, "\x00"))
	if written < recordHeaderBytes {
		return true
	}
	length := binary.LittleEndian.Uint32(tail) &^ headersBit
	if length < emptyRecordBytes || length > maxRecordBytes || binary.LittleEndian.Uint64(tail[4:]) != last+1 {
		return false
	}
	return len(tail) < int(length) || written <= int(length)-checksumBytes
}
