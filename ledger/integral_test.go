package ledger_test

import (
	"bytes"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
)

// TestIntegrals: sums of products are those of math/big, and are read as they were written.
func TestIntegrals(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}))
	rapid.Check(t, func(t *rapid.T) {
		var sum ledger.Integral
		want := new(big.Int)
		for range rapid.IntRange(0, 5).Draw(t, "products") {
			amount, time := number.Draw(t, "amount"), number.Draw(t, "time")
			product := new(big.Int).Mul(big.NewInt(amount), big.NewInt(time))
			if rapid.Bool().Draw(t, "taken away") {
				sum = sum.Minus(ledger.Product(amount, time))
				want.Sub(want, product)
			} else {
				sum = sum.Plus(ledger.Product(amount, time))
				want.Add(want, product)
			}
		}
		if sum.Big().Cmp(want) != 0 || sum.String() != want.String() {
			t.Fatalf("%s, want %s", sum, want)
		}
		written := sum.AppendTo(nil)
		read, size := ledger.ReadIntegral(append(bytes.Clone(written), 1, 2))
		if read != sum || size != len(written) {
			t.Fatalf("%s was read as %s from %d of %d bytes", sum, read, size, len(written))
		}
		if limit := max(1, (want.BitLen()+1+6)/7); len(written) > limit {
			t.Fatalf("%s takes %d bytes, more than %d", sum, len(written), limit)
		}
		for n := range written {
			if _, size := ledger.ReadIntegral(written[:n]); size != 0 {
				t.Fatalf("%d of %d bytes were taken for an integral", n, len(written))
			}
		}
	})
	if _, size := ledger.ReadIntegral(bytes.Repeat([]byte{255}, 100)); size != 0 {
		t.Error("a varint without an end was read")
	}
}
