package document_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/document"
)

// documents are valid and invalid ones.
var documents = map[string]bool{
	`{"a":1,"b":{"a":[1,"x",null]}}`: true, `1`: true, ` [] `: true, `{"A":1,"a":2}`: true, `{"a":"\ud83d\ude00"}`: true,
	`{"a":1,"a":2}`: false, `{"x":[{"a":1,"\u0061":2}]}`: false, "\"\xff\"": false, "{\"\xff\":1}": false,
	`"\ud800"`: false,
	`{} {}`:    false, `{}x`: false, `{},`: false, ``: false, ` `: false, `{"a":}`: false, `[1,`: false, `[1,]`: false,
	`NaN`: false,
	`'a'`: false, `[1]]`: false, `{"a" 1}`: false, `01`: false, "\ufeff{}": false, "\"\x00\"": false,
}

// TestReaders: Check and Decode agree whether a text is a document.
func TestReaders(t *testing.T) {
	t.Parallel()
	for text, good := range documents {
		var value any
		if err := document.Check([]byte(text)); (err == nil) != good {
			t.Errorf("Check of %.40q: %v", text, err)
		}
		if err := document.Decode([]byte(text), &value); (err == nil) != good {
			t.Errorf("Decode of %.40q: %v", text, err)
		}
	}
}

// TestScale: a document weighs the same in whatever pieces it arrives, and is
// refused at the first piece that exceeds the bound.
func TestScale(t *testing.T) {
	t.Parallel()
	p := document.Prices{Byte: 1, Object: 10, Array: 100, Element: 1000, Pair: 10_000, Most: 1 << 20}
	for text, want := range map[string]int{
		`1`: 1, `[]`: 2 + 1100, `[1,2]`: 5 + 2100, `{"a":1}`: 7 + 10_010, `{"a":1,"b":2}`: 13 + 20_010,
		`["[,{"]`: 7 + 1100, `["\"[","\\",1]`: 14 + 3100, `["a\\\\\"b\\","\\u0022["]`: 25 + 2100,
		`[{"a":1},2]`: 11 + 100 + 2000 + 10_010, `]]][`: 4 + 1100,
	} {
		for size := 1; size <= len(text); size++ {
			scale, got := document.Scale{Prices: p}, 0
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				var err error
				if got, err = scale.Add([]byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			if got != want {
				t.Errorf("%s in pieces of %d weighs %d, not %d", text, size, got, want)
			}
		}
	}
	if _, err := p.Weigh([]byte("[" + strings.Repeat("1,", 2000))); !errors.Is(err, document.ErrTooHeavy) {
		t.Errorf("too heavy: %v", err)
	}
	for depth, want := range map[int]error{document.MaxDepth: nil, document.MaxDepth + 1: document.ErrTooDeep} {
		if _, err := p.Weigh([]byte(strings.Repeat("[", depth))); !errors.Is(err, want) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}
