package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

// maxNumberChars is the largest number of digits, and the largest exponent, of a
// number.
const maxNumberChars = 400

// object is a JSON object whose members keep their order, because allocations are
// checked in the order of the request.
type object struct {
	keys    []string
	members map[string]any
}

func (o *object) get(key string) any { return o.members[key] }

func (o *object) has(key string) bool {
	_, ok := o.members[key]
	return ok
}

// decodeDocument reads a JSON document into *object, []any, string, json.Number,
// bool and nil. It is stricter than Python's parser, which accepts NaN and
// repeated keys: see docs/compatibility.md.
func decodeDocument(body []byte) (any, *rest.Failure) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, rest.BadRequest("Malformed JSON: expecting a value")
	}
	r := document.Read(body)
	doc, err := decodeValue(r)
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return nil, rest.BadRequest("Malformed JSON: %v", document.Plain(err))
	}
	return doc, nil
}

func decodeValue(r document.Reader) (any, error) {
	token, err := r.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		return decodeObject(r)
	case '[':
		return decodeArray(r)
	case '"':
		return token.String(), nil
	case '0':
		n := json.Number(token.String())
		return n, checkNumber(n)
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil
}

func decodeObject(r document.Reader) (any, error) {
	o := &object{members: make(map[string]any)}
	for r.PeekKind() != '}' {
		name, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := decodeValue(r)
		if err != nil {
			return nil, err
		}
		o.keys = append(o.keys, key)
		o.members[key] = value
	}
	_, err := r.ReadToken()
	return o, err
}

func decodeArray(r document.Reader) (any, error) {
	list := []any{}
	for r.PeekKind() != ']' {
		value, err := decodeValue(r)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := r.ReadToken()
	return list, err
}

// checkNumber refuses numbers with huge exact values, because the schema
// validator computes with exact values.
func checkNumber(n json.Number) error {
	text := strings.ToLower(string(n))
	mantissa, exponent, has := strings.Cut(text, "e")
	if len(mantissa) > maxNumberChars {
		return fmt.Errorf("a number with %d digits", len(mantissa))
	}
	if has {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxNumberChars || e < -maxNumberChars {
			return fmt.Errorf("the number %s is out of range", shorten(text))
		}
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// plain converts a document to the form that the schema validator takes.
func plain(value any) any {
	switch v := value.(type) {
	case *object:
		m := make(map[string]any, len(v.keys))
		for key, member := range v.members {
			m[key] = plain(member)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	}
	return value
}

// The functions below read validated documents. A value of another type than the
// schema permits reads as zero.

func textOf(value any) string {
	s, _ := value.(string)
	return s
}

// integerOf reads an integer, which may be written as 1.0 or 1e3. Values beyond
// int64 saturate, so that range checks refuse them.
func integerOf(value any) int64 {
	n, _ := value.(json.Number)
	if i, err := n.Int64(); err == nil {
		return i
	}
	r, ok := new(big.Rat).SetString(string(n))
	switch {
	case !ok || !r.IsInt():
		return 0
	case r.Num().IsInt64():
		return r.Num().Int64()
	case r.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func integerPointer(o *object, key string) *int64 {
	if !o.has(key) {
		return nil
	}
	return new(integerOf(o.get(key)))
}

func floatPointer(o *object, key string) *float64 {
	if !o.has(key) {
		return nil
	}
	n, _ := o.get(key).(json.Number)
	f, err := n.Float64()
	if err != nil {
		f = math.Inf(1) // the command's check refuses it
	}
	return &f
}

func objectOf(value any) *object {
	if o, ok := value.(*object); ok {
		return o
	}
	return &object{}
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

func stringsOf(value any) []string {
	list := listOf(value)
	out := make([]string, len(list))
	for i := range list {
		out[i] = textOf(list[i])
	}
	return out
}

// uuidDecoration is what Python's UUID() leaves out.
var uuidDecoration = strings.NewReplacer("urn:", "", "uuid:", "")

// parseUUID reads a uuid as Python's UUID() does: dashes anywhere or nowhere, any
// case, and the urn:uuid: and {} forms.
func parseUUID(text string) (ledger.UUID, bool) {
	if len(text) == 36 {
		if id, err := ledger.ParseUUID(text); err == nil {
			return id, true // the usual form, for which the rest only costs time
		}
	}
	text = strings.ReplaceAll(strings.Trim(uuidDecoration.Replace(text), "{}"), "-", "")
	if len(text) != 32 {
		return ledger.NilUUID, false
	}
	id, err := ledger.ParseUUID(text)
	return id, err == nil
}

func uuidOf(value any) ledger.UUID {
	id, _ := parseUUID(textOf(value))
	return id
}
