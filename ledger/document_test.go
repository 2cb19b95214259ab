package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// values draws what documents hold.
func values(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(),
		rapid.Map(rapid.Float64Range(-2, 2), func(f float64) any { return f + 0 }), // never -0, which msgpack's integers lack
		rapid.String().AsAny(), rapid.SampledFrom([]any{"", "<&>", "\u2028", int64(math.MaxInt64)}),
	}
	if depth > 0 {
		below := rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) })
		kinds = append(kinds, rapid.SliceOfN(below, 0, 3).AsAny(), rapid.MapOfN(rapid.String(), below, 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// TestDocumentsHaveOneForm: a document, written as JSON or as msgpack in any
// form, is stored in the same bytes, means the same, and is read again unchanged.
func TestDocumentsHaveOneForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		object := rapid.MapOfN(rapid.String(), values(3), 0, 4).Draw(rt, "object")
		text := ledgertest.Must(json.Marshal(object))
		doc := ledgertest.Must(ledger.ParseDocument(text))
		var spread bytes.Buffer
		ledgertest.OK(rt, json.Indent(&spread, text, "\t", " "))
		var want, got any
		if json.Unmarshal(text, &want) != nil || json.Unmarshal([]byte(doc.Text()), &got) != nil ||
			!reflect.DeepEqual(want, got) {
			rt.Errorf("%s is kept as %s", text, doc.Text())
		}
		packed := ledgertest.Must(msgpack.Marshal(doc))
		var fromBlanks, fromJSON, fromMsgpack ledger.Document
		for into, err := range map[*ledger.Document]error{
			&fromBlanks:  json.Unmarshal(spread.Bytes(), &fromBlanks),
			&fromJSON:    json.Unmarshal([]byte(doc.Text()), &fromJSON),
			&fromMsgpack: msgpack.Unmarshal(packed, &fromMsgpack),
		} {
			if err != nil || *into != doc {
				rt.Errorf("%s is read as %s, %v", doc, *into, err)
			}
		}
		if plain, err := ledger.PlainJSON(doc); err != nil || string(plain) != doc.Text() {
			rt.Errorf("%s is written as %s, %v", doc, plain, err)
		}
	})
}

// TestDocumentNumbers: a number stays as its client wrote it, even if no machine
// type holds it. In msgpack, which has no such numbers, it is a text.
func TestDocumentNumbers(t *testing.T) {
	t.Parallel()
	const text = `{"a":1.50,"b":123456789012345678901234567890,"c":1e999,"d":-0}`
	doc, err := ledger.ParseDocument([]byte(text))
	if err != nil || doc.Text() != text {
		t.Errorf("%s, %v", doc, err)
	}
	packed := ledgertest.Must(msgpack.Marshal(doc))
	var read map[string]any
	ledgertest.OK(t, msgpack.Unmarshal(packed, &read))
	want := map[string]any{"a": 1.5, "b": 123456789012345678901234567890., "c": "1e999", "d": int64(0)}
	if !reflect.DeepEqual(read, want) {
		t.Errorf("%#v, want %#v", read, want)
	}
}

// TestEmptyDocuments: an absent document, null and {} are the same.
func TestEmptyDocuments(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "{}", " { } "} {
		doc := ledger.Document("before")
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc != "" || doc.Text() != "{}" {
			t.Errorf("%s: %q, %v", text, doc, err)
		}
	}
	for _, value := range []any{nil, map[string]any{}} {
		packed := ledgertest.Must(msgpack.Marshal(value))
		doc := ledger.Document("before")
		if err := msgpack.Unmarshal(packed, &doc); err != nil || doc != "" {
			t.Errorf("%v: %q, %v", value, doc, err)
		}
	}
	if object, err := ledger.Document("").Object(); err != nil || object == nil || len(object) != 0 {
		t.Errorf("%v, %v", object, err)
	}
}

// TestNoDocuments: a text that is not one JSON object, or is too large, is
// refused.
func TestNoDocuments(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
	}
	full := func(bytes int) string { return `{"a":"` + strings.Repeat("x", bytes-len(`{"a":""}`)) + `"}` }
	for _, text := range []string{nested(63), full(ledger.MaxDocumentBytes)} {
		if _, err := ledger.ParseDocument([]byte(text)); err != nil {
			t.Errorf("%.20s: %v", text, err)
		}
	}
	for text, why := range map[string]string{
		"":         "not a JSON object",
		"[]":       "not a JSON object",
		`{"a":1`:   "not a JSON object",
		"{} {}":    "text after",
		"{}x":      "text after",
		nested(65): "64 levels deep",
		`{"a":` + strings.Repeat(`{"b":`, 65) + "1" + strings.Repeat("}", 65) + "}": "64 levels deep",
		full(ledger.MaxDocumentBytes + 1):                                           "at most 65536 bytes, not 65537",
	} {
		if doc, err := ledger.ParseDocument([]byte(text)); err == nil || doc != "" || !strings.Contains(err.Error(), why) {
			t.Errorf("%.20s: %.20q, %v; want an error with %q", text, doc, err, why)
		}
		var doc ledger.Document
		if json.Unmarshal([]byte(text), &doc) == nil {
			t.Errorf("%.20s is read as %.20q", text, doc)
		}
	}
	for name, value := range map[string]any{
		"a list": []any{}, "a text": "x", "bytes": map[string]any{"a": []byte{1}},
		"infinity": map[string]any{"a": []any{math.Inf(-1)}}, "no number": map[string]any{"a": math.NaN()},
		"no short number": map[string]any{"a": float32(math.NaN())}, "a time": map[string]any{"a": time.Unix(1, 0)},
		"keys that are no texts": map[string]any{"a": map[int]any{1: 1}},
	} {
		packed := ledgertest.Must(msgpack.Marshal(value))
		var doc ledger.Document
		if err := msgpack.Unmarshal(packed, &doc); err == nil {
			t.Errorf("%s is read as %s", name, doc)
		}
		if err := msgpack.Unmarshal(packed[:len(packed)-1], &doc); err == nil && len(packed) > 1 {
			t.Errorf("%s, cut, is read as %s", name, doc)
		}
	}
	damaged := ledger.Document(`{"a":`)
	if _, err := damaged.Object(); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("a damaged one: %v", err)
	}
	if _, err := msgpack.Marshal(damaged); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("a damaged one as msgpack: %v", err)
	}
}
