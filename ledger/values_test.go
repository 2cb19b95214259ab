package ledger_test

import (
	"bytes"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
)

// TestUnits compares capacities with those computed with unbounded numbers.
func TestUnits(t *testing.T) {
	amount := rapid.OneOf(rapid.Int64Range(0, ledger.MaxAmount), rapid.Just(int64(ledger.MaxAmount)))
	ratio := rapid.OneOf(
		rapid.Float64Range(0, ledger.MaxAllocRatio), rapid.Float64Range(0, 100), rapid.Float64Range(1e9, 1e11),
	)
	rapid.Check(t, func(rt *rapid.T) {
		inv := ledger.Inventory{
			Total: amount.Draw(rt, "total"), Reserved: amount.Draw(rt, "reserved"), Ratio: ratio.Draw(rt, "ratio"),
		}
		product := new(big.Float).SetPrec(53).Mul(big.NewFloat(float64(inv.Total-inv.Reserved)), big.NewFloat(inv.Ratio))
		want, _ := product.Int(nil)
		for _, limit := range []int64{math.MaxInt64, math.MinInt64} {
			if edge := big.NewInt(limit); want.CmpAbs(edge) > 0 && want.Sign() == edge.Sign() {
				want = edge
			}
		}
		record := ledger.InventoryRecord{Total: inv.Total, Reserved: inv.Reserved, Ratio: inv.Ratio}
		if got := inv.Units(); got != want.Int64() || record.Units() != got {
			rt.Fatalf("(%d - %d) * %g: %d, not %s", inv.Total, inv.Reserved, inv.Ratio, got, want)
		}
	})
}

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
