package wire

import (
	"errors"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/document"
)

// What a request takes in memory has little to do with its length: each nil of
// a list may become a value of a hundred bytes. So bodies are weighed before
// anything is made of them. Every element of a list counts as the largest that
// any command or query has, and every pair of a map as one of a Go map.
const (
	// MaxWeight is what one request may weigh: 200,000 elements.
	MaxWeight = 32 << 20
	// elementBytes is more than the largest element of a list takes; a test
	// looks at all of them.
	elementBytes = 160
	// pairBytes is more than a name and a value of a map take, but for their text.
	pairBytes = 64
)

// prices are those of JSON: of a list or map with its first element or pair.
var prices = document.Prices{Element: elementBytes, Pair: pairBytes, Most: MaxWeight}

// Weigh bounds what a body takes in memory when it is decoded, at most
// MaxWeight; more is an error. It may leave other mistakes to Decode.
func Weigh(data []byte, encoding string) (int, error) {
	if encoding == TypeMsgpack {
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

// keys are those of one map of a msgpack body.
type keys struct {
	few  [][]byte
	many map[string]bool // if there are more than few
}

// fewKeys is how many keys are compared one by one.
const fewKeys = 16

// add notes a key; it must not have been there.
func (k *keys) add(key []byte) error {
	if !utf8.Valid(key) {
		return errNotText
	}
	if k.many != nil {
		if k.many[string(key)] {
			return errRepeated
		}
		k.many[string(key)] = true
		return nil
	}
	for _, one := range k.few {
		if string(one) == string(key) {
			return errRepeated
		}
	}
	k.few = append(k.few, key)
	if len(k.few) > fewKeys {
		k.many = make(map[string]bool, 2*fewKeys)
		for _, one := range k.few {
			k.many[string(one)] = true
		}
	}
	return nil
}
