package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// Document is a JSON object that clients store with an entity and that no rule
// reads. It has one canonical form: no blanks, sorted keys, numbers as the client
// wrote them. The empty Document stands for {}.
type Document string

// MaxDocumentBytes is the largest size of a document in its canonical form.
const MaxDocumentBytes = 64 << 10

// maxDocumentDepth is how deep lists and objects may nest.
const maxDocumentDepth = 64

// ParseDocument brings JSON text, which must be one object, into its canonical
// form.
func ParseDocument(text []byte) (Document, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return "", fmt.Errorf("ledger: not a JSON object: found %s", wrong.Value)
		}
		return "", fmt.Errorf("ledger: not a JSON object: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("ledger: there is text after the JSON object")
	}
	return NewDocument(object)
}

// NewDocument encodes an object as encoding/json or msgpack decode it. It refuses
// values that msgpack has and JSON has not: bytes, times, infinite numbers and
// NaN.
func NewDocument(object map[string]any) (Document, error) {
	if len(object) == 0 {
		return "", nil
	}
	if err := checkValue(object, 0); err != nil {
		return "", err
	}
	text, err := PlainJSON(object)
	if err != nil {
		return "", fmt.Errorf("ledger: document: %w", err)
	}
	if len(text) > MaxDocumentBytes {
		return "", fmt.Errorf("ledger: a document takes at most %d bytes, not %d", MaxDocumentBytes, len(text))
	}
	return Document(text), nil
}

func checkValue(value any, depth int) error {
	if depth > maxDocumentDepth {
		return fmt.Errorf("ledger: a document nests at most %d levels deep", maxDocumentDepth)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if err := checkValue(v, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, v := range value {
			if err := checkValue(v, depth+1); err != nil {
				return err
			}
		}
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("ledger: a document cannot hold %v", value)
		}
	case float32:
		return checkValue(float64(value), depth)
	case nil, bool, string, json.Number, int8, int16, int32, int64, uint8, uint16, uint32, uint64:
	default:
		return fmt.Errorf("ledger: a document cannot hold %T", value)
	}
	return nil
}

// Text returns the document as JSON.
func (doc Document) Text() string {
	if doc == "" {
		return "{}"
	}
	return string(doc)
}

// Object decodes the document. Numbers become json.Number.
func (doc Document) Object() (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(doc.Text())))
	dec.UseNumber()
	object := map[string]any{}
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("%w: document: %w", ErrCorrupt, err)
	}
	return object, nil
}

// MarshalJSON implements json.Marshaler.
func (doc Document) MarshalJSON() ([]byte, error) { return []byte(doc.Text()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (doc *Document) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*doc = ""
		return nil
	}
	parsed, err := ParseDocument(text)
	*doc = parsed
	return err
}

// EncodeMsgpack writes the document as a map.
func (doc Document) EncodeMsgpack(e *msgpack.Encoder) error {
	object, err := doc.Object()
	if err != nil {
		return err
	}
	return e.Encode(PlainNumbers(object))
}

// PlainNumbers replaces each json.Number by a number that msgpack can encode.
func PlainNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			value[k] = PlainNumbers(v)
		}
	case []any:
		for i, v := range value {
			value[i] = PlainNumbers(v)
		}
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		if f, err := value.Float64(); err == nil {
			return f
		}
		return value.String() // too large for msgpack's numbers
	}
	return value
}

// DecodeMsgpack reads a map. The library itself reads nil as the empty document.
func (doc *Document) DecodeMsgpack(d *msgpack.Decoder) error {
	value, err := d.DecodeInterface()
	if err != nil {
		return err
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("ledger: a document must be a map, not %T", value)
	}
	*doc, err = NewDocument(object)
	return err
}

// PlainJSON returns a value's JSON without HTML escaping: "<", ">" and "&" stand
// for themselves. All JSON that leaves the process is made by it, because clients
// match on the texts of answers.
func PlainJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	if err := PlainEncoder(&out).Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// PlainEncoder returns an encoder that writes values as PlainJSON, each with a
// line feed after it.
func PlainEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
