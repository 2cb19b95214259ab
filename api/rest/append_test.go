package rest

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// pairs is a part of an answer that writes itself.
type pairs []string

func (p pairs) AppendJSON(b []byte) ([]byte, error) {
	return AppendObject(b, len(p), func(i int) (string, any) { return p[i], i })
}

func (p pairs) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// TestAppendJSON: what is written without reflection is what PlainJSON writes.
func TestAppendJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "VCPU", "a\"b", `back\slash`, "<&>", "é", "\u2028", "\x00\x1f\x7f", "\xff", "🦉"}
	text := func() string { return texts[random.IntN(len(texts))] }
	var document func(depth int) any
	document = func(depth int) any {
		kinds := 12
		if depth == 0 {
			kinds = 8
		}
		switch random.IntN(kinds) {
		case 0:
			return nil
		case 1:
			return text()
		case 2:
			return random.Int()
		case 3:
			return -random.Int64()
		case 4:
			return random.Uint64()
		case 5:
			return random.IntN(2) == 0
		case 6:
			return random.NormFloat64()
		case 7:
			return pairs{text(), "x" + text()}
		case 8:
			return []any{document(depth - 1), document(depth - 1)}
		case 9:
			return []string{text(), text()}
		case 10:
			return map[string]any(nil)
		}
		members := map[string]any{}
		for range random.IntN(5) {
			members[text()] = document(depth - 1)
		}
		return members
	}
	for range 20_000 {
		value := document(4)
		want, err := ledger.PlainJSON(value)
		if err != nil {
			t.Fatal(err)
		}
		got, err := AppendJSON(nil, value)
		if err != nil || string(got) != string(want) || !json.Valid(got) {
			t.Fatalf("%#v: %v\n%s\n%s", value, err, got, want)
		}
	}
	if _, err := AppendJSON(nil, map[string]any{"a": make(chan int)}); err == nil {
		t.Error("what cannot be written is written")
	}
}

// TestEncodedStays: what was encoded stays as it is, whatever is encoded after it.
func TestEncodedStays(t *testing.T) {
	t.Parallel()
	texts := make(map[string]Encoded)
	for n := range 200 {
		text := strings.Repeat(string(rune('a'+n%26)), n*97)
		encoded, err := Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		texts[text] = encoded
		if _, err := Encode(make(chan int)); err == nil {
			t.Fatal("a channel was encoded")
		}
	}
	for text, encoded := range texts {
		within, err := Encode(map[string]any{"a": encoded})
		if err != nil || string(within) != `{"a":"`+text+`"}` {
			t.Errorf("within a document %.20s... became %.20s..., %v", text, within, err)
		}
		if string(encoded) != `"`+text+`"` {
			t.Errorf("%.20s... became %.20s...", text, encoded)
		}
	}
}
