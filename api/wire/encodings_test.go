package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
)

// TestOlderPatches: patches of clients from before nulls were preserved. Unknown
// fields are refused as everywhere.
func TestOlderPatches(t *testing.T) {
	decode := func(op map[string]any) (commands.PatchOperation, error) {
		body, err := msgpack.Marshal(map[string]any{"node": "5a000000-0000-4000-8000-000000000001", "patch": []any{op}})
		if err != nil {
			t.Fatal(err)
		}
		var c commands.UpdateNode
		err = encoding.Decode(body, encoding.TypeMsgpack, &c)
		if len(c.Patch) == 0 {
			return commands.PatchOperation{}, err
		}
		return c.Patch[0], err
	}
	op, err := decode(map[string]any{"op": "remove", "path": "/name", "value": nil})
	if want := (commands.PatchOperation{Op: "remove", Path: "/name"}); err != nil || op != want {
		t.Errorf("%+v, %v; want %+v", op, err, want)
	}
	op, err = decode(map[string]any{"op": "add", "path": "/name", "value": nil})
	if want := (commands.PatchOperation{Op: "add", Path: "/name", Value: "null"}); err != nil || op != want {
		t.Errorf("%+v, %v; want %+v", op, err, want)
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
		if err != nil {
			t.Fatal(err)
		}
		was := bytes.Clone(first)
		for range 10 {
			if _, err := encoding.Encode(strings.Repeat("b", size), encoding.TypeMsgpack); err != nil {
				t.Fatal(err)
			}
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
	for place, prefer := range map[string]func(weight any) object{
		"weights":    func(weight any) object { return object{"weights": object{"VCPU": weight}} },
		"traits":     func(weight any) object { return object{"traits": object{"CUSTOM_A": weight}} },
		"aggregates": func(weight any) object { return object{"aggregates": []any{object{"aggregate": id, "weight": weight}}} },
		"near": func(weight any) object {
			return object{"near": []any{object{"by": "tree", "consumers": []any{id}, "weight": weight}}}
		},
	} {
		for contentType, encode := range encodings {
			for _, weight := range []any{nil, "1", []any{}, 1, -0.5} {
				body, err := encode(object{"prefer": prefer(weight)})
				if err != nil {
					t.Fatal(err)
				}
				_, text := weight.(string)
				_, list := weight.([]any)
				var c commands.Claim
				err = encoding.Decode(body, contentType, &c)
				if refused := weight == nil || text || list; refused != (err != nil) {
					t.Errorf("%s in %s %v: %v", place, contentType, weight, err)
				}
				if weight == nil && (err == nil || !strings.Contains(err.Error(), "null is none")) {
					t.Errorf("%s in %s: null is refused with %v", place, contentType, err)
				}
			}
		}
	}
}
