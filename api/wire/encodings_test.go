package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestOlderPatches: patches of clients from before nulls were preserved. Unknown
// fields are refused as everywhere.
func TestOlderPatches(t *testing.T) {
	decode := func(op map[string]any) (commands.PatchOperation, error) {
		body, err := msgpack.Marshal(map[string]any{"node": "5a000000-0000-4000-8000-000000000001", "patch": []any{op}})
		ledgertest.OK(t, err)
		var c commands.UpdateNode
		err = encoding.Decode(body, encoding.TypeMsgpack, &c)
		if len(c.Patch) == 0 {
			return commands.PatchOperation{}, err
		}
		return c.Patch[0], err
	}
	for op, want := range map[string]commands.PatchOperation{
		"remove": {Op: "remove", Path: "/name"}, "add": {Op: "add", Path: "/name", Value: "null"},
	} {
		got, err := decode(map[string]any{"op": op, "path": "/name", "value": nil})
		if err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	for field, value := range map[string]any{"from": "/name", "op": 1, "path": nil} {
		op := map[string]any{"op": "add", "path": "/name", "value": 1}
		op[field] = value
		if got, err := decode(op); err == nil && got.Path != "" {
			t.Errorf("%s: %v is read as %+v", field, value, got)
		}
	}
}

// TestEncodedIsOwn: a message does not change when others are encoded after it, though
// their buffers are used again.
func TestEncodedIsOwn(t *testing.T) {
	for _, size := range []int{1, 1 << 10, 1 << 20} {
		first, err := encoding.Encode(strings.Repeat("a", size), encoding.TypeMsgpack)
		ledgertest.OK(t, err)
		was := bytes.Clone(first)
		for range 10 {
			_, err := encoding.Encode(strings.Repeat("b", size), encoding.TypeMsgpack)
			ledgertest.OK(t, err)
		}
		if !bytes.Equal(first, was) {
			t.Errorf("a message of %d bytes has changed", size)
		}
	}
}

// TestNullIsNoWeight: who sends null for a weight, which encoders make of what is not
// finite, is told so in each encoding and in each place, and has not asked for 0.
func TestNullIsNoWeight(t *testing.T) {
	type object = map[string]any
	id := "5a000000-0000-4000-8000-000000000001"
	encodings := map[string]func(any) ([]byte, error){
		encoding.TypeMsgpack: msgpack.Marshal, encoding.TypeJSON: json.Marshal,
	}
	for place, prefer := range map[string]func(weight any) any{
		"weights":    func(weight any) any { return object{"VCPU": weight} },
		"traits":     func(weight any) any { return object{"CUSTOM_A": weight} },
		"aggregates": func(weight any) any { return []any{object{"aggregate": id, "weight": weight}} },
		"near":       func(weight any) any { return []any{object{"by": "tree", "consumers": []any{id}, "weight": weight}} },
	} {
		for contentType, encode := range encodings {
			for _, c := range []struct {
				weight  any
				refused bool
				says    string
			}{{1, false, ""}, {-0.5, false, ""}, {"1", true, ""}, {[]any{}, true, ""}, {nil, true, "null is none"}} {
				body, err := encode(object{"prefer": object{place: prefer(c.weight)}})
				ledgertest.OK(t, err)
				err = encoding.Decode(body, contentType, new(commands.Claim))
				if (err != nil) != c.refused || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("%s in %s %v: %v", place, contentType, c.weight, err)
				}
			}
		}
	}
}
