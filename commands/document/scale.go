// Package document reads JSON from strangers, for all APIs. It estimates the
// memory that a document will take before it is decoded, and reads it in one way
// only, so that no two readers understand it differently.
package document

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxDepth is how deep values may nest. A ledger.Document of 64 levels fits into
// a command of a batch.
const MaxDepth = 72

// Errors of a Scale.
var (
	// ErrTooHeavy means that the decoded document would take too much memory.
	ErrTooHeavy = errors.New("the body has too many elements")
	// ErrTooDeep means that the document nests deeper than MaxDepth.
	ErrTooDeep = fmt.Errorf("the body is nested deeper than %d", MaxDepth)
)

// TooHeavy returns an ErrTooHeavy with the largest weight of a document.
func TooHeavy(most int) error {
	return fmt.Errorf("%w: decoded, it may take %d MiB of memory at most; send it in parts", ErrTooHeavy, most>>20)
}

// Prices are the memory that the parts of a document take once an API has decoded
// them, in bytes.
type Prices struct {
	Byte    int // a byte of the document
	Object  int // an object, without its first pair
	Array   int // an array, without its first element
	Element int // an element of an array
	Pair    int // a pair of an object
	// Most is the largest weight of a document.
	Most int
}

// Scale weighs a document in pieces, as it arrives, without decoding it. It looks
// only for what can make values. So a text that is not JSON weighs at least as
// much as what a decoder makes of it before it finds the fault.
type Scale struct {
	Prices

	weight   int
	depth    int
	arrays   [MaxDepth + 1]bool // by depth
	inString bool
	escaped  bool
}

// Add weighs the next piece, and returns the weight of all pieces so far.
func (s *Scale) Add(piece []byte) (int, error) {
	s.weight += len(piece) * s.Byte
	for i := 0; i < len(piece); i++ {
		if s.inString {
			if i = s.endOfString(piece, i); s.inString {
				break
			}
			continue
		}
		switch piece[i] {
		case '"':
			s.inString = true
		case '[', '{':
			if err := s.open(piece[i] == '['); err != nil {
				return s.weight, err
			}
		case ']', '}':
			s.depth = max(s.depth-1, 0)
		case ',':
			s.another()
		}
		if s.weight > s.Most {
			break
		}
	}
	if s.weight > s.Most {
		return s.weight, TooHeavy(s.Most)
	}
	return s.weight, nil
}

// open counts an array or object, with the one element or pair that it has beyond
// its commas.
func (s *Scale) open(isArray bool) error {
	if s.depth++; s.depth > MaxDepth {
		return ErrTooDeep
	}
	if s.arrays[s.depth] = isArray; isArray {
		s.weight += s.Array
	} else {
		s.weight += s.Object
	}
	s.another()
	return nil
}

// another counts one more element or pair.
func (s *Scale) another() {
	if s.arrays[s.depth] {
		s.weight += s.Element
	} else {
		s.weight += s.Pair
	}
}

// endOfString returns the end of the string that the scale is in, if it is in
// this piece.
func (s *Scale) endOfString(piece []byte, i int) int {
	if s.escaped {
		s.escaped = false
		i++
	}
	for end := -1; i < len(piece); {
		if end < i {
			end = quoteFrom(piece, i)
		}
		escape := bytes.IndexByte(piece[i:end], '\\')
		switch {
		case escape >= 0: // the character after a backslash ends nothing
			i += escape + 2
		case end < len(piece):
			s.inString = false
			return end
		default:
			i = end
		}
	}
	s.escaped = i > len(piece)
	return i
}

// quoteFrom returns the place of the next quote, or the end.
func quoteFrom(piece []byte, i int) int {
	if n := bytes.IndexByte(piece[i:], '"'); n >= 0 {
		return i + n
	}
	return len(piece)
}

// Weigh weighs a whole document.
func (p Prices) Weigh(document []byte) (int, error) {
	s := Scale{Prices: p}
	return s.Add(document)
}
