// Package ordered keeps sets in order that are copied in constant time.
package ordered

import "github.com/tidwall/btree"

// Tree is a set of values in order, of which each is there once. It is not safe for concurrent use; its copies are
// independent of each other.
//
// It is what btree.BTreeG can do, and an interface because of the compiler: it makes the functions of a generic type
// anew, some hundred for each kind of values, in every package that sees a field of that type, whether they are called
// there or not. All packages see the State and its twenty trees, and three quarters of a build were their functions.
// Only New and Copy name the type, and only packages that make trees call these.
type Tree[T any] interface {
	// Len is the number of values.
	Len() int
	// Get returns the value that is neither before nor after the key.
	Get(key T) (value T, found bool)
	// GetHint is Get that begins where the last value with this path was.
	GetHint(key T, path *Path) (value T, found bool)
	// GetAt returns the value at an index, from 0, in the time that Get takes.
	GetAt(index int) (value T, found bool)
	// Set puts a value in, and returns the one whose place it takes.
	Set(value T) (previous T, replaced bool)
	// SetHint is Set that begins where the last value with this path was.
	SetHint(value T, path *Path) (previous T, replaced bool)
	// Delete takes the value out that is neither before nor after the key.
	Delete(key T) (value T, found bool)
	// Scan yields all values in order, until yield returns false.
	Scan(yield func(value T) bool)
	// Ascend yields the values that are not before first in order, until yield returns false.
	Ascend(first T, yield func(value T) bool)
}

// Path is where a value was found in a tree; the zero value knows none.
type Path = btree.PathHint

// New returns an empty tree with the order that before says.
func New[T any](before func(a, b T) bool) Tree[T] {
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

// Copy returns an independent copy of a tree that New or Copy returned, in constant time.
func Copy[T any](of Tree[T]) Tree[T] { return of.(*btree.BTreeG[T]).Copy() }
