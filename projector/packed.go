package projector

import (
	"encoding/binary"

	"github.com/allot-project/allot/ledger"
)

// Names of projects, users and requests are uuids, as a rule, in one of a few
// spellings. These are stored in a byte for the spelling and 16 for the uuid: a
// third of the room, and compression of hexadecimal digits costs more time than
// packing them. Any other name is stored as it is, after its length plus packings.
const packings = uint64(ledger.Spellings)

// appendPacked writes a name.
func appendPacked(b []byte, name string) []byte {
	if id, as, ok := ledger.ParseText(name); ok {
		return append(append(b, byte(as)), id[:]...)
	}
	return append(binary.AppendUvarint(b, packings+uint64(len(name))), name...)
}

// packed reads a name that appendPacked wrote.
func (f *fields) packed() string {
	switch n := f.uint(); {
	case f.bad:
		return ""
	case n < packings:
		return ledger.Spelling(n).Text(f.uuid())
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
