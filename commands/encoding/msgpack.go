package encoding

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/document"
)

var errCutOff = errors.New("the msgpack body is cut off")

// walk reads through a msgpack body before it is decoded. Every length must fit
// into the rest of the body, so that no length makes the decoder allocate more
// than the body could hold. Texts must be UTF-8, and the keys of a map must
// differ, as in JSON. Values must be of the types of what they are decoded into: the
// decoder takes a list for a struct, bytes for a text, and numbers that wrap.
type walk struct {
	most   int // weight
	weight int
	keys   [][]byte // of the maps that are open, the innermost last
}

// check reads a body that is for a value of a type; nil: of any.
func (w *walk) check(data []byte, t reflect.Type) error {
	rest, err := w.value(data, 0, plainType(t))
	if err == nil && len(rest) > 0 {
		err = errors.New("there are bytes after the command")
	}
	return err
}

// shape says how long a value or its length field is, and what the length counts.
type shape struct {
	fixed  int  // bytes of the value
	length int  // bytes of the length field
	array  bool // the length counts values
	dict   bool // the length counts pairs of values
	text   bool
}

// sizedFormats are the formats 0xc0..0xdf.
var sizedFormats = map[byte]shape{
	0xc0: {}, 0xc2: {}, 0xc3: {},
	0xc4: {length: 1}, 0xc5: {length: 2}, 0xc6: {length: 4},
	0xca: {fixed: 4}, 0xcb: {fixed: 8},
	0xcc: {fixed: 1}, 0xcd: {fixed: 2}, 0xce: {fixed: 4}, 0xcf: {fixed: 8},
	0xd0: {fixed: 1}, 0xd1: {fixed: 2}, 0xd2: {fixed: 4}, 0xd3: {fixed: 8},
	0xd9: {length: 1, text: true}, 0xda: {length: 2, text: true}, 0xdb: {length: 4, text: true},
	0xdc: {length: 2, array: true}, 0xdd: {length: 4, array: true},
	0xde: {length: 2, dict: true}, 0xdf: {length: 4, dict: true},
}

// head reads the head of a value: its shape and its length.
func head(data []byte) (s shape, n uint64, rest []byte, err error) {
	if len(data) == 0 {
		return s, 0, nil, errCutOff
	}
	format, data := data[0], data[1:]
	switch {
	case format <= 0x7f || format >= 0xe0: // small integers
		return s, 0, data, nil
	case format <= 0x8f:
		return shape{dict: true}, uint64(format & 0x0f), data, nil
	case format <= 0x9f:
		return shape{array: true}, uint64(format & 0x0f), data, nil
	case format <= 0xbf:
		return shape{text: true}, uint64(format & 0x1f), data, nil
	}
	s, known := sizedFormats[format]
	if !known {
		return s, 0, nil, fmt.Errorf("the msgpack format 0x%x is not used here", format)
	}
	if s.length == 0 {
		return s, uint64(s.fixed), data, nil
	}
	if len(data) < s.length {
		return s, 0, nil, errCutOff
	}
	var field [8]byte
	copy(field[8-s.length:], data[:s.length])
	return s, binary.BigEndian.Uint64(field[:]), data[s.length:], nil
}

func (w *walk) value(data []byte, depth int, t reflect.Type) ([]byte, error) {
	if depth > document.MaxDepth {
		return nil, document.ErrTooDeep
	}
	whole := data
	s, n, data, err := head(data)
	switch {
	case err != nil:
		return nil, err
	case t != nil && !fits(s, whole, t.Kind()):
		return nil, errType
	case s.array:
		return w.list(data, n, depth, t)
	case s.dict:
		return w.dict(data, n, depth, t)
	case n > uint64(len(data)):
		return nil, errCutOff
	case s.text && !utf8.Valid(data[:n]):
		return nil, errNotText
	}
	return data[n:], nil
}

// fits reports whether a value, which may be cut off, is one for a kind of type.
func fits(s shape, value []byte, kind reflect.Kind) bool {
	format := value[0]
	if format == 0xc0 { // nil
		return true
	}
	high := len(value) > 1 && value[1] >= 0x80 // the sign of a number, or beyond those that have one
	switch kind {
	case reflect.Struct:
		return s.dict
	case reflect.String:
		return s.text
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return format < 0xe0 && (format < 0xd0 || format > 0xd3 || !high)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return format != 0xcf || !high
	}
	return true
}

// plainType is a type without pointers; nil: it decodes itself.
func plainType(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(customDecoder) {
		return nil
	}
	return t
}

