package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// PatchOperation is one step of a JSON Patch (RFC 6902) as Ironic takes it.
type PatchOperation struct {
	Op    string     `json:"op"`   // add, replace or remove
	Path  string     `json:"path"` // JSON Pointer
	Value PatchValue `json:"value,omitzero"`
}

// PatchValue is any JSON value, in canonical form. It is empty if the operation
// has no value.
type PatchValue string

// MarshalJSON implements json.Marshaler.
func (v PatchValue) MarshalJSON() ([]byte, error) {
	if v == "" {
		return []byte("null"), nil
	}
	return []byte(v), nil
}

const wrapper = "v"

func patchValueOf(wrapped ledger.Document) PatchValue {
	return PatchValue(strings.TrimSuffix(strings.TrimPrefix(wrapped.Text(), `{"`+wrapper+`":`), "}"))
}

// mask masks what looks like a secret.
func (op *PatchOperation) mask() error {
	if op.Value == "" {
		return nil
	}
	if secretKey.MatchString(op.Path) {
		op.Value = `"` + Mask + `"`
		return nil
	}
	doc, err := WithoutSecrets(ledger.Document(`{"` + wrapper + `":` + string(op.Value) + `}`))
	op.Value = patchValueOf(doc)
	return err
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *PatchValue) UnmarshalJSON(text []byte) error {
	doc, err := ledger.ParseDocument(append(append([]byte(`{"`+wrapper+`":`), text...), '}'))
	if err == nil {
		*v = patchValueOf(doc)
	}
	return err
}

// encodeMsgpack writes the value as native msgpack.
func (v PatchValue) encodeMsgpack(e *msgpack.Encoder) error {
	dec := json.NewDecoder(strings.NewReader(string(v)))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return err
	}
	return e.Encode(ledger.PlainNumbers(value))
}

// decodeMsgpack reads any value that JSON can express.
func (v *PatchValue) decodeMsgpack(d *msgpack.Decoder) error {
	value, err := d.DecodeInterface()
	if err != nil {
		return err
	}
	doc, err := ledger.NewDocument(map[string]any{wrapper: value})
	if err == nil {
		*v = patchValueOf(doc)
	}
	return err
}

// EncodeMsgpack writes the operation as a map, and leaves the value out if there
// is none. The library would write null, which is a value.
func (op PatchOperation) EncodeMsgpack(e *msgpack.Encoder) error {
	members := 2
	if op.Value != "" {
		members++
	}
	err := errors.Join(
		e.EncodeMapLen(members), e.EncodeString("op"), e.EncodeString(op.Op), e.EncodeString("path"), e.EncodeString(op.Path),
	)
	if err != nil || op.Value == "" {
		return err
	}
	return errors.Join(e.EncodeString("value"), op.Value.encodeMsgpack(e))
}

// DecodeMsgpack reads what EncodeMsgpack wrote. It handles nulls itself, because
// the library skips a type's decoder for null and would read a null value as no
// value. Older clients send null with operations that remove something, where it
// means nothing.
func (op *PatchOperation) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeMapLen()
	*op = PatchOperation{}
	for ; n > 0 && err == nil; n-- {
		var name string
		if name, err = d.DecodeString(); err != nil {
			break
		}
		switch name {
		case "op":
			op.Op, err = d.DecodeString()
		case "path":
			op.Path, err = d.DecodeString()
		case "value":
			err = op.Value.decodeMsgpack(d)
		default:
			err = fmt.Errorf("msgpack: unknown field %q", name)
		}
	}
	if op.Op == "remove" && op.Value == "null" {
		op.Value = ""
	}
	if err == nil && !utf8.ValidString(op.Op+op.Path) {
		err = errors.New("msgpack: op and path are texts")
	}
	return err
}

// maxPatchOperations is the largest number of operations in a patch.
const maxPatchOperations = 1000

func checkPatch(ops []PatchOperation) *demand.Rejection {
	if len(ops) > maxPatchOperations {
		return demand.Invalid("patch", "takes at most %d operations, not %d", maxPatchOperations, len(ops))
	}
	for _, op := range ops {
		if op.Op != "add" && op.Op != "replace" && op.Op != "remove" {
			return demand.Invalid("patch", "'%s' is not one of ['add', 'replace', 'remove']", op.Op)
		}
		if !strings.HasPrefix(op.Path, "/") || len(op.Path) < 2 {
			return demand.Invalid("patch", "'%s' is not a path", op.Path)
		}
		if op.Op != "remove" && op.Value == "" {
			return demand.Invalid("patch", "'value' is a required property of %s %s", op.Op, op.Path)
		}
	}
	return nil
}

// Field returns the name of the top-level field that the operation changes.
func (op PatchOperation) Field() string {
	field, _, _ := strings.Cut(strings.TrimPrefix(op.Path, "/"), "/")
	return field
}

var patchOptions = &jsonpatch.ApplyOptions{SupportNegativeIndices: false}

// withNulls returns the JSON form of a struct in which absent members are null,
// so that a patch can replace and remove them.
func withNulls(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(value)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, there := members[name]; name == "" || there {
			continue
		}
		members[name] = json.RawMessage("null")
		if field.Type == reflect.TypeFor[ledger.Document]() {
			members[name] = json.RawMessage("{}")
		}
	}
	return json.Marshal(members)
}

// applyPatch applies the operations in order to the JSON form of from, and
// decodes the result into to. If one operation fails nothing is changed.
func applyPatch(ops []PatchOperation, from, to any) *demand.Rejection {
	doc, err := withNulls(from)
	if err != nil {
		return demand.Invalid("patch", "%v", err)
	}
	for _, op := range ops {
		step, err := json.Marshal([]PatchOperation{op})
		if err != nil {
			return demand.Invalid("patch", "%v", err)
		}
		patch, err := jsonpatch.DecodePatch(step)
		if err == nil {
			doc, err = patch.ApplyWithOptions(doc, patchOptions)
		}
		if err != nil {
			return demand.Refuse(demand.CodePatchFailed, demand.Facts{Field: op.Field()},
				"Couldn't apply patch '%s'. Reason: %v", strings.Trim(string(step), "[]"), err)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return demand.Invalid("patch", "%v", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
