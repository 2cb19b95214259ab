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
