package projector

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Names of projects, users and requests are uuids, as a rule, in one of a few
// spellings. These are stored in a byte for the spelling and 16 for the uuid: a
// third of the room, and compression of hexadecimal digits costs more time than
// packing them. Any other name is stored as it is, after its length plus the number
// of spellings.
const (
	packedDashed  = iota // a uuid
	packedPlain          // a uuid without dashes, as Keystone has them
	packedRequest        // a request id of OpenStack's, req- and a uuid
	packings
)

const requestPrefix = "req-"

// appendPacked writes a name.
func appendPacked(b []byte, name string) []byte {
	if text, ok := strings.CutPrefix(name, requestPrefix); ok {
		if id, ok := dashed(text); ok {
			return append(append(b, packedRequest), id[:]...)
		}
	}
	if id, ok := dashed(name); ok {
		return append(append(b, packedDashed), id[:]...)
	}
	if id, ok := undashed(name); ok {
		return append(append(b, packedPlain), id[:]...)
	}
	return append(binary.AppendUvarint(b, packings+uint64(len(name))), name...)
}

// dashed reads a uuid that is spelt as String spells it.
func dashed(text string) (id ledger.UUID, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	var digits [32]byte
	at := 0
	for _, part := range [...]string{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		at += copy(digits[at:], part)
	}
	return id, readDigits(&id, &digits)
}

// undashed reads a uuid of 32 small digits.
func undashed(text string) (id ledger.UUID, ok bool) {
	var digits [32]byte
	if len(text) != len(digits) {
		return id, false
	}
	copy(digits[:], text)
	return id, readDigits(&id, &digits)
}

// readDigits reads small hexadecimal digits; with others it returns false.
func readDigits(id *ledger.UUID, digits *[32]byte) bool {
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return false // it would be read as a small one
		}
	}
	_, err := hex.Decode(id[:], digits[:])
	return err == nil
}

// packed reads a name that appendPacked wrote.
func (f *fields) packed() string {
	switch n := f.uint(); {
	case f.bad:
		return ""
	case n == packedDashed:
		return f.uuid().String()
	case n == packedPlain:
		return hex.EncodeToString(f.take(uint64(len(ledger.UUID{}))))
	case n == packedRequest:
		return requestPrefix + f.uuid().String()
	default:
		return string(f.take(n - packings))
	}
}

// skipPacked skips a name that appendPacked wrote.
func (f *fields) skipPacked() {
	if n := f.uint(); n < packings {
		f.take(uint64(len(ledger.UUID{})))
	} else {
		f.take(n - packings)
	}
}
