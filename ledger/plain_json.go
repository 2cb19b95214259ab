package ledger

import (
	"bytes"
	"encoding/json"
	"io"
)

// PlainJSON returns a value's JSON without HTML escaping: "<", ">" and "&" stand
// for themselves. All JSON that leaves the process is made by it, because clients
// match on the texts of answers.
func PlainJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	if err := PlainEncoder(&out).Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// PlainEncoder returns an encoder that writes values as PlainJSON, each with a
// line feed after it.
func PlainEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
