package ledger_test

import (
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
