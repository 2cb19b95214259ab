package candidates

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/allot-project/allot/ledger"
)

// Compare returns how an index that was updated differs from one that is built
// anew from the same providers; nil: not at all. It compares the providers that
// numbers stand for, because each index has numbers of its own.
func (w *World) Compare(fresh *World) error {
	if got, want := w.members(w.all), fresh.members(fresh.all); !slices.Equal(got, want) {
		return fmt.Errorf("it numbers the providers %v, and there are %v", got, want)
	}
	var wrong error
	fresh.Each(func(p *ledger.Provider) bool {
		wrong = w.compareProvider(fresh, p.UUID)
		return wrong == nil
	})
	if wrong != nil {
		return wrong
	}
	if err := w.compareOrder(); err != nil {
		return err
	}
	return cmp.Or(
		compareBits(w, fresh, "roots", w.roots, fresh.roots),
		compareBits(w, fresh, "providers with a parent", w.nested, fresh.nested),
		comparePostings(w, fresh, "class", w.classes, fresh.classes),
		comparePostings(w, fresh, "trait", w.traits, fresh.traits),
		comparePostings(w, fresh, "aggregate", w.aggregates, fresh.aggregates),
	)
}

// compareProvider compares a provider, its root, and the tree that it is the root
// of.
func (w *World) compareProvider(fresh *World, id ledger.UUID) error {
	number, known := w.number(id)
	same, _ := fresh.number(id)
	if !known {
		return fmt.Errorf("it does not find provider %s", id)
	}
	is, want := w.entries.get(number), fresh.entries.get(same)
	if is.p == nil || is.p.UUID != id || !is.p.Same(want.p) {
		return fmt.Errorf("it has another version of provider %s", id)
	}
	if root := w.entries.get(is.root).p; root == nil || root.UUID != is.p.Root {
		return fmt.Errorf("it files provider %s under another root than %s", id, is.p.Root)
	}
	members, tree := w.named(w.treeNumbers(nil, number)), fresh.named(fresh.treeNumbers(nil, same))
	if !slices.Equal(members, tree) {
		return fmt.Errorf("the tree of provider %s has the members %v, not %v", id, members, tree)
	}
	return nil
}

// compareOrder checks the order of the numbers. Searches visit providers in it,
// so it must be the order of their creation.
func (w *World) compareOrder() error {
	var before *ledger.Provider
	for it := w.all.Iterator(); it.HasNext(); {
		p := w.entries.get(it.Next()).p
		if before != nil && p.CreatedAt < before.CreatedAt {
			return fmt.Errorf("provider %s comes before %s, which is older", before.UUID, p.UUID)
		}
		before = p
	}
	return nil
}

func compareBits(w, fresh *World, what string, bits, want *roaring.Bitmap) error {
	if got, want := w.members(bits), fresh.members(want); !slices.Equal(got, want) {
		return fmt.Errorf("its %s are %v, not %v", what, got, want)
	}
	return nil
}

func comparePostings[K comparable](w, fresh *World, what string, got, want map[K]*posting) error {
	for key := range got {
		if want[key] == nil {
			return fmt.Errorf("it has providers with %s %v, and there are none", what, key)
		}
	}
	for key := range want {
		about := fmt.Sprintf("providers with %s %v", what, key)
		if err := compareBits(w, fresh, about, bitsOf(got, key), bitsOf(want, key)); err != nil {
			return err
		}
	}
	return nil
}

// members returns the ids of the providers in a bitmap, sorted.
func (w *World) members(bits *roaring.Bitmap) []ledger.UUID { return w.named(bits.ToArray()) }

// named returns the ids of numbered providers, sorted; NilUUID for those that are
// gone.
func (w *World) named(numbers []uint32) []ledger.UUID {
	ids := make([]ledger.UUID, 0, len(numbers))
	for _, number := range numbers {
		id := ledger.NilUUID
		if p := w.entries.get(number).p; p != nil {
			id = p.UUID
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, ledger.UUID.Compare)
	return ids
}
