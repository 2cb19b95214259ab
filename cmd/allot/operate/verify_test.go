package operate

import (
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestMoreThanHalfOfTheWitnessesAreWanted: of a checkpoint, unless an auditor says how many.
func TestMoreThanHalfOfTheWitnessesAreWanted(t *testing.T) {
	var all []string
	for _, name := range []string{"a.example", "b.example", "c.example"} {
		all = append(all, ledgertest.WitnessKey(t, name))
	}
	operator := keyFlag{PublicKey: ledgertest.PublicKey(t, "operator.example")}
	for _, c := range []struct{ witnesses, asked, want int }{
		{0, 0, 0}, {1, 0, 1}, {2, 0, 2}, {3, 0, 2}, {3, 1, 1}, {3, 3, 3},
	} {
		trust, err := witnessFlag{Witness: all[:c.witnesses], Quorum: c.asked}.trust(operator)
		if err != nil || len(trust.Witnesses) != c.witnesses || trust.Quorum != c.want {
			t.Errorf("%+v: %d of %d, %v", c, trust.Quorum, len(trust.Witnesses), err)
		}
	}
	for _, quorum := range []int{-1, 4} {
		if trust, err := (witnessFlag{Witness: all, Quorum: quorum}).trust(operator); err == nil {
			t.Errorf("%d of %d", trust.Quorum, len(all))
		}
	}
}
