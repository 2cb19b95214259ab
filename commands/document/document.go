// Package document reads JSON from strangers, for all APIs. It estimates the
// memory that a document will take before it is decoded, and reads it in one way
// only, so that no two readers understand it differently.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
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

// Errors of a document that is not exactly one value.
var (
	errEmpty = errors.New("the body is empty")
	errMore  = errors.New("there is text after the end")
)

// strictly refuses documents that different readers understand differently.
var strictly = json.JoinOptions(jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

// noDocument is what a Reader reads that is not borrowed.
var noDocument = strings.NewReader("")

// Reader reads the tokens of a document strictly: repeated names and text that is
// not UTF-8 are errors. It copies no more than it returns.
type Reader struct{ *jsontext.Decoder }

// Read returns a Reader of a document.
func Read(document []byte) Reader {
	return Reader{jsontext.NewDecoder(bytes.NewBuffer(document), strictly)}
}

// borrowed are Readers for the next documents: a new one costs as much as a small
// document.
var borrowed = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Borrow is Read for documents that come often. Return must be called, and
// nothing read after that.
func Borrow(document []byte) Reader {
	d, _ := borrowed.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(document), strictly)
	return Reader{d}
}

// Return gives a borrowed Reader back.
func (r Reader) Return() {
	r.Reset(noDocument, strictly) // it must not hold the document
	borrowed.Put(r.Decoder)
}

// End is called after the document's value. It fails if anything follows.
func (r Reader) End() error {
	switch _, err := r.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	default:
		return errMore
	}
}

// Check finds the faults of a document that something else will decode. It
// decodes nothing.
func Check(document []byte) error {
	if len(bytes.TrimSpace(document)) == 0 {
		return errEmpty
	}
	r := Read(document)
	for {
		if _, err := r.ReadToken(); err != nil {
			return Plain(err)
		}
		switch depth := r.StackDepth(); {
		case depth > MaxDepth:
			return ErrTooDeep
		case depth == 0:
			return r.End()
		}
	}
}

// Decode reads a document, which must have been weighed, into a value. Whatever
// Check refuses is an error, and so are names that the value does not have.
func Decode(document []byte, into any) error {
	return Plain(json.Unmarshal(document, into, jsonv1.DefaultOptionsV1(), strictly,
		json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false)))
}

// DecodeLoosely reads a document from a trusted source, such as a server's
// answer. It skips names that the value does not have.
func DecodeLoosely(document []byte, into any) error {
	return json.Unmarshal(document, into, jsonv1.DefaultOptionsV1())
}

// Encode writes a value as encoding/json does, but without HTML escaping.
func Encode(value any) ([]byte, error) {
	return json.Marshal(value, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
}

// Plain returns a Reader's error in plain words.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the body ends too early: %w", io.ErrUnexpectedEOF)
	}
	var unread *jsontext.SyntacticError
	if errors.As(err, &unread) {
		return errors.New(strings.TrimPrefix(unread.Error(), "jsontext: "))
	}
	return err
}
