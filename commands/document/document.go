package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Errors of a document that is not exactly one value.
var (
	errEmpty = errors.New("the body is empty")
	errMore  = errors.New("there is something after the end")
)

// strictly refuses what readers understand differently.
var strictly = json.JoinOptions(jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false))

// Reader reads the tokens of a document, strictly: repeated names and text
// that is not UTF-8 are errors. It copies no more than what it returns.
type Reader struct{ *jsontext.Decoder }

// Read returns a Reader of a document.
func Read(document []byte) Reader {
	return Reader{jsontext.NewDecoder(bytes.NewBuffer(document), strictly)}
}

// End is called behind the document's value, where there must be nothing.
func (r Reader) End() error {
	switch _, err := r.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	default:
		return errMore
	}
}

// Check finds what is wrong with a document that something else will decode.
// It decodes nothing.
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

// Decode reads a document into a value: what Check refuses, and names that the
// value does not have, are errors. It has been weighed.
func Decode(document []byte, into any) error {
	return Plain(json.Unmarshal(document, into, jsonv1.DefaultOptionsV1(), strictly,
		json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false)))
}

// DecodeLoosely reads a document of somebody who is trusted, such as a server's
// answer. Names that the value does not have are skipped.
func DecodeLoosely(document []byte, into any) error {
	return json.Unmarshal(document, into, jsonv1.DefaultOptionsV1())
}

// Encode writes a value as encoding/json does, but for HTML.
func Encode(value any) ([]byte, error) {
	return json.Marshal(value, jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false))
}

// Plain says in plain words what a Reader found wrong.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("it ends too early: %w", io.ErrUnexpectedEOF)
	}
	var unread *jsontext.SyntacticError
	if errors.As(err, &unread) {
		return errors.New(strings.TrimPrefix(unread.Error(), "jsontext: "))
	}
	return err
}
