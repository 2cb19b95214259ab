package rest

import (
	"bytes"

	"github.com/allot-project/allot/ledger"
)

// EncodeObject writes a JSON object whose members keep their order, because
// clients show them as they get them.
func EncodeObject(n int, member func(i int) (key string, value any)) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		name, content := member(i)
		key, err := ledger.PlainJSON(name)
		if err != nil {
			return nil, err
		}
		value, err := ledger.PlainJSON(content)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
