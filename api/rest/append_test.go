package rest

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
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
		parts := 0
		if depth > 0 {
			parts = 5
		}
		members := map[string]any{}
		for range random.IntN(parts + 1) {
			members[text()] = document(depth - 1)
		}
		list := slices.Collect(maps.Values(members))
		leaves := []any{
			nil, text(), random.Int(), -random.Int64(), random.Uint64(), random.IntN(2) == 0, random.NormFloat64(),
			pairs{text(), "x" + text()}, []string{text(), text()}, map[string]any(nil), list, members, members,
		}
		return leaves[random.IntN(len(leaves))]
	}
	for range 20_000 {
		value := document(3)
		want, err := ledger.PlainJSON(value)
		ledgertest.OK(t, err)
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
		ledgertest.OK(t, err)
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
