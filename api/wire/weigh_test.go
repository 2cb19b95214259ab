package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	mostGrowth = 64 << 20
	largest    = 8<<20 - 4096 // bytes of a list or map in a message
)

// place is a list or a map somewhere in a message: what stands before it and after it, in JSON.
type place struct {
	name          string
	before, after string
	isMap         bool
}

// places finds every list and map that a type has.
func places(t reflect.Type, at place, found *[]place, element func(uintptr)) {
	switch t {
	case reflect.TypeFor[ledger.UUID](), reflect.TypeFor[ledger.Address]():
		return
	case reflect.TypeFor[ledger.Document](), reflect.TypeFor[commands.PatchValue](), reflect.TypeFor[encoding.Body]():
		list, deeper := at, place{at.name + ".x", at.before + `{"x":`, "}" + at.after, false}
		list.isMap, at.isMap = false, true
		*found = append(*found, list, at, deeper)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		places(t.Elem(), at, found, element)
	case reflect.Map:
		at.isMap = true
		*found = append(*found, at)
		places(t.Elem(), place{at.name + "{}", at.before + `{"k":`, "}" + at.after, false}, found, element)
	case reflect.Slice:
		*found = append(*found, at)
		element(t.Elem().Size())
		places(t.Elem(), place{at.name + "[]", at.before + "[", "]" + at.after, false}, found, element)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case field.Anonymous && name == "":
				places(field.Type, at, found, element)
			case field.IsExported() && name != "-":
				if name == "" {
					name = field.Name
				}
				places(
					field.Type, place{at.name + "." + name, fmt.Sprintf("%s{%q:", at.before, name), "}" + at.after, false}, found,
					element,
				)
			}
		}
	}
}

// messages makes an empty value of each type that can be sent.
func messages() map[string]func() any {
	all := map[string]func() any{"Batch": func() any { return new(wire.Batch) }}
	for name, empty := range commands.Registry {
		all[name] = func() any { return empty() }
	}
	for name, kind := range wire.Queries {
		all["query "+name] = func() any { return kind.Empty() }
	}
	return all
}

// full returns the largest message with as many elements in one place as fit.
func (p place) full(element string) []byte {
	return slices.Concat([]byte(p.before), elements(element, p.isMap), []byte(p.after))
}

var elementsMade = map[string][]byte{} // by what they are

// madeOnce makes elements that are the same in all places, and take long to make.
func madeOnce(write func(b *bytes.Buffer), of ...any) []byte {
	key := fmt.Sprint(of...)
	if elementsMade[key] == nil {
		var b bytes.Buffer
		write(&b)
		elementsMade[key] = b.Bytes()
	}
	return elementsMade[key]
}

// elements returns the largest list or map of such elements.
func elements(element string, isMap bool) []byte {
	return madeOnce(func(b *bytes.Buffer) {
		brackets := "[]"
		if isMap {
			brackets = "{}"
		}
		for i, mark := 0, brackets[0]; b.Len() < largest; i, mark = i+1, ',' {
			b.WriteByte(mark)
			if isMap {
				fmt.Fprintf(b, `"%x":`, i)
			}
			b.WriteString(element)
		}
		b.WriteByte(brackets[1])
	}, element, isMap)
}

// packed is the same in msgpack, with elements of one byte.
func (p place) packed(element byte) []byte {
	var tree any
	err := json.Unmarshal([]byte(p.before+`"HERE"`+p.after), &tree)
	var message []byte
	if err == nil {
		message, err = msgpack.Marshal(tree)
	}
	before, after, found := bytes.Cut(message, []byte("\xa4HERE"))
	if err != nil || !found {
		panic(fmt.Sprint("no place: ", err))
	}
	return slices.Concat(before, packedElements(element, p.isMap), after)
}

// packedElements is the same as elements in msgpack.
func packedElements(element byte, isMap bool) []byte {
	return madeOnce(func(b *bytes.Buffer) {
		if !isMap {
			_ = msgpack.NewEncoder(b).EncodeArrayLen(largest) // to memory
			b.Write(bytes.Repeat([]byte{element}, largest))
			return
		}
		_ = msgpack.NewEncoder(b).EncodeMapLen(largest / 6) // to memory
		for i := range largest / 6 {
			fmt.Fprintf(b, "\xa4%04x", i&0xffff)
			b.WriteByte(element)
		}
	}, element, isMap)
}

