package ledger

import (
	"slices"

	"github.com/allot-project/allot/ledger/ordered"
)

// Change is one change of a thing in a commit: nil where it did not exist.
type Change[T any] struct{ Before, After *T }

// ProviderChange is one change of a provider.
type ProviderChange = Change[Provider]

// replace notes a change of a thing in a table, and makes it.
func replace[T any](table ordered.Tree[*T], changes *[]Change[T], before, after *T) {
	*changes = append(*changes, Change[T]{Before: before, After: after})
	indexIn(table)(before, after)
}

// indexIn returns the function that goes from one version of a thing to another in a table.
func indexIn[T any](table ordered.Tree[*T]) func(before, after *T) {
	return func(before, after *T) {
		if after == nil {
			table.Delete(before)
			return
		}
		table.Set(after)
	}
}

// undo takes changes back, the last one first.
func undo[T any](changes []Change[T], index func(before, after *T)) {
	for _, c := range slices.Backward(changes) {
		index(c.After, c.Before)
	}
}

// entry repeats the key beside the pointer, so that a search touches tree nodes
// only and allocates nothing.
type entry[T any] struct {
	id UUID
	is *T
}

func newTable[T any]() ordered.Tree[entry[T]] {
	return ordered.New(func(a, b entry[T]) bool { return a.id.Before(b.id) })
}

func find[T any](table ordered.Tree[entry[T]], id UUID) (*T, bool) {
	found, ok := table.Get(entry[T]{id: id})
	return found.is, ok
}

func scan[T any](table ordered.Tree[entry[T]], yield func(*T) bool) {
	table.Scan(func(e entry[T]) bool { return yield(e.is) })
}

// some reports whether a scan comes to something that is so.
func some[T any](scan func(yield func(T) bool), is func(T) bool) (found bool) {
	scan(func(one T) bool {
		found = is(one)
		return !found
	})
	return found
}
