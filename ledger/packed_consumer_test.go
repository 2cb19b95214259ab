package ledger

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestPackedConsumer unpacks what was packed, in all ranges of the fields and in
// whatever order allocations stand.
func TestPackedConsumer(t *testing.T) {
	providers := []UUID{{}, {1}, {15: 1}, {0xff, 15: 0xff}}
	times := rapid.OneOf(rapid.Int64(), rapid.Just(int64(math.MinInt64)), rapid.Just(int64(math.MaxInt64)))
	allocation := rapid.Custom(func(rt *rapid.T) Allocation {
		return Allocation{
			Provider: rapid.SampledFrom(providers).Draw(rt, "provider"),
			Class:    ClassID(rapid.Uint32().Draw(rt, "class")),
			Amount:   rapid.Int64().Draw(rt, "amount"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		c := &Consumer{
			UUID:       rapid.SampledFrom(providers).Draw(rt, "uuid"),
			Generation: rapid.Uint64().Draw(rt, "generation"),
			CreatedAt:  times.Draw(rt, "created"), UpdatedAt: times.Draw(rt, "updated"),
			ReservedUntil: times.Draw(rt, "reserved until"),
			Owner:         &Owner{Project: "p"},
			Allocations:   rapid.SliceOfN(allocation, 1, 64).Draw(rt, "allocations"),
		}
		if got := c.packed().consumer(); !reflect.DeepEqual(got, c) || got.Owner != c.Owner {
			rt.Fatalf("%+v became %+v", c, got)
		}
	})
}
