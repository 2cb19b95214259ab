package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
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
		err = wire.Decode(body, wire.TypeMsgpack, &c)
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
		first, err := wire.Encode(strings.Repeat("a", size), wire.TypeMsgpack)
		if err != nil {
			t.Fatal(err)
		}
		was := bytes.Clone(first)
		for range 10 {
			if _, err := wire.Encode(strings.Repeat("b", size), wire.TypeMsgpack); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(first, was) {
			t.Errorf("a message of %d bytes has changed", size)
		}
	}
}
