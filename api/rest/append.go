package rest

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/allot-project/allot/ledger"
)

// Appender is a part of an answer that writes itself.
type Appender interface {
	// AppendJSON appends the part as ledger.PlainJSON writes it.
	AppendJSON(b []byte) ([]byte, error)
}

// Encoded is a document that was written before.
type Encoded []byte

// rooms are where documents grow, and mostRoom is how many bytes of one are kept. A
// document that grew in memory of its own would leave several times its size behind,
// and a client that has large ones written keeps the garbage collector busy then.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

const mostRoom = 4 << 20

// Encode writes a document, unless it was written before.
func Encode(document any) (Encoded, error) {
	if before, encoded := document.(Encoded); encoded {
		return before, nil
	}
	room, _ := rooms.Get().(*[]byte) // it has nothing else
	defer rooms.Put(room)
	grown, err := AppendJSON(*room, document)
	if err != nil {
		return nil, err
	}
	if cap(grown) <= mostRoom {
		*room = grown[:0]
	}
	return append(Encoded(nil), grown...), nil
}

// AppendJSON implements Appender.
func (e Encoded) AppendJSON(b []byte) ([]byte, error) { return append(b, e...), nil }

// AppendJSON appends a document as ledger.PlainJSON writes it. What hot answers
// consist of takes no reflection.
func AppendJSON(b []byte, document any) ([]byte, error) {
	switch v := document.(type) {
	case nil:
		return append(b, "null"...), nil
	case Appender:
		return v.AppendJSON(b)
	case map[string]any:
		return appendMap(b, v)
	case string:
		return AppendText(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	}
	encoded, err := ledger.PlainJSON(document)
	return append(b, encoded...), err
}

func appendMap(b []byte, members map[string]any) (_ []byte, err error) {
	if members == nil {
		return append(b, "null"...), nil
	}
	keys := slices.Sorted(maps.Keys(members))
	return AppendObject(b, len(keys), func(i int) (string, any) { return keys[i], members[keys[i]] })
}

// AppendObject appends a JSON object whose members keep their order, because
// clients show them as they get them.
func AppendObject(b []byte, n int, member func(i int) (key string, value any)) (_ []byte, err error) {
	b = append(b, '{')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		key, value := member(i)
		if b, err = AppendText(b, key); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = AppendJSON(b, value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// AppendText appends a text as a JSON string. Almost all texts are plain.
func AppendText(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			encoded, err := ledger.PlainJSON(text)
			return append(b, encoded...), err
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"'), nil
}
