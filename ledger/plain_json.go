package ledger

import (
	"bytes"
	"encoding/json"
	"io"
)

// PlainJSON is the JSON of a value as everything outside sees it: "<", ">" and
// "&" stand in texts as themselves. Clients match on the texts of answers, and
// none of them lies in HTML.
func PlainJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	if err := PlainEncoder(&out).Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// PlainEncoder writes values as PlainJSON, each with a line feed behind it.
func PlainEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
