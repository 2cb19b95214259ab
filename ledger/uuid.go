package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// UUID identifies a provider, consumer, aggregate or command. Its text form
// is lower-case with dashes.
type UUID [16]byte

// NilUUID is the zero UUID, used where Placement shows null (no parent).
var NilUUID UUID

// ParseUUID reads the forms that Placement accepts in bodies: with or without
// dashes, in any case, and the urn:uuid: and {} forms.
func ParseUUID(text string) (UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return NilUUID, fmt.Errorf("ledger: %q is not a uuid", text)
	}
	return UUID(id), nil
}

// String returns the lower-case dashed form.
func (id UUID) String() string { return uuid.UUID(id).String() }

// Derive returns the UUID of version 5 that a name has in the namespace of id.
func (id UUID) Derive(name string) UUID { return UUID(uuid.NewSHA1(uuid.UUID(id), []byte(name))) }

// IsNil reports whether id is the zero UUID.
func (id UUID) IsNil() bool { return id == NilUUID }

// Compare orders UUIDs by their bytes, as the read models' keys do.
func (id UUID) Compare(other UUID) int { return bytes.Compare(id[:], other[:]) }

// Before reports whether id sorts before the other one. The writer spends much of
// its time in searches that call it.
func (id UUID) Before(other UUID) bool {
	if a, b := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(other[:8]); a != b {
		return a < b
	}
	return binary.BigEndian.Uint64(id[8:]) < binary.BigEndian.Uint64(other[8:])
}

// MarshalText implements encoding.TextMarshaler.
func (id UUID) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// AppendText implements encoding.TextAppender.
func (id UUID) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, id[:4])
	for _, part := range [][]byte{id[4:6], id[6:8], id[8:10], id[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	return b, nil
}

// AppendQuoted appends the UUID as a JSON string.
func (id UUID) AppendQuoted(b []byte) []byte {
	b, _ = id.AppendText(append(b, '"')) // it never fails
	return append(b, '"')
}

// UnmarshalText implements encoding.TextUnmarshaler with ParseUUID's rules.
func (id *UUID) UnmarshalText(text []byte) error {
	parsed, err := ParseUUID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// EncodeMsgpack writes the 16 bytes as msgpack binary.
func (id UUID) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(id[:]) }

// DecodeMsgpack reads 16 bytes of msgpack binary, or a string in one of
// ParseUUID's forms, so that clients in any language can send the form that they
// have.
func (id *UUID) DecodeMsgpack(d *msgpack.Decoder) error {
	code, err := d.PeekCode()
	if err != nil {
		return err
	}
	if code == msgpcode.Bin8 || code == msgpcode.Bin16 || code == msgpcode.Bin32 {
		raw, err := d.DecodeBytes()
		if err != nil {
			return err
		}
		if len(raw) != len(id) {
			return fmt.Errorf("ledger: a binary uuid has 16 bytes, not %d", len(raw))
		}
		copy(id[:], raw)
		return nil
	}
	text, err := d.DecodeString()
	if err != nil {
		return err
	}
	return id.UnmarshalText([]byte(text))
}
