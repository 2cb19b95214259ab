package demand

import (
	"encoding/json"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// MarshalJSON implements json.Marshaler.
func (s SpreadOver) MarshalJSON() ([]byte, error) {
	if s.Level != "" {
		return json.Marshal(s.Level)
	}
	return json.Marshal(s.Places)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *SpreadOver) UnmarshalJSON(text []byte) error {
	*s = SpreadOver{}
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &s.Level)
	}
	if err := json.Unmarshal(text, &s.Places); err != nil || string(text) == "null" {
		return fmt.Errorf("spread is %.32s: a number of places, or a level of a topology", text)
	}
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (s SpreadOver) EncodeMsgpack(e *msgpack.Encoder) error {
	if s.Level != "" {
		return e.EncodeString(s.Level)
	}
	return e.EncodeInt(int64(s.Places))
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (s *SpreadOver) DecodeMsgpack(d *msgpack.Decoder) error {
	*s = SpreadOver{}
	value, err := d.DecodeInterfaceLoose()
	switch value := value.(type) {
	case string:
		s.Level = value
		return nil
	case int64:
		s.Places = int(value)
		return nil
	}
	if err == nil {
		err = fmt.Errorf("spread is %v: a number of places, or a level of a topology", value)
	}
	return err
}
