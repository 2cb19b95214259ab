package placement

import (
	"cmp"
	"slices"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// ordered is a JSON object in the order of Placement's rows: providers and traits
// in the order of their creation, consumers in that of their last write, classes
// by number, and a consumer's allocations as they were asked for. Clients print
// what they get, and some compare it.
type ordered[V any] []pair[V]

type pair[V any] struct {
	key   string
	value V
}

// AppendJSON implements rest.Appender.
func (o ordered[V]) AppendJSON(b []byte) ([]byte, error) {
	return rest.AppendObject(b, len(o), func(i int) (string, any) { return o[i].key, o[i].value })
}

// MarshalJSON implements json.Marshaler.
func (o ordered[V]) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil) }

// inOrderOf puts the members in the order of keys, which must have them all.
func (o ordered[V]) inOrderOf(keys []string) ordered[V] {
	slices.SortStableFunc(o, func(a, b pair[V]) int {
		return cmp.Compare(slices.Index(keys, a.key), slices.Index(keys, b.key))
	})
	return o
}

// asMade orders things by the time at which they were made. Things that were made
// together are ordered by a property that never changes.
func asMade[V any](list []V, made func(V) int64, tie func(a, b V) int) {
	slices.SortFunc(list, func(a, b V) int {
		if order := cmp.Compare(made(a), made(b)); order != 0 {
			return order
		}
		return tie(a, b)
	})
}

// traitsAsMade orders names of traits: the standard ones, then custom ones in the
// order of their creation.
func traitsAsMade(r *request, names []string) ([]string, error) {
	traits := make([]*ledger.Trait, 0, len(names))
	for _, name := range names {
		t, found, err := r.View.Trait(name)
		if err != nil {
			return nil, err
		}
		if found {
			traits = append(traits, t)
		}
	}
	traitsInOrder(traits)
	return traitNames(traits), nil
}

func traitsInOrder(traits []*ledger.Trait) {
	asMade(
		traits, func(t *ledger.Trait) int64 { return t.CreatedAt },
		func(a, b *ledger.Trait) int { return cmp.Compare(a.Name, b.Name) },
	)
}

func traitNames(traits []*ledger.Trait) []string {
	names := make([]string, len(traits))
	for i, t := range traits {
		names[i] = t.Name
	}
	return names
}
