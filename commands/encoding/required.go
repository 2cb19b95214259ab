package encoding

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/document"
)

// DecodeWhole is DecodeWeighed of a client's request, which must have what is required. Without that, a list
// that was forgotten would say that there is nothing.
func DecodeWhole(data []byte, contentType string, request any) error {
	if err := DecodeWeighed(data, contentType, request); err != nil {
		return err
	}
	return complete(data, contentType, request)
}

// complete finds what a request that was decoded lacks: a required field of the body itself that is absent, and
// a required list at any depth that is absent or null.
func complete(data []byte, contentType string, request any) error {
	v := reflect.ValueOf(request).Elem()
	var given []string
	for _, f := range fieldsOf(v.Type()) {
		if !f.required || !v.FieldByIndex(f.index).IsZero() {
			continue
		}
		var err error
		if given == nil {
			given, err = namesIn(data, contentType)
		}
		if err != nil {
			return err
		}
		if !slices.Contains(given, f.name) {
			return lacks(f.name)
		}
	}
	return completeLists(v)
}

func lacks(name string) error { return fmt.Errorf("%s: is required", name) }

// namesIn are the names of the fields that a body has, not those within them.
func namesIn(data []byte, contentType string) (given []string, err error) {
	if contentType == TypeMsgpack {
		dec := msgpack.NewDecoder(bytes.NewReader(data))
		n, err := dec.DecodeMapLen()
		for ; n > 0 && err == nil; n-- {
			var name string
			if name, err = dec.DecodeString(); err == nil {
				given, err = append(given, name), dec.Skip()
			}
		}
		return given, err
	}
	r := document.Borrow(data)
	defer r.Return()
	if _, err = r.ReadToken(); err != nil {
		return nil, document.Plain(err)
	}
	for r.PeekKind() == '"' && err == nil {
		name, failed := r.ReadToken()
		if err = failed; err == nil {
			given, err = append(given, name.String()), r.SkipValue()
		}
	}
	return given, document.Plain(err)
}

// completeLists finds a required list that is nil, in a value or in one that it holds.
func completeLists(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return completeLists(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := completeLists(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			one := v.FieldByIndex(f.index)
			if f.required && f.list && one.IsNil() {
				return lacks(f.name)
			}
			if !f.holds {
				continue
			}
			if err := completeLists(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// field is a field of a message.
type field struct {
	name     string
	index    []int
	required bool // its tag does not let it be omitted
	list     bool
	holds    bool // structs, which may have lists
	plain    reflect.Type
}

func holdsStructs(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return true
	case reflect.Pointer, reflect.Slice:
		return holdsStructs(t.Elem())
	}
	return false
}

var fieldsByType sync.Map // of []field

func fieldsOf(t reflect.Type) []field {
	if known, is := fieldsByType.Load(t); is {
		return known.([]field)
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			required := !tagged || !strings.Contains(options, "omit")
			list := f.Type.Kind() == reflect.Slice
			fields = append(fields, field{name, f.Index, required, list, holdsStructs(f.Type), plainType(f.Type)})
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}