var customDecoder = reflect.TypeFor[msgpack.CustomDecoder]()

// elementOf is the type of all that a value of a type holds; nil: any.
func elementOf(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
		return nil
	}
	return plainType(t.Elem())
}

// fieldOf is the type of a field; nil: any.
func fieldOf(t reflect.Type, name []byte) reflect.Type {
	for _, f := range fieldsOf(t) {
		if f.name == string(name) {
			return f.plain
		}
	}
	return nil
}

// add adds the weight of n things, before they are read.
func (w *walk) add(n uint64, bytes int, left int) error {
	if n > uint64(left) {
		return errCutOff
	}
	if w.weight += int(n) * bytes; w.weight > w.most {
		return document.TooHeavy(MaxWeight)
	}
	return nil
}

func (w *walk) list(data []byte, n uint64, depth int, t reflect.Type) ([]byte, error) {
	element := elementOf(t)
	err := w.add(n, ElementBytes, len(data))
	for ; n > 0 && err == nil; n-- {
		data, err = w.value(data, depth+1, element)
	}
	return data, err
}

func (w *walk) dict(data []byte, n uint64, depth int, t reflect.Type) ([]byte, error) {
	held, isStruct := elementOf(t), t != nil && t.Kind() == reflect.Struct
	err := w.add(n, pairBytes, len(data)/2)
	seen := keys{begin: len(w.keys)}
	defer func() { w.keys = w.keys[:seen.begin] }()
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, data, err = w.key(data); err != nil {
			break
		}
		if isStruct {
			held = fieldOf(t, key)
		}
		if err = w.see(&seen, key); err == nil {
			data, err = w.value(data, depth+1, held)
		}
	}
	return data, err
}

// keys are the keys of one map that have been read.
type keys struct {
	begin int             // where they begin in walk.keys
	many  map[string]bool // used if there are more than a few
}

// fewKeys is how many keys are compared one by one.
const fewKeys = 16

// see adds a key to those of the innermost open map, which must not have it yet.
func (w *walk) see(k *keys, key []byte) error {
	if !utf8.Valid(key) {
		return errNotText
	}
	if k.many != nil {
		if k.many[string(key)] {
			return errRepeated
		}
		k.many[string(key)] = true
		return nil
	}
	for _, one := range w.keys[k.begin:] {
		if string(one) == string(key) {
			return errRepeated
		}
	}
	if w.keys == nil {
		w.keys = make([][]byte, 0, fewKeys)
	}
	w.keys = append(w.keys, key)
	if few := w.keys[k.begin:]; len(few) > fewKeys {
		k.many = make(map[string]bool, 2*fewKeys)
		for _, one := range few {
			k.many[string(one)] = true
		}
	}
	return nil
}

func (w *walk) key(data []byte) (key, rest []byte, err error) {
	s, n, data, err := head(data)
	switch {
	case err != nil:
		return nil, nil, err
	case !s.text:
		return nil, nil, errKey
	case n > uint64(len(data)):
		return nil, nil, errCutOff
	}
	return data[:n], data[n:], nil
}

// The memory that a request takes has little to do with its length: each nil in a
// list may become a value of a hundred bytes. So a body is weighed before it is
// decoded. Every element of a list counts as much as the largest element of any
// command or query, and every pair of a map as much as a pair of a Go map.
const (
	// MaxWeight is the largest weight of a request, in bytes: that of 200,000
	// elements.
	MaxWeight = 32 << 20
	// ElementBytes is more than the largest element of a list takes. A test
	// measures all kinds of elements.
	ElementBytes = 160
	// pairBytes is more than a name and a value of a map take, apart from their
	// text.
	pairBytes = 64
)

// prices are the prices of JSON: of a list or map with its first element or pair.
var prices = document.Prices{Element: ElementBytes, Pair: pairBytes, Most: MaxWeight}

// Weigh estimates the memory of a decoded body, and returns an error if it
// exceeds MaxWeight. It may leave other faults to Decode.
func Weigh(data []byte, contentType string) (int, error) {
	if contentType == TypeMsgpack {
		w := walk{most: MaxWeight}
		err := w.check(data, nil)
		return len(data) + w.weight, err
	}
	weight, err := prices.Weigh(data)
	return len(data) + weight, err
}

var (
	errNotText  = errors.New("a text of the msgpack body is not UTF-8")
	errRepeated = errors.New("the msgpack body has a map with the same key twice")
	errType     = errors.New("a value of the msgpack body is of another type than its field")
	errKey      = errors.New("the msgpack body has a map with a key that is no text")
)
