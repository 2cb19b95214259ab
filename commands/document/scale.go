// Package document reads JSON that strangers send, for every door alike: it
// weighs a document before anything is made of it, and reads it in one way
// only, so that no two readers understand it differently.
package document

import (
	"bytes"
	"errors"
	"fmt"
)

// MaxDepth is how deep values may be in each other: a ledger.Document of 64
// levels has room in a command of a batch.
const MaxDepth = 72

// Errors of a Scale.
var (
	// ErrTooHeavy: what the document stands for would take too much memory.
	ErrTooHeavy = errors.New("the body has too many elements")
	// ErrTooDeep: the document is nested deeper than MaxDepth.
	ErrTooDeep = fmt.Errorf("the body is nested deeper than %d", MaxDepth)
)

// TooHeavy is an ErrTooHeavy that says what a document may weigh.
func TooHeavy(most int) error {
	return fmt.Errorf("%w: what it stands for may take %d MiB of memory at most; send it in parts", ErrTooHeavy, most>>20)
}

// Prices are what the parts of a document take in memory, in bytes, once they
// are what a door makes of them.
type Prices struct {
	Byte    int // of the document
	Object  int // without its first pair
	Array   int // without its first element
	Element int // of an array
	Pair    int // of an object
	// Most is what a document may weigh.
	Most int
}

// Scale weighs a document piece by piece, as it arrives, without decoding it.
// It looks only for what can make values, so that a text that is no JSON weighs
// no less than what a decoder makes of it before it finds out.
type Scale struct {
	Prices

	weight   int
	depth    int
	arrays   [MaxDepth + 1]bool // by depth
	inString bool
	escaped  bool
}

// Add weighs the next piece, and returns the weight of all so far.
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

// open counts an array or object, with the element or pair that it has more
// than commas.
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

// endOfString is where the string that the scale is in ends, if it does.
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
		case escape >= 0: // what is behind it ends nothing
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

// quoteFrom is where the next quote is, or the end.
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