// grown returns how many bytes a function allocates.
func grown(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// weighed decodes a body as the door does: what is weighed is not counted again.
func weighed(body []byte, contentType string, into any) error {
	if _, err := encoding.Weigh(body, contentType); err != nil {
		return err
	}
	return encoding.DecodeWeighed(body, contentType, into)
}

// TestSmallMessagesStaySmall: no list or map of any message, filled with the
// smallest elements, takes much memory, in either encoding.
func TestSmallMessagesStaySmall(t *testing.T) {
	if ledgertest.Raced {
		t.Skip("it has one goroutine, and make models runs it")
	}
	count := 0
	for name, empty := range messages() {
		var found []place
		places(reflect.TypeOf(empty()), place{name: name}, &found, func(uintptr) {})
		for _, p := range found {
			for contentType, bodies := range map[string][][]byte{
				encoding.TypeJSON:    {p.full("null"), p.full("{}")},
				encoding.TypeMsgpack: {p.packed(0xc0), p.packed(0x80)}, // nil, an empty map
			} {
				for i, body := range bodies {
					for _, decode := range []func([]byte, string, any) error{encoding.Decode, weighed} {
						var err error
						if bytes := grown(func() { err = decode(body, contentType, empty()) }); bytes > mostGrowth {
							t.Errorf("%s, %s %d: %d bytes make %d (%v)", p.name, contentType, i, len(body), bytes, err)
						}
					}
					count++
				}
			}
		}
	}
	if count < 150 {
		t.Errorf("only %d bodies were tried", count)
	}
}

// TestElementsAreWeighedInFull: no element of a list takes more memory than its weight.
func TestElementsAreWeighedInFull(t *testing.T) {
	t.Parallel()
	for name, empty := range messages() {
		var found []place
		places(reflect.TypeOf(empty()), place{name: name}, &found, func(size uintptr) {
			if size > encoding.ElementBytes {
				t.Errorf("%s has a list of elements of %d bytes: raise elementBytes", name, size)
			}
		})
	}
}

// TestLargestCommands: the largest permitted commands still fit into one message.
func TestLargestCommands(t *testing.T) {
	t.Parallel()
	var batch wire.Batch
	reshape := &commands.Reshape{}
	for i := range ledgertest.Cases(commands.MaxBatch, commands.MaxBatch/20) {
		consumer := ledger.UUID{byte(i >> 8), byte(i), 1}
		one := commands.ConsumerAllocations{Consumer: consumer, Project: "55555555-5555-4555-8555-555555555555", User: "u"}
		for range 4 {
			one.Resources = append(one.Resources, commands.ProviderAllocation{Provider: consumer, Class: "VCPU", Amount: 1})
		}
		reshape.Allocations = append(reshape.Allocations, one)
		batch.Commands = append(batch.Commands, wire.BatchCommand{
			Command: "AllocateForConsumers", ID: consumer,
			Body: encoding.Body{Value: &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{one}}},
		})
	}
	for _, contentType := range []string{encoding.TypeJSON, encoding.TypeMsgpack} {
		for _, c := range []struct{ value, into any }{{&batch, new(wire.Batch)}, {reshape, new(commands.Reshape)}} {
			data, err := encoding.Encode(c.value, contentType)
			if err == nil {
				err = encoding.Decode(data, contentType, c.into)
			}
			if err != nil {
				t.Errorf("%T as %s, %d bytes: %v", c.value, contentType, len(data), err)
			}
		}
	}
}

// TestStrictReader: msgpack is read as strictly as JSON, which TestDoorsReadAlike in cmd/allot has.
func TestStrictReader(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"repeated": "\x82\xa4name\xa1A\xa4name\xa1B", "repeated, other form": "\x82\xa4name\xa1A\xd9\x04name\xa1B",
		"not UTF-8": "\x81\xa4name\xa1\xff", "key not UTF-8": "\x81\xa4nam\xff\xa1A", "key no text": "\x81\x01\xa1A",
	} {
		if err := encoding.Decode([]byte(body), encoding.TypeMsgpack, new(commands.CreateTrait)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, body := range []string{`{"NAME":"CUSTOM_B"}`, `{"name":"CUSTOM_A","NAME":"CUSTOM_B"}`} {
		if err := encoding.Decode([]byte(body), encoding.TypeJSON, new(commands.CreateTrait)); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
}

// TestKeysOfOpenMaps: keys repeat within one map only, wherever it stands, and however many keys it has.
func TestKeysOfOpenMaps(t *testing.T) {
	t.Parallel()
	pairs := func(from, to int) (body string) {
		for i := from; i < to; i++ {
			body += fmt.Sprintf("\xa3k%02d\xc0", i)
		}
		return body
	}
	for name, c := range map[string]struct {
		body  string
		taken bool
	}{
		"the same key outside and inside":   {"\x82\xa1a\x81\xa1a\xc0\xa1b\x81\xa1a\xc0", true},
		"repeated behind a map":             {"\x83\xa1a\xc0\xa1b\x81\xa1c\xc0\xa1a\xc0", false},
		"repeated in a map behind a map":    {"\x82\xa1a\x81\xa1a\xc0\xa1b\x82\xa1a\xc0\xa1a\xc0", false},
		"a key of a map that has ended":     {"\x82\xa1b\x81\xa1c\xc0\xa1c\xc0", true},
		"many keys":                         {"\xde\x00\x20" + pairs(0, 32), true},
		"many keys, the first repeated":     {"\xde\x00\x21" + pairs(0, 32) + pairs(0, 1), false},
		"many keys, the last repeated":      {"\xde\x00\x21" + pairs(0, 32) + pairs(31, 32), false},
		"many keys, then a map with few":    {"\x82\xa1a\xde\x00\x20" + pairs(0, 32) + "\xa1b\x82\xa3k00\xc0\xa3k01\xc0", true},
		"many keys, then one of the outer":  {"\x83\xa1a\xc0\xa1b\xde\x00\x20" + pairs(0, 32) + "\xa1a\xc0", false},
		"as many keys as are compared":      {"\xde\x00\x10" + pairs(0, 16), true},
		"one more, and it is repeated":      {"\xde\x00\x11" + pairs(0, 16) + pairs(15, 16), false},
		"one more than that, and repeated ": {"\xde\x00\x12" + pairs(0, 17) + pairs(16, 17), false},
	} {
		if _, err := encoding.Weigh([]byte(c.body), encoding.TypeMsgpack); (err == nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWeighingTakesLittle: a body of a thousand maps is weighed with no more memory than one of a single map.
func TestWeighingTakesLittle(t *testing.T) {
	one := "\x82\xa1a\x81\xa1a\xc0\xa1b\xc0"
	weigh := func(body string) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := encoding.Weigh([]byte(body), encoding.TypeMsgpack); err != nil {
				t.Fatal(err)
			}
		})
	}
	single, many := weigh("\x91"+one), weigh("\xdc\x03\xe8"+strings.Repeat(one, 1000))
	if many > single {
		t.Errorf("%v allocations for a thousand maps, and %v for one", many, single)
	}
}
