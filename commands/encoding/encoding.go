// Package encoding is how commands and answers are written in messages, as JSON or
// MessagePack, and what they weigh in memory before they are read.
package encoding

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

// Encodings.
const (
	TypeJSON    = "application/json"
	TypeMsgpack = "application/msgpack"
)

// Decode reads a request strictly: unknown fields, repeated names, text that is
// not UTF-8, trailing bytes and wrong types are errors, and so is more than a
// request may weigh.
func Decode(data []byte, contentType string, c any) error {
	if contentType != TypeMsgpack { // of which that is seen on the way
		if _, err := prices.Weigh(data); err != nil {
			return err
		}
	}
	return DecodeWeighed(data, contentType, c)
}

// DecodeWeighed is Decode of a request that Weigh has found light enough.
func DecodeWeighed(data []byte, contentType string, c any) error {
	return decode(data, contentType, c, true)
}

// DecodeReply reads a reply. It skips fields that a newer server added.
func DecodeReply(data []byte, contentType string, reply any) error {
	return decode(data, contentType, reply, false)
}

func decode(data []byte, contentType string, value any, strict bool) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("the body is empty")
	}
	if contentType == TypeMsgpack {
		return decodeMsgpack(data, value, strict)
	}
	if !strict {
		return document.DecodeLoosely(data, value)
	}
	return document.Decode(data, value)
}

func decodeMsgpack(data []byte, value any, strict bool) error {
	w, t := walk{most: math.MaxInt}, reflect.Type(nil) // A reply may have any number of elements.
	if strict {
		w.most, t = MaxWeight, reflect.TypeOf(value)
	}
	if err := w.check(data, t); err != nil {
		return err
	}
	in := bytes.NewReader(data)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(in)
	dec.SetCustomStructTag("json")
	dec.DisallowUnknownFields(strict)
	if err := dec.Decode(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "msgpack: "))
	}
	if in.Len() > 0 {
		return errors.New("there is text after the end")
	}
	return nil
}

// Encode writes a reply, or a command, in the given encoding.
func Encode(value any, contentType string) ([]byte, error) {
	if contentType != TypeMsgpack {
		return document.Encode(value)
	}
	out := buffers.Get().(*bytes.Buffer)
	defer func() {
		if out.Cap() <= keptBytes {
			out.Reset()
			buffers.Put(out)
		}
	}()
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(out)
	enc.SetCustomStructTag("json")
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.Clone(out.Bytes()), nil
}

// buffers are used again by Encode, if they are not larger than keptBytes.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBytes = 64 << 10

// Body is a command inside another message: encoded, as it came, or a value that
// is still to be encoded with the message.
type Body struct {
	Value any
	raw   []byte
}

// Decode reads the body of a message that had an encoding.
func (b Body) Decode(contentType string, into commands.Command) error {
	return Decode(b.raw, contentType, into)
}

// DecodeWhole is DecodeWhole of the body.
func (b Body) DecodeWhole(contentType string, into commands.Command) error {
	return DecodeWhole(b.raw, contentType, into)
}

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) { return ledger.PlainJSON(b.Value) }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(text []byte) error {
	b.raw = append([]byte(nil), text...)
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (b Body) EncodeMsgpack(e *msgpack.Encoder) error { return e.Encode(b.Value) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (b *Body) DecodeMsgpack(d *msgpack.Decoder) error {
	raw, err := d.DecodeRaw()
	b.raw = raw
	return err
}
