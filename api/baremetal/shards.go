package baremetal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// shards serves /shards: how many nodes each shard has, the largest shard first.
func (r nodes) shards() (*response, error) {
	if !r.allows("baremetal:shards:get", nil) {
		return nil, forbidden("baremetal:shards:get")
	}
	if _, err := r.parameters(); err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	err := r.View.Nodes(0, func(n *ledger.Node) bool {
		counts[detailText(n, "shard")]++
		return true
	})
	if err != nil {
		return nil, err
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	list := make([]object, len(names))
	for i, name := range names {
		list[i] = object{{"name", cmp.Or(name, "None")}, {"count", counts[name]}} // Ironic calls the lack of a shard so
	}
	return ok(object{{"shards", list}}), nil
}
