package ledger

import (
	"encoding/hex"
	"strings"
)

// Spelling is one of the ways in which names of projects, users and requests spell a
// uuid. A name that is one takes a third of the room as a spelling and 16 bytes. The
// numbers are stored, and never stand for another spelling.
type Spelling int8

// The spellings.
const (
	SpelledDashed  Spelling = iota // as UUID.String does
	SpelledPlain                   // without dashes, as Keystone has them
	SpelledRequest                 // req- and dashes, as request ids of OpenStack
	Spellings                      // how many there are
)

const requestPrefix = "req-"

// ParseText returns the uuid that a name is, if it is one in one of the spellings.
func ParseText(name string) (id UUID, as Spelling, ok bool) {
	switch len(name) {
	case 36:
		id, ok = undashed(name)
		return id, SpelledDashed, ok
	case 32:
		return id, SpelledPlain, unhex(id[:], name)
	case len(requestPrefix) + 36:
		if text, is := strings.CutPrefix(name, requestPrefix); is {
			id, ok = undashed(text)
		}
		return id, SpelledRequest, ok
	}
	return id, 0, false
}

// Text is the inverse of ParseText.
func (as Spelling) Text(id UUID) string {
	switch as {
	case SpelledPlain:
		return hex.EncodeToString(id[:])
	case SpelledRequest:
		return requestPrefix + id.String()
	default:
		return id.String()
	}
}

// Spells reports whether a text is a uuid in hexadecimal digits of any case, with or
// without dashes: what fits into Placement's column for the uuid of an aggregate.
func Spells(text string, id UUID) bool {
	return len(text) <= 36 && strings.EqualFold(strings.ReplaceAll(text, "-", ""), SpelledPlain.Text(id))
}

// undashed reads a uuid that is spelt as String spells it.
func undashed(text string) (id UUID, ok bool) {
	if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	return id, unhex(id[:4], text[:8]) && unhex(id[4:6], text[9:13]) && unhex(id[6:8], text[14:18]) &&
		unhex(id[8:10], text[19:23]) && unhex(id[10:], text[24:])
}

// unhex reads small hexadecimal digits, two for each byte. Others would not be spelt as
// they are.
func unhex(to []byte, digits string) bool {
	for i := range to {
		high, low := digitValues[digits[2*i]], digitValues[digits[2*i+1]]
		if high|low > 0xf {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

// digitValues are the values of the small hexadecimal digits; noDigit: it is none.
var digitValues = func() (all [256]byte) {
	const noDigit = 0xff
	for c := range all {
		all[c] = noDigit
	}
	for value, c := range []byte("0123456789abcdef") {
		all[c] = byte(value)
	}
	return all
}()
