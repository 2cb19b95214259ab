package present

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ordered"
)

// group is a row: what has the same keys.
type group struct {
	key              string // the keys in one, in the same order
	keys             []string
	amount, capacity ledger.Integral
}

// groups keep the first groups after one, in order, and one more. One that is not among them
// when it comes never will be: their last one never moves back.
type groups struct {
	limit  int
	after  string
	byKey  map[string]*group
	sorted ordered.Tree[*group]
	key    []byte // scratch
}

func (g *groups) add(keys []string, amount, capacity ledger.Integral) {
	if g.byKey == nil {
		g.byKey, g.sorted = make(map[string]*group), ordered.New(func(a, b *group) bool { return a.key < b.key })
	}
	g.key = appendKeys(g.key[:0], keys)
	one := g.byKey[string(g.key)]
	if one == nil {
		if one = g.room(keys); one == nil {
			return
		}
	}
	one.amount, one.capacity = one.amount.Plus(amount), one.capacity.Plus(capacity)
}

// room makes a group; nil: it is not on this page.
func (g *groups) room(keys []string) *group {
	if string(g.key) <= g.after {
		return nil
	}
	if n := g.sorted.Len(); n > g.limit {
		last, _ := g.sorted.GetAt(n - 1)
		if last.key < string(g.key) {
			return nil
		}
		g.sorted.Delete(last)
		delete(g.byKey, last.key)
	}
	one := &group{key: string(g.key), keys: slices.Clone(keys)}
	g.sorted.Set(one)
	g.byKey[one.key] = one
	return one
}

func (g *groups) each(yield func(*group)) {
	if g.sorted == nil {
		return
	}
	left := g.limit
	g.sorted.Scan(func(one *group) bool {
		if left == 0 {
			return false
		}
		left--
		yield(one)
		return true
	})
}

// next is where the next page begins; empty: there is none.
func (g *groups) next() string {
	if g.sorted == nil || g.sorted.Len() <= g.limit {
		return ""
	}
	last, _ := g.sorted.GetAt(g.limit - 1)
	return base64.RawURLEncoding.EncodeToString([]byte(last.key))
}

// appendKeys writes keys so that they sort as one text as they do one by one: a zero ends
// each, and one within is written as a zero and a one, which sort behind the end.
func appendKeys(b []byte, keys []string) []byte {
	for _, key := range keys {
		b = append(b, strings.ReplaceAll(key, "\x00", "\x00\x01")...)
		b = append(b, 0, 0)
	}
	return b
}
