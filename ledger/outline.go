package ledger

import (
	"encoding/binary"
	"io"
)

// Outline is what a stored commit says besides the events of its records, which are
// passed over: they are most of it. An event of a kind that is not known, or with values
// that no event has, is not found, so an outline tells something only of a commit that
// somebody has read whole before, as its digest says.
type Outline struct {
	Sequence uint64
	Prev     Digest   // digest of the commit before it; zero for the first
	Digest   Digest   // of the encoded commit
	Records  []Record // without their events

	stored [][]byte // the records, in the encoded commit
}

// Head returns the commit's head.
func (o *Outline) Head() Head { return Head{Sequence: o.Sequence, Digest: o.Digest} }

// Leaves returns the leaves of the records in the Merkle tree. It reads the encoded
// commit, which must still be there.
func (o *Outline) Leaves() []Digest { return leavesOf(o.Sequence, o.stored) }

// DecodeOutline reads the outline of a stored commit. The error wraps ErrCorrupt.
// DecodeCommit would find the same, or an error.
func DecodeOutline(encoded []byte) (*Outline, error) {
	d := newDecoder(encoded)
	d.skipsEvents = true
	c, stored, err := d.commit()
	if err != nil {
		return nil, err
	}
	return &Outline{Sequence: c.Sequence, Prev: c.Prev, Digest: c.Digest, Records: c.Records, stored: stored}, nil
}

// skip passes over some values, and whatever they hold. They must be whole, and of types
// that stored forms have: no maps, and of extensions only those of 1 and of 16 bytes.
func (d *decoder) skip(values int) {
	if d.err != nil {
		return
	}
	rest := d.data[d.position():]
	for ; values > 0; values-- {
		// Each value takes at least one byte: more of them than bytes cannot be there.
		if values > len(rest) {
			d.fail("%d values in %d bytes", values, len(rest))
			return
		}
		s := shapes[rest[0]]
		bytes, header := s.bytes, 1+s.width
		if s.unknown || header > len(rest) {
			d.fail("value of type %#x in %d bytes", rest[0], len(rest))
			return
		}
		switch n := number(rest[1:header]); {
		case s.list:
			values += n + s.elements
		default:
			bytes += n
		}
		if rest = rest[header:]; bytes > len(rest) {
			d.fail("value of %d bytes in %d bytes", bytes, len(rest))
			return
		}
		rest = rest[bytes:]
	}
	_, err := d.in.Seek(int64(len(d.data)-len(rest)), io.SeekStart)
	d.keep(err)
}

// number reads a number of 0, 1, 2 or 4 bytes.
func number(b []byte) int {
	switch len(b) {
	case 1:
		return int(b[0])
	case 2:
		return int(binary.BigEndian.Uint16(b))
	case 4:
		return int(binary.BigEndian.Uint32(b))
	}
	return 0
}

// shape is how long a value of msgpack is, as its first byte says.
type shape struct {
	width    int  // bytes of the number that comes next, of the bytes or elements that follow
	bytes    int  // bytes that follow
	list     bool // elements follow
	elements int  // so many
	unknown  bool // stored forms have no such values
}

// shapes are those of values by their first byte.
var shapes = func() (all [256]shape) {
	for code := range all {
		switch {
		case code < 0x80 || code >= 0xe0: // a small integer
		case code >= 0x90 && code < 0xa0:
			all[code] = shape{list: true, elements: code & 0x0f}
		case code >= 0xa0 && code < 0xc0:
			all[code] = shape{bytes: code & 0x1f} // a short string
		default:
			all[code] = shape{unknown: true}
		}
	}
	for code, s := range map[byte]shape{
		0xc0: {}, 0xc2: {}, 0xc3: {}, // nil, false, true
		0xc4: {width: 1}, 0xc5: {width: 2}, 0xc6: {width: 4}, // byte strings
		0xca: {bytes: 4}, 0xcb: {bytes: 8}, // floats
		0xd4: {bytes: 1 + 1}, 0xd8: {bytes: 1 + 16}, // extensions, whose type is a byte
		0xcc: {bytes: 1}, 0xcd: {bytes: 2}, 0xce: {bytes: 4}, 0xcf: {bytes: 8}, // integers
		0xd0: {bytes: 1}, 0xd1: {bytes: 2}, 0xd2: {bytes: 4}, 0xd3: {bytes: 8},
		0xd9: {width: 1}, 0xda: {width: 2}, 0xdb: {width: 4}, // strings
		0xdc: {list: true, width: 2}, 0xdd: {list: true, width: 4},
	} {
		all[code] = s
	}
	return all
}()
