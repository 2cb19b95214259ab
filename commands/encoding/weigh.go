package encoding

import (
	"errors"

	"github.com/allot-project/allot/commands/document"
)

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
		err := w.check(data)
		return len(data) + w.weight, err
	}
	weight, err := prices.Weigh(data)
	return len(data) + weight, err
}

var (
	errNotText  = errors.New("a text of the msgpack body is not UTF-8")
	errRepeated = errors.New("the msgpack body has a map with the same key twice")
	errKey      = errors.New("the msgpack body has a map with a key that is no text")
)
