package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/minio/highwayhash"
)

// A block file is a row of records, one for each message:
//
//	length 4 | sequence 8 | time 8 | subject length 2 | subject | [headers length 4 | headers] | message | checksum 8
//
// little-endian. The highest bit of the length says that there are headers.
// The two highest bits of the sequence mark what is no message: a deleted one,
// or the memory of a deleted one. The checksum is a HighwayHash of everything
// but the lengths, with a key made of the stream's name and the block's number.
// This is how nats-server 2.15 writes it (server/filestore.go); a test compares.
const (
	recordHeaderBytes = 4 + 8 + 8 + 2
	checksumBytes     = 8
	emptyRecordBytes  = recordHeaderBytes + checksumBytes

	headersBit   = 1 << 31
	erasedBit    = 1 << 63
	tombstoneBit = 1 << 62

	// maxRecordBytes is the longest record that the file store takes.
	maxRecordBytes = 32 << 20
)

type record struct {
	offset   int // in the file
	length   int // in the file
	sequence uint64
	time     int64 // Unix nanoseconds
	subject  []byte
	data     []byte
}

// blockHash is the hash of a block's records. Each goroutine needs its own.
func blockHash(stream string, block int) hash.Hash64 {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, block))
	return newHash(key)
}

func streamHash(stream string) hash.Hash64 { return newHash(sha256.Sum256([]byte(stream))) }

func newHash(key [32]byte) hash.Hash64 {
	h, err := highwayhash.New64(key[:])
	if err != nil {
		panic("blocks: a key of 32 bytes is refused: " + err.Error()) // only another length is
	}
	return h
}

// parse reads the record at an offset and checks its checksum, if there is a
// hash. The reason says why there is no whole record, and is empty if there is.
func parse(buf []byte, offset int, sum hash.Hash64) (r record, reason string) {
	rest := buf[offset:]
	if len(rest) < emptyRecordBytes {
		return r, fmt.Sprintf("%d bytes are no record", len(rest))
	}
	length := binary.LittleEndian.Uint32(rest)
	headers := length&headersBit != 0
	length &^= headersBit
	subject := int(binary.LittleEndian.Uint16(rest[20:]))
	begin := recordHeaderBytes + subject
	if headers {
		begin += 4
	}
	if length > maxRecordBytes || int(length) > len(rest) || begin+checksumBytes > int(length) {
		return r, fmt.Sprintf("a record of %d bytes, with %d left", length, len(rest))
	}
	r = record{
		offset: offset, length: int(length),
		sequence: binary.LittleEndian.Uint64(rest[4:]), time: int64(binary.LittleEndian.Uint64(rest[12:])),
		subject: rest[recordHeaderBytes : recordHeaderBytes+subject],
	}
	body := rest[begin : int(length)-checksumBytes]
	if sum != nil {
		sum.Reset()
		_, _ = sum.Write(rest[4:20]) // a hash.Hash never fails
		_, _ = sum.Write(r.subject)
		_, _ = sum.Write(body)
		var want [checksumBytes]byte
		if !bytes.Equal(sum.Sum(want[:0]), rest[int(length)-checksumBytes:length]) {
			return r, "its checksum is wrong"
		}
	}
	if headers {
		size := binary.LittleEndian.Uint32(rest[begin-4:])
		if int64(size) > int64(len(body)) {
			return r, fmt.Sprintf("headers of %d bytes in a record of %d", size, length)
		}
		body = body[size:]
	}
	r.data = body
	return r, ""
}

// goodAfter finds the first record with a right checksum after an offset, byte
// by byte: what a writer left unfinished has none.
func goodAfter(buf []byte, offset int, above uint64, sum hash.Hash64) (record, bool) {
	for at := offset; at+emptyRecordBytes <= len(buf); at++ {
		// Cheap first: a sequence that can follow, and the log's subject.
		sequence := binary.LittleEndian.Uint64(buf[at+4:])
		if sequence <= above || sequence > above+maxAhead {
			continue
		}
		if r, unfinished := parse(buf, at, sum); unfinished == "" {
			return r, true
		}
	}
	return record{}, false
}

// maxAhead bounds how far behind damage the next record is looked for.
const maxAhead = 1 << 20
