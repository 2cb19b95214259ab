package candidates

import (
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// named is what a request requires by name. Only trees that have all of it somewhere have
// candidates, unless sharing providers tie trees together.
type named struct {
	key        string
	root       []string        // traits of the root
	traits     [][]string      // one of each list
	aggregates [][]ledger.UUID // one of each list
}

// namedBy is what a request requires by name; nil: nothing.
func namedBy(req *Request) *named {
	n := &named{root: req.RootRequired}
	for i := range req.Groups {
		n.traits = append(n.traits, req.Groups[i].Required...)
		n.aggregates = append(n.aggregates, req.Groups[i].MemberOf...)
	}
	if len(n.root)+len(n.traits)+len(n.aggregates) == 0 {
		return nil
	}
	var key []byte
	key = binary.AppendUvarint(key, uint64(len(n.traits)))
	for _, list := range append([][]string{n.root}, n.traits...) {
		key = binary.AppendUvarint(key, uint64(len(list)))
		for _, name := range list {
			key = append(binary.AppendUvarint(key, uint64(len(name))), name...)
		}
	}
	for _, list := range n.aggregates {
		key = binary.AppendUvarint(key, uint64(len(list)))
		for _, id := range list {
			key = append(key, id[:]...)
		}
	}
	n.key = string(key)
	return n
}

// of reports whether a tree has what is required.
func (n *named) of(root *ledger.Provider, members []*ledger.Provider) bool {
	for _, name := range n.root {
		if !root.HasTrait(name) {
			return false
		}
	}
	for _, anyOf := range n.traits {
		if !someHave(members, func(p *ledger.Provider) bool { return hasAny(p, anyOf) }) {
			return false
		}
	}
	for _, anyOf := range n.aggregates {
		if !someHave(members, func(p *ledger.Provider) bool { return memberOfAny(p, anyOf) }) {
			return false
		}
	}
	return true
}

func someHave(members []*ledger.Provider, has func(*ledger.Provider) bool) bool {
	for _, p := range members {
		if has(p) {
			return true
		}
	}
	return false
}

// sets calls yield with the roots that each name leaves, by itself.
func (n *named) sets(w *World, yield func(*roaring.Bitmap)) {
	for _, name := range n.root {
		yield(bitsOf(w.traits, name))
	}
	for _, anyOf := range n.traits {
		yield(w.rootsOf(w.withAnyTrait(anyOf)))
	}
	for _, anyOf := range n.aggregates {
		yield(w.rootsOf(w.inAnyAggregate(anyOf)))
	}
}
