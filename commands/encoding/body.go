package encoding

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

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
